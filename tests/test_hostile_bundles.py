"""Bundles whose digests are right and whose contents are evil: whatever is done with them, only EdgecError comes out.

The corpus is in `tests.hostile_bundles`. A small part runs always; ``make test-all`` runs all of it and prints counts.
"""

from __future__ import annotations

import io
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path

import pytest

from edgec.apps.embed.embed import embed
from edgec.bundle.folder import Bundle, open_bundle
from edgec.bundle.golden import read_golden
from edgec.errors import EdgecError, InputError
from edgec.exporter.sources.tokenizer import load_tokenizer
from edgec.runtime_py.model import Model, load
from edgec.runtime_py.verify.verify import output_fault, text_fault, verify
from tests.bundle.hostile_tokenizers import EXPRESSIONS, LETTERS, harmful, split, tokenizer_json
from tests.hostile_bundles import (
    ENDLESS_TEMPLATES,
    Case,
    Fields,
    file_case,
    generation_cases,
    golden_cases,
    make,
    manifest_cases,
    prefix_cases,
    tokenizer_cases,
)

Use = Callable[[Bundle, Path], None]


class _NoStdin(io.StringIO):
    def readline(self, size: int = -1, /) -> str:  # type: ignore[override]
        raise AssertionError("something asked on stdin")


@pytest.fixture(autouse=True)
def no_stdin(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing may ask."""
    monkeypatch.setattr(sys, "stdin", _NoStdin())


def _outcomes(cases: Iterable[Case], intact: Path, folder: Path, use: Use) -> Counter[str]:
    """What became of each case: ``accepted`` or an error's code; anything else fails by the case's name."""
    found: Counter[str] = Counter()
    for case in cases:
        path = make(case, intact, folder)
        try:
            use(open_bundle(path), folder)
            found["accepted"] += 1
        except EdgecError as error:
            assert error.what and error.fix, case.name
            found[error.code] += 1
        except Exception as error:
            raise AssertionError(f"{case.name}: {type(error).__name__}: {error}") from error
    return found


def _told(name: str, found: Counter[str], capsys: pytest.CaptureFixture[str]) -> int:
    with capsys.disabled():
        print(f"\n{name}: {found.total()} cases, {dict(sorted(found.items()))}")
    return found.total()


def _generate(bundle: Bundle, folder: Path) -> None:
    model = load(bundle)
    assert all(isinstance(token, int) for token in model.eos)
    if bundle.manifest.limits:
        model.generate([5, 6, 7], max_new_tokens=2)


def _speak(bundle: Bundle, folder: Path) -> None:
    model = load(bundle)
    model.encode("Hello there, 你好")
    model.decode([5, 6, 7, 319])
    if model.has_template:
        model.chat("Be brief.").say("Hello", model.request(max_new_tokens=1))


def _replay(bundle: Bundle, folder: Path) -> None:
    assert bundle.golden_path is not None
    golden, model = read_golden(bundle.golden_path), _model(bundle)
    for vector in golden.outputs:
        output_fault(model, vector)
    for text in golden.texts[:2]:
        text_fault(model, text)


def _model(bundle: Bundle) -> Model:
    return load(bundle)


def _embedded(cases: Iterable[Case]) -> Iterator[Case]:
    """The same for a phone, so that an app could take them in."""
    for case in cases:

        def change(path: Path, fields: Fields, inner: Case = case) -> None:
            fields["target"] = "android-cpu"
            fields["runtime"]["operators"] = ["aten::embedding.out"]
            inner.change(path, fields)

        yield Case(case.name, change)


def _embed(bundle: Bundle, folder: Path) -> None:
    out = folder / "app"
    try:
        embed(bundle.path, "android", out)
    finally:
        if out.exists():
            out.rename(folder / f"app-{len(list(folder.iterdir()))}")


def _fields(bundle: Path, name: str = "manifest.json") -> Fields:
    result: Fields = json.loads((bundle / name).read_text())
    return result


@pytest.mark.long
def test_a_part_of_the_corpus(tiny_bundle: Path, tmp_path: Path) -> None:
    fields = _fields(tiny_bundle)
    parts = (
        (islice(manifest_cases(fields), 0, None, 97), _generate),
        (islice(generation_cases(), 0, None, 7), _generate),
        (islice(golden_cases(_fields(tiny_bundle, "golden.json")), 0, None, 61), _replay),
        (islice(tokenizer_cases(), 0, None, 23), _speak),
    )
    found = Counter[str]()
    for cases, use in parts:
        found += _outcomes(cases, tiny_bundle, tmp_path, use)
    assert found.total() > 80 and {"accepted", "E131", "E138", "E141", "E158"} <= set(found), found


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", ["tiny_bundle", "prefix_bundle"])
def test_every_field_of_a_manifest(
    request: pytest.FixtureRequest, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    intact: Path = request.getfixturevalue(name)
    found = _outcomes(manifest_cases(_fields(intact)), intact, tmp_path, _generate)
    assert _told(f"manifest.json of {name}", found, capsys) > 3000 and found["E131"] > 2000


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_every_other_file(
    tiny_bundle: Path, prefix_bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = (prefix_bundle / "prefix" / "state.safetensors").read_bytes()
    golden = golden_cases(_fields(tiny_bundle, "golden.json"))
    for name, cases, intact, use, least in (
        ("golden.json", golden, tiny_bundle, _replay, 800),
        ("generation_config.json", generation_cases(), tiny_bundle, _generate, 100),
        ("tokenizer/", tokenizer_cases(), tiny_bundle, _speak, 350),
        ("prefix/", prefix_cases(state), prefix_bundle, _generate, 200),
    ):
        assert _told(name, _outcomes(cases, intact, tmp_path, use), capsys) > least


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_embed_of_every_bundle(prefix_bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state = (prefix_bundle / "prefix" / "state.safetensors").read_bytes()
    cases = [
        *islice(manifest_cases(_fields(prefix_bundle)), 0, None, 9),
        *generation_cases(),
        *islice(tokenizer_cases(), 0, None, 2),
        *islice(prefix_cases(state), 8),
        *islice(golden_cases(_fields(prefix_bundle, "golden.json")), 0, None, 20),
    ]
    assert _told("embed", _outcomes(_embedded(cases), prefix_bundle, tmp_path, _embed), capsys) > 500


@pytest.mark.slow
@pytest.mark.parametrize("name", ENDLESS_TEMPLATES)
def test_a_template_without_end_stops_nothing_but_itself(tiny_bundle: Path, tmp_path: Path, name: str) -> None:
    case = file_case(name, "tokenizer/chat_template.jinja", ENDLESS_TEMPLATES[name])
    path = make(case, tiny_bundle, tmp_path)
    model = load(path)
    with pytest.raises(EdgecError, match="E159"):
        model.generate("Hello", template=True, max_new_tokens=1)
    assert model.generate([5, 6], max_new_tokens=2).tokens
    report = verify(path, threads=1)
    assert [check.name for check in report.checks if check.status == "failed"] == ["chat template"]


@pytest.mark.long
def test_a_harmful_tokenizer_is_refused_wherever_it_is_opened(tiny_bundle: Path, tmp_path: Path) -> None:
    for name in ("three normalizers", "a table of a false size"):
        case = file_case(name, "tokenizer/tokenizer.json", harmful()[name])
        assert _outcomes([case], tiny_bundle, tmp_path, _speak) == {"E158": 1}
        assert _outcomes(_embedded([case]), tiny_bundle, tmp_path, _embed) == {"E158": 1}
        path = make(case, tiny_bundle, tmp_path)
        assert "tokenizer" in [check.name for check in verify(path, threads=1).checks if check.status == "failed"]
        with pytest.raises(InputError, match="E113"):
            load_tokenizer(path / "tokenizer")


@pytest.mark.long
def test_a_tokenizer_without_end_stops_nothing_but_itself(tiny_bundle: Path, tmp_path: Path) -> None:
    case = file_case("slow", "tokenizer/tokenizer.json", tokenizer_json(pre_tokenizer=split(EXPRESSIONS[0])))
    model = load(make(case, tiny_bundle, tmp_path))
    with pytest.raises(EdgecError, match="E158"):
        model.generate(LETTERS, max_new_tokens=1)
    assert model.generate("bad", max_new_tokens=2).tokens
