"""The engine in a Swift package: its sources and settings, and the package built by SwiftPM and run on Linux."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from base64 import b64encode
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import pytest

import edgec
from benchmarks.adapters import random_adapter
from edgec.apps.embed.embed import embed
from edgec.apps.embed.engine_sources import engine_functions, engine_sources
from edgec.apps.embed.swift_package import swift_package
from edgec.apps.embed.written_package import AppPackage
from edgec.bundle.folder import open_bundle
from edgec.bundle.golden import OutputVector, read_golden
from edgec.bundle.manifest import Manifest, Runtime
from edgec.engine.compile.build import SOURCES
from edgec.errors import InputError
from edgec.runtime_py.adapters.adapter_file import Adapter, write_adapter
from edgec.runtime_py.decoding.sampling import Sampler, Sampling
from edgec.runtime_py.generation.generate import stream_tokens
from edgec.runtime_py.sessions.session import Session
from tests.apps.ios_bundles import MODULE, bundle_of, decoder_manifest, module_manifest
from tests.apps.project_files import renamed_in
from tests.apps.schema_answers import (
    FEW,
    MOST,
    PROMPT,
    RunnerAnswers,
    assert_greedy,
    is_person,
    runner_answers,
    schema_option,
    token_pieces,
)
from tests.apps.swift_builds import Built, build
from tests.apps.swift_bundles import any_version
from tests.apps.swift_syntax import assert_sound, sources
from tests.apps.swift_toolchain import WORK, Swift

EXAMPLE = Path(__file__).parents[2] / "examples" / "tiny-stories"
MAIN = Path(__file__).parent / "swift_engine" / "main.swift"
NEW = 8


def package_of(folder: Path, artifact: bytes = b"EdgecLinear", manifest: Manifest | None = None) -> AppPackage:
    """The package of a bundle whose artifact has these bytes."""
    bundle = bundle_of(manifest or decoder_manifest("pte-cpu"), folder)
    (bundle.path / bundle.manifest.artifact).write_bytes(artifact)
    return swift_package(bundle)


def with_operators(*operators: str, version: str = "1.5.1") -> Manifest:
    """The manifest of a decoder with edgec's own operator and these."""
    names = ["edgec::rope.out", *operators]
    runtime = Runtime(name="executorch", version=version, backends=["XnnpackBackend"], operators=names)
    return decoder_manifest("pte-cpu", runtime=runtime)


def text(package: AppPackage, path: str) -> str:
    """The content of a written file."""
    content = package.files[path]
    assert isinstance(content, bytes)
    return content.decode()


def test_the_target_has_every_source_of_the_engine_and_the_kernels(tmp_path: Path) -> None:
    package = package_of(tmp_path)
    assert_sound(package)
    folder = f"Sources/{package.module}Engine/edgec/"
    carried = {path.removeprefix(folder): file for path, file in package.files.items() if path.startswith(folder)}
    assert carried == {name: SOURCES / name for name in engine_sources()} and len(carried) > 50
    assert "import ExecuTorch" not in "\n".join(sources(package).values())


@pytest.mark.long
def test_the_package_names_the_target_its_headers_and_what_it_links(tmp_path: Path) -> None:
    package = package_of(tmp_path)
    manifest = text(package, "Package.swift")
    assert f'let name = "{package.module}"' in manifest and "cxxLanguageStandard: .cxx17" in manifest
    assert '.headerSearchPath("edgec/include")' in manifest and "-ffp-contract=off" in manifest
    assert 'let engine: String? = "1.5.1"' in manifest
    assert "backend_xnnpack" not in manifest and 'let linked = ["executorch", "kernels_optimized"]' in manifest
    both = text(package_of(tmp_path, b"EdgecLinear XnnpackBackend"), "Package.swift")
    assert '"backend_xnnpack"' in both
    quantized = package_of(tmp_path, manifest=with_operators("quantized_decomposed::embedding_byte.out"))
    assert '"kernels_quantized"' in text(quantized, "Package.swift")
    assert "-all_load" in text(package, f"Config/{package.module}.xcconfig")


def test_each_package_has_names_of_its_own_for_the_linker(tmp_path: Path) -> None:
    package = package_of(tmp_path)
    header = text(package, f"Sources/{package.module}Engine/include/{package.module}Engine.h")
    renamed = dict(re.findall(r"^#define (edgec_\w+) (\w+)$", header, re.MULTILINE))
    defined = {name: here for name, here in renamed_in(package).items() if name.startswith("edgec_")}
    assert renamed.items() >= defined.items() and set(defined) == set(engine_functions()) and len(defined) > 15
    assert all(name.startswith(f"{package.module}_") for name in renamed.values())
    called = set(re.findall(rf"{package.module}_\w+", text(package, f"Sources/{package.module}/RuntimeEngine.swift")))
    assert called <= set(defined.values()) and len(called) > 5


def test_artifacts_without_edgecs_kernels_keep_executorchs_own_interface(tmp_path: Path) -> None:
    package = package_of(tmp_path, b"XnnpackBackend")
    assert not [path for path in package.files if "Engine" in path]
    assert "let folders = [String]()" in text(package, "Package.swift")


def test_models_that_are_not_decoders_run_in_the_engine_too(tmp_path: Path) -> None:
    package = package_of(tmp_path, manifest=module_manifest("pte-cpu", MODULE))
    assert_sound(package)
    assert f"Sources/{package.module}/RuntimeEngine.swift" in package.files


@pytest.mark.parametrize(
    "manifest",
    [
        with_operators("other::thing.out"),
        with_operators('aten::mul.out"), .unsafeFlags(["x'),
        with_operators(version='1.0", to: "2'),
        decoder_manifest("pte", runtime=with_operators().runtime),
    ],
    ids=["unknown operator", "odd operator", "odd version", "neural engine"],
)
def test_what_the_engine_cannot_run_is_refused(manifest: Manifest, tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        package_of(tmp_path, manifest=manifest)
    assert caught.value.code == "E464"


@dataclass(frozen=True)
class Ran:
    """A package of the example that SwiftPM built, and what its program printed."""

    built: Built
    module: str
    bundle: Path
    adapter: Adapter
    golden: OutputVector
    said: dict[str, str]
    adapted: list[int]  # what Python says under the adapter
    held: RunnerAnswers


@pytest.fixture(scope="module")
def ran(swift: Swift, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """The example model with the default recipe, exported for an iPhone's processor, embedded, built and run."""
    own = tmp_path_factory.mktemp("own")
    schemas = schema_option(own)
    bundle = edgec.export(EXAMPLE, target="iphone-16-pro-cpu", out=own / "tiny.edgec", schemas=schemas)
    folder = swift.work / "engine"
    folder.mkdir()
    module = embed(bundle, "ios", folder / "kit").package.module
    any_version(folder / "kit" / "Sources" / module)
    built = build(swift, folder, module, MAIN.read_text().replace("KIT", module))
    opened = open_bundle(bundle)
    assert opened.golden_path is not None
    golden = read_golden(opened.golden_path)
    _break(opened.path, opened.manifest.artifact, folder / "broken")
    shutil.copytree(bundle, folder / "other")
    accepted = [*(vector.label for vector in golden.texts), "chat"]
    adapter = random_adapter(opened, 8, seed=1, deviation=0.2)
    write_adapter(adapter, folder / "a.adapter")
    held = runner_answers(bundle, golden.outputs[0].prompt_ids)
    prompt = [*map(str, golden.outputs[0].prompt_ids)]
    asked = {"prompt": prompt, "accepted": accepted, "new": NEW, "adapter": f"{WORK}/{folder.name}/a.adapter"}
    asked |= {"most": MOST, "few": FEW, "text": PROMPT, "textTokens": held.prompt}
    asked["pieces"] = [b64encode(piece).decode() for piece in token_pieces(bundle)]
    (folder / "asked.json").write_text(json.dumps(asked))
    words = [f"{WORK}/{folder.name}/{name}" for name in ("asked.json", "broken", "other")]
    done = swift.run(["env", f"HOME={WORK}/{folder.name}", "timeout", "300", built.program, *words])
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    said = dict(row.split("=", 1) for row in done.stdout.splitlines())
    session = Session(opened)
    session.adapter = adapter
    adapted = said_by(session, golden.outputs[0].prompt_ids)
    return Ran(built, module, bundle, adapter, golden.outputs[0], said, adapted, held)


def said_by(session: Session, prompt: list[int]) -> list[int]:
    """The greedy tokens after a prompt, from Python."""
    return list(islice(stream_tokens(session, prompt, Sampler(Sampling())), NEW))


def _break(bundle: Path, artifact: str, folder: Path) -> None:
    """A copy whose artifact has the right size and another beginning: after the first start only sizes are checked."""
    shutil.copytree(bundle, folder)
    content = (folder / artifact).read_bytes()
    (folder / artifact).write_bytes(b"\xff" * 64 + content[64:])


@pytest.mark.slow
def test_the_package_replays_and_continues_the_golden_tokens(ran: Ran) -> None:
    """`load()` replayed the golden vectors on the way; they were written by the same sources on this machine."""
    golden = ran.golden.continuation_ids
    assert ran.said["generated"] == ran.said["again"] == str(golden[:NEW])
    assert ran.said["at once"] == f"({golden[:4]}, {golden[:4]})"


@pytest.mark.slow
def test_an_adapter_changes_the_answer_as_in_python_and_is_taken_away_again(ran: Ran) -> None:
    assert ran.said["adapted"] == str(ran.adapted) != ran.said["generated"] == ran.said["without"]
    assert ran.said["refused"].startswith("adapterRefused(") and ran.said["refused"].endswith(" a.adapter")


@pytest.mark.slow
def test_answers_under_a_schema_are_those_of_the_runner(ran: Ran) -> None:
    free = ran.held.free["text"]
    assert ran.said["held"] == free.replace("\n", "\\n")
    assert ran.said["held adapted"] != ran.said["held tokens"]
    assert_greedy(ran.bundle, ran.adapter, ran.golden.prompt_ids, json.loads(ran.said["held adapted"]))
    finish = {"complete": "complete", "eos": "endOfText"}[ran.held.free["finish"]]
    assert ran.said["held finish"] == f"{finish} true" and ran.said["held tokens"] == str(ran.held.tokens)
    assert ran.said["free again"] == ran.said["generated"]
    wanted = {name: json.loads(free)[name] for name in ("name", "age", "pet")}
    assert json.loads(ran.said["held value"]) == wanted
    drawn = {ran.said[f"drawn {seed}"].replace("\\n", "\n") for seed in range(3)}
    assert all(map(is_person, drawn)) and len(drawn) > 1


@pytest.mark.slow
def test_cut_answers_and_schemas_that_cannot_be_used_are_errors(ran: Ran) -> None:
    said, free = ran.said, ran.held.free["text"].replace("\n", "\\n")
    assert said["cut finish"] == "length" and said["cut"] and free.startswith(said["cut"])
    assert said["unfinished"].startswith("answerUnfinished(text: ") and 'why: "length"' in said["unfinished"]
    assert "typeMismatch" in said["other type"]
    for name, why in (("stopped", "stop texts"), ("damaged", "damaged"), ("absent", "has no schema person")):
        assert said[f"{name} schema"].startswith("schemaRefused(") and why in said[f"{name} schema"]


@pytest.mark.slow
def test_why_the_engine_refuses_reaches_the_app(ran: Ran) -> None:
    assert re.fullmatch(r'engineFailed\("the artifact is not a program .*"\)', ran.said["broken"])


@pytest.mark.slow
def test_the_linker_sees_only_names_of_this_package(ran: Ran) -> None:
    objects = ran.built.objects(f"{ran.module}Engine")
    line = ["nm", "--defined-only", "--extern-only", *map(str, objects)]
    told = subprocess.run(line, capture_output=True, text=True, check=True).stdout
    # W, V and u are merged by a linker; the others may stand only once in an app.
    strong = {row.split()[2] for row in told.splitlines() if re.match(r"[0-9a-f]+ [TDBRSGC] ", row)}
    assert len(objects) > 30 and len(strong) > 50
    assert {name for name in strong if ran.module not in name} == set()
    # One package's destructor of a struct must not stand for another's, whose members may lie elsewhere.
    assert not [row for row in told.splitlines() if "Edgec" in row and ran.module not in row]
