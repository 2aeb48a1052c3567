"""Swift packages: every format parses, every manifest value stays inside its literal, nothing is written by halves."""

from __future__ import annotations

import ast
import json
import plistlib
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from edgec.devices.targets import load_target
from edgec.errors import InputError
from edgec.exporter.bundle.manifest import Manifest, MethodInfo, PrefixInfo, Runtime, TensorInfo
from edgec.exporter.embed import app_facts, template_text
from edgec.exporter.embed.embed import embed
from edgec.exporter.embed.swift_package import swift_package
from edgec.exporter.embed.swift_text import identifier, string, unique
from edgec.exporter.embed.written_package import AppPackage, write_package
from edgec.runtime_py import bench_record
from tests.exporter.embed.ios_bundles import FORMATS, bundle_of, caller_methods, decoder_manifest, module_manifest
from tests.exporter.embed.swift_syntax import faults, nodes, parse, text

TEMPLATES = Path(app_facts.__file__).parent / "swift"
MODULE = [
    MethodInfo(
        name="forward",
        inputs=[TensorInfo(name="pixel values", dtype="float32", shape=[1, 3, 8, 8])],
        outputs=[TensorInfo(name="class", dtype="float32", shape=[1, 4])],
    )
]


@pytest.fixture(autouse=True)
def npu_pte(monkeypatch: pytest.MonkeyPatch) -> None:
    """ExecuTorch with the Core ML delegate as a target, whatever units.toml calls its default."""

    def found(name: str) -> Any:
        if name == FORMATS["pte"][0]:
            return replace(load_target("iphone-16-pro"), name=name, format="pte", backend="coreml")
        return load_target(name)

    monkeypatch.setattr(app_facts, "load_target", found)


def _sources(package: AppPackage) -> dict[str, str]:
    return {
        name: content.decode()
        for name, content in package.files.items()
        if name.endswith(".swift") and isinstance(content, bytes)
    }


def _assert_sound(package: AppPackage) -> None:
    found = {name: faults(source) for name, source in _sources(package).items()}
    assert not {name: what for name, what in found.items() if what}


@pytest.mark.parametrize("kind", FORMATS)
def test_every_format_parses(kind: str, tmp_path: Path) -> None:
    package = swift_package(bundle_of(decoder_manifest(kind), tmp_path))
    _assert_sound(package)
    sources = "\n".join(_sources(package).values())
    assert "@@" not in sources
    assert sources.count("final class ModelRuntime: Runtime") == 1
    assert sources.count("final class ModelDecoder: Decoder") == 1
    assert "No Mac has compiled" in str(package.files["README.md"])


@pytest.mark.parametrize("kind", FORMATS)
def test_models_that_are_no_decoders_get_a_typed_function(kind: str, tmp_path: Path) -> None:
    package = swift_package(bundle_of(module_manifest(kind, MODULE), tmp_path))
    _assert_sound(package)
    source = _sources(package)[f"Sources/{package.module}/EdgecModule.swift"]
    assert "public func predict(pixelValues: [Float]) async throws -> ForwardResult" in source
    assert "public let classValue: [Float]" in source
    assert not [name for name in package.files if name.startswith("Bench/")]


def test_a_module_function_needs_fixed_shapes_and_known_types(tmp_path: Path) -> None:
    for field, value in (("shape", [1, "S"]), ("dtype", "complex64")):
        odd = MODULE[0].inputs[0].model_copy(update={field: value})
        manifest = module_manifest("mlpackage", [MODULE[0].model_copy(update={"inputs": [odd]})])
        with pytest.raises(InputError) as caught:
            swift_package(bundle_of(manifest, tmp_path))
        assert caught.value.code == "E465"


PLAIN = dict.fromkeys(("name", "recipe", "model", "revision", "version", "tensor", "prompt"), "plain")
NASTY = st.one_of(
    st.text(max_size=40),
    st.sampled_from(
        ['"', '\\("x")', '")\nimport Evil //', "*/", "@@digest@@", "\u2028", "\ud800", "`", "\\u{41}", '#"', "\0"]
    ),
)


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.generate])
@given(kind=st.sampled_from(sorted(FORMATS)), values=st.fixed_dictionaries(dict.fromkeys(PLAIN, NASTY)))
def test_no_value_leaves_its_literal(tmp_path: Path, kind: str, values: dict[str, str]) -> None:
    """A value changes what literals say, never what the program is."""
    bundle = bundle_of(
        decoder_manifest(kind), tmp_path, {"prefix/system_prompt.txt": values["prompt"].encode("utf-8", "replace")}
    )
    odd = swift_package(replace(bundle, manifest=_with(bundle.manifest, values)))
    plain = swift_package(replace(bundle, manifest=_with(bundle.manifest, PLAIN)))
    ours, theirs = (
        {Path(name).name: source for name, source in _sources(package).items() if _has_values(name)}
        for package in (odd, plain)
    )
    for name, source in ours.items():
        assert not faults(source)
        assert _shape(source) == _shape(theirs[name]), name
    assert re.fullmatch(r"[A-Za-z][A-Za-z0-9]*", odd.module)
    plistlib.loads(odd.files["Bench/EdgecBench.xcodeproj/project.pbxproj"])  # type: ignore[arg-type]


def _has_values(name: str) -> bool:
    found = TEMPLATES / f"{Path(name).name}.template"
    known = template_text.places((found if found.exists() else TEMPLATES / "DecoderStatic.swift.template").read_text())
    return bool(known - {"banner"})


def _with(manifest: Manifest, values: dict[str, str]) -> Manifest:
    """The manifest with these texts wherever a text of a manifest reaches a source file."""
    first, *rest = manifest.methods
    outputs = [tensor.model_copy(update={"name": values["tensor"]}) for tensor in first.outputs]
    return manifest.model_copy(
        update={
            "name": values["name"],
            "recipe": {"name": values["recipe"]},
            "model": manifest.model.model_copy(update={"name": values["model"], "revision": values["revision"]}),
            "runtime": manifest.runtime.model_copy(update={"version": values["version"]}),
            "methods": [first.model_copy(update={"outputs": outputs}), *rest],
            "states": [state.model_copy(update={"name": values["tensor"]}) for state in manifest.states],
            "prefix": PrefixInfo(
                form="text", tokens=1, bytes=1, text="prefix/system_prompt.txt", state="", fingerprint=""
            ),
        }
    )


def _shape(source: str) -> list[str]:
    """Node kinds of a tree without what literals and comments hold."""

    def walk(node: Any) -> list[str]:
        if node.type in ("line_string_literal", "comment"):
            return [node.type] * ("comment" not in node.type and not list(nodes(node, "interpolated_expression")))
        return [node.type, *(kind for child in node.children for kind in walk(child))]

    return walk(parse(source))


@given(st.text())
@settings(max_examples=300, deadline=None)
def test_a_swift_literal_says_the_same_text(value: str) -> None:
    literal = string(value)
    assert literal.isascii() and literal.count('"') == 2 and "\\(" not in literal
    back = re.sub(r"\\u\{([0-9A-F]+)\}", lambda found: chr(int(found[1], 16)), literal[1:-1])
    assert back == re.sub("[\ud800-\udfff]", "\ufffd", value)


@given(st.lists(st.text(max_size=8), max_size=6))
@settings(max_examples=100, deadline=None)
def test_identifiers_are_unique_and_parse(names: list[str]) -> None:
    found = unique([identifier(name, "input") for name in names])
    assert len(set(found)) == len(names)
    assert not faults("func f(" + ", ".join(f"{name}: [Float]" for name in found) + ") {}")


def _keys(source: str, function: str) -> set[str]:
    """Keys of the dictionary literals that a Swift function writes."""
    for node in nodes(parse(source), "function_declaration"):
        if text(node).startswith((f"func {function}(", f"private func {function}(", f"static func {function}(")):
            return set(re.findall(r'^\s*"([a-z0-9_]+)":', text(node), re.MULTILINE))
    raise AssertionError(f"there is no function {function}")


@pytest.mark.parametrize(
    ("function", "record"),
    [
        ("run", bench_record.RunRecord),
        ("load", bench_record.LoadRecord),
        ("memory", bench_record.MemoryRecord),
        ("repetition", bench_record.RepetitionRecord),
        ("sustained", bench_record.SustainedRecord),
    ],
)
def test_the_bench_app_writes_the_fields_of_the_schema(function: str, record: Any) -> None:
    source = (TEMPLATES / "BenchRecords.swift.template").read_text()
    assert _keys(source, function) | _keys(source, "common") == set(record.model_fields)
    assert _keys(source, "comparability") == set(bench_record.Comparability.model_fields)
    assert _keys(source, "subject") == set(bench_record.Subject.model_fields)


def test_the_bench_app_knows_the_devices_fields_and_its_job() -> None:
    from edgec.devices.transport import DeviceFacts
    from edgec.exporter.embed.swift_package import _JOB

    device = (TEMPLATES / "BenchDevice.swift.template").read_text()
    assert _keys(device, "now") == set(DeviceFacts.__dataclass_fields__)
    job = (TEMPLATES / "BenchJob.swift.template").read_text()
    camel = set(re.findall(r"let (\w+):", job))
    snake = {re.sub(r"([A-Z])", lambda found: f"_{found[1].lower()}", name) for name in camel} - {"decoder"}
    assert snake == {*_JOB, "edgec_version"}


def test_the_golden_vectors_are_read_by_their_field_names() -> None:
    from edgec.exporter.bundle import golden

    source = (TEMPLATES / "GoldenReplay.swift.template").read_text()
    names = {
        re.sub(r"([A-Z])", lambda f: f"_{f[1].lower()}", name) for name in re.findall(r"        let (\w+): ", source)
    }
    fields = {*golden.TextVector.model_fields, *golden.ChatVector.model_fields, *golden.OutputVector.model_fields}
    assert {
        "label",
        "text",
        "ids",
        "messages",
        "prompt_ids",
        "continuation_ids",
        "margins",
        "tolerance",
    } == names & fields
    modules = (TEMPLATES / "GoldenFunctions.swift.template").read_text()
    assert {"bounds", "indices", "values", "tolerance"} <= set(golden.FunctionVector.model_fields)
    assert all(f"let {name}:" in modules for name in ("bounds", "indices", "values", "tolerance"))


def test_every_template_is_used_and_every_value_has_a_place(tmp_path: Path) -> None:
    used: set[str] = set()
    for kind in FORMATS:
        for manifest in (decoder_manifest(kind), module_manifest(kind, MODULE)):
            used |= {Path(name).name for name in swift_package(bundle_of(manifest, tmp_path)).files}
    templates = {path.name.removesuffix(".template") for path in TEMPLATES.glob("*.template")}
    renamed = {"AssetPack.swift", "Package.swift", "README.md", "DecoderStatic.swift", "DecoderDynamic.swift"}
    assert templates - used <= renamed - {"Package.swift", "README.md", "DecoderStatic.swift", "DecoderDynamic.swift"}


def test_a_large_bundle_is_an_asset_pack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app_facts, "ASSET_PACK_BYTES", 100)
    package = swift_package(bundle_of(decoder_manifest("mlpackage"), tmp_path))
    _assert_sound(package)
    assert package.asset_pack and package.entitled
    pack = json.loads(package.files["AssetPack/Manifest.json"])  # type: ignore[arg-type]
    assert pack["fileSelectors"] == [{"directory": "Model.edgec"}]
    assert "AssetPack/Model.edgec/model.mlpackage/weights" in package.files
    assert "resources:" not in str(package.files["Package.swift"])
    keys = plistlib.loads(package.files["Config/BackgroundAssets-Info.plist"])  # type: ignore[arg-type]
    assert keys["BAHasManagedAssetPacks"] is True
    rights = plistlib.loads(package.files[f"Config/{package.module}.entitlements"])  # type: ignore[arg-type]
    assert rights["com.apple.security.application-groups"] == [keys["BAAppGroupID"]]


def test_a_model_near_the_limit_gets_the_entitlement(tmp_path: Path) -> None:
    states = [decoder_manifest("pte").states[0].model_copy(update={"bytes": 2_000_000_000})]
    package = swift_package(bundle_of(decoder_manifest("mlpackage", states=states), tmp_path))
    rights = plistlib.loads(package.files[f"Config/{package.module}.entitlements"])  # type: ignore[arg-type]
    assert rights == {"com.apple.developer.kernel.increased-memory-limit": True}
    assert package.needed_bytes > 2_000_000_000


def test_facts_come_from_the_bundle(tmp_path: Path) -> None:
    package = swift_package(bundle_of(decoder_manifest("mlpackage"), tmp_path))
    facts = _sources(package)[f"Sources/{package.module}/DecoderFacts.swift"]
    assert "stopTokens: Set<Int> = [2, 3]" in facts
    assert "repetitionPenalty: Float = 1.1" in facts
    assert "slots = 128" in facts and "prefillChunk = 64" in facts and "methodsShareState = true" in facts
    shared = swift_package(bundle_of(decoder_manifest("pte"), tmp_path))
    assert "methodsShareState = false" in _sources(shared)[f"Sources/{shared.module}/DecoderFacts.swift"]
    assert "every token through decode" in str(shared.files["README.md"])


@pytest.mark.parametrize("kind", ["pte", "mlpackage", "aimodel"])
def test_states_that_the_caller_holds_are_shared_by_the_methods(kind: str, tmp_path: Path) -> None:
    package = swift_package(bundle_of(decoder_manifest(kind, methods=caller_methods()), tmp_path))
    _assert_sound(package)
    sources = _sources(package)
    assert "methodsShareState = true" in sources[f"Sources/{package.module}/DecoderFacts.swift"]
    assert "every token through decode" not in str(package.files["README.md"])
    assert "var state0: NDArray" not in "\n".join(sources.values())


def test_executorch_products_follow_backends_and_operators(tmp_path: Path) -> None:
    runtime = Runtime(
        name="executorch", version="1.5.1", backends=["XnnpackBackend"], operators=["llama::custom_sdpa.out"]
    )
    manifest = str(
        swift_package(bundle_of(decoder_manifest("pte-cpu", runtime=runtime), tmp_path)).files["Package.swift"]
    )
    assert 'branch: "swiftpm-1.5.1"' in manifest
    for product in ("executorch", "backend_xnnpack", "kernels_optimized", "kernels_llm"):
        assert f'.product(name: "{product}"' in manifest
    assert "backend_coreml" not in manifest


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"target": "android-cpu"}, "E460"),
        ({"target": "host"}, "E460"),
        ({"format": "qnn"}, "E464"),
        ({"methods": []}, "E464"),
    ],
)
def test_what_does_not_fit_is_refused(fields: dict[str, Any], code: str, tmp_path: Path) -> None:
    bundle = bundle_of(decoder_manifest("mlpackage"), tmp_path)
    with pytest.raises(InputError) as caught:
        swift_package(replace(bundle, manifest=bundle.manifest.model_copy(update=fields)))
    assert caught.value.code == code


def test_own_kernels_are_refused_with_the_way_out(tmp_path: Path) -> None:
    runtime = Runtime(
        name="executorch", version="1.5.1", backends=["XnnpackBackend"], operators=["edgec::attention.out"]
    )
    with pytest.raises(InputError) as caught:
        swift_package(bundle_of(decoder_manifest("pte-cpu", runtime=runtime), tmp_path))
    assert caught.value.code == "E464" and "--kernels standard" in caught.value.fix


def test_a_decoder_needs_a_tokenizer(tmp_path: Path) -> None:
    bundle = bundle_of(decoder_manifest("mlpackage"), tmp_path)
    files = [file for file in bundle.manifest.files if not file.path.startswith("tokenizer/")]
    with pytest.raises(InputError) as caught:
        swift_package(replace(bundle, manifest=bundle.manifest.model_copy(update={"files": files})))
    assert caught.value.code == "E462"


def test_stop_tokens_fall_back_to_the_tokenizers_own(tmp_path: Path) -> None:
    bundle = bundle_of(decoder_manifest("mlpackage"), tmp_path, {"generation_config.json": b"{}"})
    sources = "\n".join(_sources(swift_package(bundle)).values())
    assert "stopTokens: Set<Int> = [7]" in sources
    broken = bundle_of(decoder_manifest("mlpackage"), tmp_path, {"generation_config.json": b"{"})
    with pytest.raises(InputError) as caught:
        swift_package(broken)
    assert caught.value.code == "E463"


def test_an_unknown_platform_is_named() -> None:
    with pytest.raises(InputError) as caught:
        embed("nowhere", "windows")
    assert caught.value.code == "E466" and "ios" in caught.value.fix


def test_an_existing_folder_is_left_alone_and_a_failure_leaves_nothing(tmp_path: Path) -> None:
    package = swift_package(bundle_of(decoder_manifest("mlpackage"), tmp_path / "bundle"))
    out = tmp_path / "out"
    out.mkdir()
    (out / "mine").write_text("keep")
    with pytest.raises(InputError) as caught:
        write_package(package, out)
    assert caught.value.code == "E461" and (out / "mine").read_text() == "keep"
    broken = replace(package, files={**package.files, "Sources/lost": tmp_path / "absent"})
    with pytest.raises(InputError):
        write_package(broken, tmp_path / "new")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bundle", "out"]


def test_a_written_package_holds_the_bundle_without_its_report(tmp_path: Path) -> None:
    bundle = bundle_of(decoder_manifest("mlpackage"), tmp_path / "bundle", {"report.html": b"<html>"})
    package = swift_package(bundle)
    write_package(package, tmp_path / "out")
    resources = tmp_path / "out" / "Sources" / package.module / "Resources" / "Model.edgec"
    assert (resources / "manifest.json").read_bytes() == (bundle.path / "manifest.json").read_bytes()
    assert (resources / "model.mlpackage/weights").read_bytes() == b"weights"
    assert not (resources / "report.html").exists()


def test_templates_refuse_an_unknown_place() -> None:
    assert template_text.fill("a @@x@@ b", {"x": "@@y@@"}) == "a @@y@@ b"
    with pytest.raises(KeyError):
        template_text.fill("@@absent@@", {})


def test_the_settings_of_sources_are_python_free_of_test_hooks() -> None:
    """No module of the embedder imports torch or coremltools: `edgec embed` answers at once."""
    for path in TEMPLATES.parent.glob("*.py"):
        names = {
            alias.name.split(".")[0]
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.Import)
            for alias in node.names
        }
        assert not names & {"torch", "coremltools", "executorch", "transformers"}
