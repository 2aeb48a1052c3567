"""Schemas that a bundle ships: its files and manifest, Python's and the runner's texts held to them, and refusals."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, cast

import pytest
from typer.testing import CliRunner

import edgec
from edgec.bundle.folder import open_bundle
from edgec.bundle.schemas import MOST_SCHEMA_BYTES
from edgec.cli.app import app
from edgec.engine.compile.build import build_runner
from edgec.errors import InputError
from edgec.exporter.schemas.shipped import _stored, schema_files
from edgec.runtime_py.structured.shipped import shipped_schema, shipped_structure
from edgec.runtime_py.structured.wanted import wanted
from tests.engine.test_structured_text import PERSON
from tests.exporter.schemas.walker import matcher_of
from tests.runtime_py.structured.steppers import EXAMPLE

pytestmark = pytest.mark.long

PROMPT = "Lily has a friend: "
BUDGET = 90
SUM = r"""
start: sum
sum: sum ("+" | "-") term | term
term: /[0-9]{1,3}/ | "(" sum ")"
%ignore " "
"""
VERSE = r"The [a-z]{3,8}( said)?,\n\t\"[^\"\x00-\x08]{1,20}\"\x01\\"


@pytest.fixture(scope="module")
def shipped(stage_cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example model with two schemas, a regular expression and a grammar."""
    folder = tmp_path_factory.mktemp("shipped")
    (folder / "person.json").write_text(json.dumps(PERSON))
    (folder / "yes.json").write_text('{"type": "boolean"}')
    files = {"person": folder / "person.json", "yes-no": folder / "yes.json"}
    (folder / "sum.lark").write_text(SUM)
    out, grammars = folder / "shipped.edgec", {"sum": folder / "sum.lark"}
    return edgec.export(EXAMPLE, out=out, context=256, schemas=files, regexes={"verse": VERSE}, grammars=grammars)


def test_what_is_stored_is_no_larger_than_what_is_read() -> None:
    lines = ["x"] * 200_000
    assert _stored(lines[:10]).count(b"\n") == 11
    assert len(_stored(lines)) <= MOST_SCHEMA_BYTES < len(json.dumps(lines, indent=1))
    with pytest.raises(InputError, match="as JSON it has more than") as caught:
        _stored(["xx"] * 200_000)
    assert caught.value.code == "E614"


def test_the_manifest_names_the_schemas_and_lists_their_files(shipped: Path) -> None:
    manifest = open_bundle(shipped).manifest
    assert manifest.schemas == ["person", "sum", "verse", "yes-no"]
    listed = {file.path for file in manifest.files if file.path.startswith("schemas/")}
    files = [f"{name}.{end}" for name in manifest.schemas for end in ("json", "grammar")]
    assert listed == {f"schemas/{name}" for name in (*files, "vocabulary.bin")}
    assert shipped_schema(open_bundle(shipped), "person") == PERSON
    assert shipped_schema(open_bundle(shipped), "verse") == VERSE
    assert shipped_structure(open_bundle(shipped), "sum") == {"grammar": SUM}


def test_a_bundle_that_lacks_a_schemas_file_is_refused(shipped: Path, tmp_path: Path) -> None:
    other = shutil.copytree(shipped, tmp_path / "other.edgec")
    (other / "schemas" / "person.grammar").unlink()
    with pytest.raises(InputError):
        open_bundle(other)


def run_runner(bundle: Path, tokens: list[int], name: str, count: int) -> dict[str, Any]:
    line = [str(build_runner().runner), "--bundle", str(bundle), "--tokens", ",".join(map(str, tokens))]
    done = subprocess.run(
        [*line, "--schema", name, "--new-tokens", str(count)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout.splitlines()[-1]))


def written_by_both(bundle: Path, name: str, count: int) -> tuple[Any, dict[str, Any]]:
    """What Python says under a structure of the bundle, and what the runner writes: the same tokens."""
    model = edgec.load(bundle)
    prompt = model.encode(PROMPT)
    said = model.generate(prompt, schema=name, max_new_tokens=count)
    written = run_runner(bundle, prompt, name, count)
    assert written["tokens"] == list(said.tokens)
    assert written["finish"] == said.finish_reason and written["text"] == said.text
    return said, written


@pytest.mark.parametrize("name", ["person", "yes-no"])
def test_the_runner_writes_the_tokens_of_python(shipped: Path, name: str) -> None:
    said, written = written_by_both(shipped, name, 200)
    assert json.loads(written["text"]) == said.value


@pytest.mark.parametrize("count", [40, 60])
def test_a_regular_expression_is_shipped_likewise(shipped: Path, count: int) -> None:
    said, written = written_by_both(shipped, "verse", count)
    model = edgec.load(shipped)
    prompt = model.encode(PROMPT)
    assert written["finish"] == "complete" and said.text == said.value and re.fullmatch(VERSE, said.text)
    assert model.generate(prompt, regex=VERSE, max_new_tokens=count).finish_reason == "complete"
    with pytest.raises(InputError) as error:
        model.generate(prompt, schema="verse", regex="a")
    assert error.value.code == "E610"


@pytest.mark.parametrize("count", [7, 40])
def test_a_grammar_is_shipped_likewise(shipped: Path, count: int) -> None:
    said, _ = written_by_both(shipped, "sum", count)
    model = edgec.load(shipped)
    prompt = model.encode(PROMPT)
    assert said.finish_reason in ("complete", "eos") and said.text == said.value
    asked = wanted(grammar=SUM)
    assert asked is not None
    matcher = matcher_of(asked)
    assert matcher.consume(list(said.text.encode())) == len(said.text) and matcher.accepting
    assert list(model.generate(prompt, schema="sum", max_new_tokens=count, speculate="ngram").tokens) == list(
        said.tokens
    )


def test_a_grammar_that_is_not_compiled_is_refused_before_any_work(tmp_path: Path) -> None:
    (tmp_path / "name.lark").write_text('start: WORD "x"\nWORD: /[a-z]+/')
    with pytest.raises(InputError, match=r"name\.lark") as error:
        edgec.export(EXAMPLE, out=tmp_path / "x.edgec", grammars={"name": tmp_path / "name.lark"})
    assert error.value.code == "E771"
    for grammars, code in (({"name": "absent.lark"}, "E611"), ({"1": "absent.lark"}, "E712")):
        with pytest.raises(InputError) as error:
            edgec.export(EXAMPLE, out=tmp_path / "x.edgec", grammars=grammars)
        assert error.value.code == code


def test_a_text_of_the_runner_is_closed_within_its_tokens(shipped: Path) -> None:
    prompt = edgec.load(shipped).encode(PROMPT)
    for count in (40, 50, BUDGET):
        written = run_runner(shipped, prompt, "person", count)
        assert written["finish"] in ("complete", "eos") and len(written["tokens"]) <= count
        assert json.loads(written["text"])["pet"] in ("dog", "cat", "frog")
    short = run_runner(shipped, prompt, "person", 4)
    assert short["finish"] == "length" and short["text"] is None


@pytest.mark.parametrize("count", [4, 40, 45, 50, 60, BUDGET])
def test_python_closes_a_text_with_the_tokens_of_the_runner(shipped: Path, count: int) -> None:
    model = edgec.load(shipped)
    prompt = model.encode(PROMPT)
    written = run_runner(shipped, prompt, "person", count)
    for how in ("off", "ngram"):
        said = model.generate(prompt, schema="person", max_new_tokens=count, speculate=how)
        assert (list(said.tokens), said.finish_reason) == (written["tokens"], written["finish"])
        assert said.text == (written["text"] or said.text) and (said.value is None) == (written["text"] is None)


def test_the_command_takes_a_schemas_name(shipped: Path) -> None:
    done = CliRunner().invoke(app, ["run", str(shipped), "-p", PROMPT, "--raw", "--schema", "yes-no", "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout.strip().splitlines()[-1])["value"] in (True, False)


def test_a_name_that_the_bundle_lacks_is_refused(shipped: Path, tiny_bundle: Path) -> None:
    for bundle, why in ((shipped, "person, sum, verse, yes-no"), (tiny_bundle, "without schemas")):
        with pytest.raises(InputError, match=why) as error:
            edgec.load(bundle).generate("x", schema="animal")
        assert error.value.code == "E714"


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("--schema", "animal"), "cannot be read"),
        (("--schema", "../person"), "--schema is the name"),
        (("--schema", "person", "--score"), "--schema is the name"),
    ],
)
def test_the_runner_refuses(shipped: Path, arguments: tuple[str, ...], why: str) -> None:
    line = [str(build_runner().runner), "--bundle", str(shipped), "--tokens", "1,2", *arguments]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and why in done.stderr


def test_a_name_that_leads_out_of_the_bundle_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError) as error:
        edgec.export(EXAMPLE, out=tmp_path / "x.edgec", schemas={"../a": tmp_path / "a.json"})
    assert error.value.code == "E712"


def test_a_keyword_that_is_not_compiled_is_refused_before_any_work(tmp_path: Path) -> None:
    (tmp_path / "mail.json").write_text('{"type": "string", "format": "email"}')
    with pytest.raises(InputError, match=r"mail\.json") as error:
        edgec.export(EXAMPLE, out=tmp_path / "x.edgec", schemas={"mail": tmp_path / "mail.json"})
    assert error.value.code == "E710"


@pytest.mark.parametrize("names", [("one", "One"), ("1",), ("a b",), ("a" * 65,)])
def test_names_that_no_bundle_can_hold_are_refused_before_anything_is_read(names: tuple[str, ...]) -> None:
    with pytest.raises(InputError) as error:
        schema_files(dict.fromkeys(names, "absent.json"), {}, {}, cast(Any, None), None)
    assert error.value.code == "E712"
