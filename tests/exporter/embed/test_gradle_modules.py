"""Gradle modules: every manifest value stays inside its literal, the schema is the schema, the Kotlin compiles."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from dataclasses import MISSING, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgec.devices.transport import DeviceFacts
from edgec.errors import InputError
from edgec.exporter.bundle.folder import Bundle, open_bundle, write_bundle
from edgec.exporter.bundle.golden import ChatVector, Golden, OutputVector, TextVector, golden_bytes
from edgec.exporter.bundle.manifest import Runtime
from edgec.exporter.embed import app_facts, kotlin_text, template_text
from edgec.exporter.embed.gradle_modules import _JOB, gradle_modules
from edgec.exporter.embed.written_package import AppPackage, write_package
from edgec.runtime_py import bench_record
from edgec.runtime_py.stopping import StopText
from tests.exporter.embed.ios_bundles import bundle_of, decoder_manifest, module_manifest

STAND_INS = Path(__file__).parent / "kotlin_stand_ins"
EXAMPLE = Path(__file__).parents[3] / "examples" / "tiny-llama"
TEMPLATES = Path(app_facts.__file__).parent / "kotlin"


def _bundle(folder: Path, **fields: Any) -> Bundle:
    files = {f"tokenizer/{name}": (EXAMPLE / name).read_bytes() for name in ("tokenizer.json", "tokenizer_config.json")}
    return bundle_of(decoder_manifest("pte-cpu", **{"target": "android-cpu", **fields}), folder, files)


def _text(package: AppPackage, end: str) -> str:
    content = next(content for name, content in package.files.items() if name.endswith(end))
    assert isinstance(content, bytes)
    return content.decode()


def test_the_modules_hold_wrapper_bundle_and_bench_app(tmp_path: Path) -> None:
    package = gradle_modules(_bundle(tmp_path))
    assert package.module == "dev.edgec.stories260khost" and not package.asset_pack
    assert 'include(":model", ":bench")' in _text(package, "settings.gradle.kts")
    model = _text(package, "model/build.gradle.kts")
    assert 'noCompress += listOf("pte", "safetensors")' in model and 'abiFilters += "arm64-v8a"' in model
    assert "org.pytorch:executorch-android:1.5.1" in model
    assert "model/src/main/assets/model.edgec/model.pte" in package.files
    assert not [name for name, content in package.files.items() if isinstance(content, bytes) and b"@@" in content]
    for name in package.files:
        if name.endswith("AndroidManifest.xml"):
            ElementTree.fromstring(_text(package, name))


def test_facts_come_from_the_bundle(tmp_path: Path) -> None:
    package = gradle_modules(_bundle(tmp_path))
    facts = _text(package, "DecoderFacts.kt")
    assert "setOf<Int>(2, 3)" in facts and "REPETITION_PENALTY = 1.1f" in facts and "CAN_REWIND = false" in facts
    assert "VOCABULARY = 512" in facts and '"user" to Pair("CITIZEN:\\u000A", "\\u000A\\u000A")' in facts
    assert 'TensorFacts("tokens", "int64", 1L, -1L)' in _text(package, "ModelFacts.kt")


def test_a_large_bundle_is_an_ai_pack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app_facts, "ASSET_PACK_BYTES", 100)
    package = gradle_modules(_bundle(tmp_path))
    assert package.asset_pack and "model_pack/src/main/assets/model.edgec/model.pte" in package.files
    assert 'id("com.android.ai-pack")' in _text(package, "model_pack/build.gradle.kts")
    assert 'include(":model", ":bench", ":model_pack")' in _text(package, "settings.gradle.kts")
    assert 'assetPacks += listOf(":model_pack")' in _text(package, "bench/build.gradle.kts")
    assert "Play AI pack" in _text(package, "README.md")


@pytest.mark.parametrize(
    ("fields", "code"),
    [({"target": "iphone-16-pro-cpu"}, "E460"), ({"format": "qnn"}, "E464"), ({"limits": None}, "E464")],
)
def test_what_does_not_fit_is_refused(fields: dict[str, Any], code: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        gradle_modules(_bundle(tmp_path, **fields))
    assert caught.value.code == code


def test_own_kernels_and_modules_are_refused(tmp_path: Path) -> None:
    runtime = Runtime(name="executorch", version="1", backends=["XnnpackBackend"], operators=["edgec::attention.out"])
    with pytest.raises(InputError) as caught:
        gradle_modules(_bundle(tmp_path, runtime=runtime))
    assert "--kernels standard" in caught.value.fix
    module = module_manifest("pte-cpu", decoder_manifest("pte-cpu").methods, target="android-cpu")
    with pytest.raises(InputError):
        gradle_modules(bundle_of(module, tmp_path / "module"))


@given(st.text())
@settings(max_examples=300, deadline=None)
def test_a_kotlin_literal_says_the_same_text(value: str) -> None:
    literal = kotlin_text.string(value)
    assert literal.isascii() and literal.count('"') == 2 and "$" not in literal
    assert not re.search(r"\\(?!u[0-9A-F]{4})", literal)
    units = re.sub(r"\\u([0-9A-F]{4})", lambda found: chr(int(found[1], 16)), literal[1:-1])
    back = units.encode("utf-16", "surrogatepass").decode("utf-16")
    assert back == re.sub("[\ud800-\udfff]", "\ufffd", value)


@given(st.text(max_size=30))
@settings(max_examples=100, deadline=None)
def test_packages_have_plain_names(name: str) -> None:
    assert re.fullmatch(r"dev\.edgec\.[a-z][a-z0-9]*", kotlin_text.package_name(name))


def _keys(function: str) -> set[str]:
    source = (TEMPLATES / "BenchRecords.kt.template").read_text()
    found = re.search(rf"fun {function}\(.*?\n    \)", source, re.DOTALL)
    assert found is not None
    return set(re.findall(r'^\s*"([a-z0-9_]+)" to', found[0], re.MULTILINE))


def _assert_fields(written: set[str], record: Any) -> None:
    """Only fields of the record, and all those without a default."""
    assert written <= set(record.model_fields)
    assert {name for name, field in record.model_fields.items() if field.is_required()} <= written


@pytest.mark.parametrize("kind", ["Run", "Load", "Memory", "Repetition", "Sustained"])
def test_the_bench_app_writes_the_fields_of_the_schema(kind: str) -> None:
    record = getattr(bench_record, f"{kind}Record")
    _assert_fields(_keys(kind.lower()) | _keys("common"), record)
    assert "kind" in _keys(kind.lower())
    _assert_fields(_keys("comparability"), bench_record.Comparability)
    _assert_fields(_keys("subject"), bench_record.Subject)
    fields = DeviceFacts.__dataclass_fields__
    required = {name for name, field in fields.items() if field.default is MISSING}
    assert required | {"executed_in"} <= _keys("device") <= set(fields)


def test_the_bench_app_reads_what_its_job_says(tmp_path: Path) -> None:
    sources = "".join((TEMPLATES / f"{name}.kt.template").read_text() for name in ("BenchActivity", "BenchRecords"))
    read = set(re.findall(r'job\.get\w+\("(\w+)"\)', sources))
    assert read == {*_JOB, "edgec_version"} == set(json.loads(_text(gradle_modules(_bundle(tmp_path)), "job.json")))


def test_every_template_is_used(tmp_path: Path) -> None:
    places = {place for path in TEMPLATES.glob("*.template") for place in template_text.places(path.read_text())}
    assert "package" in places and len(list(TEMPLATES.glob("*.kt.template"))) == 14


def _compiler() -> list[Path]:
    spec = find_spec("run_kotlin_kernel")
    return sorted(Path(next(iter(spec.submodule_search_locations or []))).glob("jars/*.jar")) if spec else []


WITH_KOTLIN = pytest.mark.skipif(
    not _compiler() or shutil.which("java") is None, reason="needs kotlin-jupyter-kernel and java"
)


def _compiled(sources: list[Path], out: Path, real: str | None = None) -> str:
    """Compile to class files; returns the class path that runs them."""
    jars = os.pathsep.join(map(str, [*([real] if real else []), *_compiler()]))
    line = ["java", "-XX:TieredStopAtLevel=1", "-Xmx1g", "-cp", jars, "org.jetbrains.kotlin.cli.jvm.K2JVMCompiler"]
    line += ["-no-stdlib", "-no-reflect", "-d", str(out), "-cp", jars, *map(str, sources)]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return os.pathsep.join([str(out), jars])


def _stand_ins(real: str | None = None) -> list[Path]:
    return [path for path in sorted(STAND_INS.glob("*.kt")) if not (real and path.name == "ExecuTorch.kt")]


@pytest.mark.slow
@WITH_KOTLIN
@pytest.mark.parametrize("name", ["plain", '"; error("out") // ${1} \\ \u2028 \U0001f600'])
def test_the_kotlin_compiles(name: str, tmp_path: Path) -> None:
    bundle = _bundle(tmp_path / "bundle")
    tensors = [tensor.model_copy(update={"name": name}) for tensor in bundle.manifest.methods[0].outputs]
    methods = [bundle.manifest.methods[0].model_copy(update={"outputs": tensors})]
    odd = bundle.manifest.model_copy(update={"name": name, "recipe": {"name": name}, "methods": methods})
    write_package(gradle_modules(replace(bundle, manifest=odd)), tmp_path / "out")
    real = os.environ.get("EDGEC_EXECUTORCH_CLASSES")
    _compiled([*_stand_ins(real), *sorted((tmp_path / "out").rglob("*.kt"))], tmp_path / "classes", real)


def _rule(tokens: list[int], new: int) -> list[int]:
    """The stand-in's model, in Python."""
    found = list(tokens)
    for _ in range(new):
        last = len(found) - 1
        found.append((31 * found[last] + 7 * last + (found[last - 1] if last else 0)) % 96 + 32)
    return found[len(tokens) :]


def _real_bundle(folder: Path, golden: Golden) -> Path:
    files = {f"tokenizer/{name}": EXAMPLE / name for name in ("tokenizer.json", "tokenizer_config.json")}
    manifest = decoder_manifest("pte-cpu", target="android-cpu")
    write_bundle(folder, manifest, {"model.pte": b"weights", "golden.json": golden_bytes(golden), **files})
    return folder


@pytest.mark.slow
@WITH_KOTLIN
def test_the_wrapper_does_what_the_runtime_in_python_does(tmp_path: Path) -> None:
    """Generated sources, compiled and run over stand-ins: chunks, cache, sampling, stops, checks."""
    output = OutputVector(
        prompt_ids=[9, 8], continuation_ids=_rule([9, 8], 3), margins=[5.0] * 3, probes=[], tolerance=0.1
    )
    text = TextVector(label="text", text="é", ids=[1, *"é".encode()], round_trip=True)
    rendered = "<s>CITIZEN:\nHi\n\nMENENIUS:\n"
    chat = ChatVector(messages=[{"role": "user", "content": "Hi"}], rendered=rendered, ids=list(rendered.encode()))
    good = Golden(texts=(text,), chat=chat, outputs=(output,))
    wrong = good.model_copy(update={"outputs": (output.model_copy(update={"continuation_ids": [1, 1, 1]}),)})
    bundle = _real_bundle(tmp_path / "tiny.edgec", good)
    write_package(gradle_modules(open_bundle(bundle)), tmp_path / "out")
    other = _real_bundle(tmp_path / "wrong.edgec", wrong)
    package = kotlin_text.package_name("stories260K-host")
    main = tmp_path / "Main.kt"
    main.write_text((STAND_INS / "Main.kt.txt").read_text().replace("PACKAGE", package))
    classes = _compiled([*_stand_ins(), *sorted((tmp_path / "out/model").rglob("*.kt")), main], tmp_path / "classes")
    line = ["java", "-cp", classes, f"{package}.MainKt", str(bundle), str(tmp_path / "own"), str(other)]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    _assert_facts(dict(row.split("=", 1) for row in done.stdout.splitlines()))


def _assert_facts(said: dict[str, str]) -> None:
    long = [40 + i % 50 for i in range(300)]
    once = bytes(_rule([1, *b"Once"], 12)).decode()
    stops = StopText(("ND", "END", "DO"))
    filtered = [*map(stops.feed, ("abE", "N", "x", "yEND")), stops.hit]
    assert said["poor"] == "NotEnoughMemory"
    # Its files are other files than the app was made for, so it fails before its golden vectors are looked at.
    assert said["refused"] == "BundleAltered"
    assert said["long"] == str(_rule(long, 3)) and said["calls"] == "[128, 128, 44, 1, 1]"
    # The sample's cache has a ring: it cannot rewind, so the same prompt is fed again.
    assert said["again"] == str(_rule(long, 1)) and said["calls again"] == "[128, 128, 44]"
    assert said["text"] == once and said["finish"] == "LENGTH"
    assert said["stopped"] == once[: once.index(once[4:7])] and said["finish stopped"] == "STOP_TEXT"
    assert said["drawn"] == str(sorted([*_rule([65], 1), 0, 1])) and said["option"] == "OptionOutOfRange"
    assert said["too long"] == "PromptTooLong" and said["altered"] == "BundleAltered"
    assert said["chat"] == "<s>CITIZEN:\\nHi\\n\\nMENENIUS:\\n"
    assert said["stream"] == "[, é, !]" and said["filter"] == str(filtered).replace("'", "")
