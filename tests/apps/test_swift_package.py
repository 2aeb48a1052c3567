"""Swift packages: every format parses, and holds what the bundle says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from edgec.apps.embed import template_text
from edgec.apps.embed.glue import executorch_branch
from edgec.apps.embed.project import SWIFT
from edgec.apps.embed.swift_package import swift_package
from edgec.bundle.golden import golden_bytes
from edgec.bundle.golden_texts import ChatVector
from edgec.bundle.manifest import Runtime
from edgec.bundle.shipped_adapters import ShippedAdapter
from edgec.errors import InputError
from tests.apps.audio_bundles import TIMED_CONFIG, WHISPER, audio_placeholder, fixed_audio_placeholder
from tests.apps.encoder_bundles import encoder_method, placeholder_bundle
from tests.apps.ios_bundles import (
    FORMATS,
    GOLDEN,
    MODULE,
    bundle_of,
    caller_methods,
    decoder_manifest,
    module_manifest,
)
from tests.apps.project_files import facts_of, names_in
from tests.apps.swift_syntax import assert_sound, sources
from tests.apps.vision_app_bundles import fixed_vision_placeholder, vision_placeholder


@pytest.mark.parametrize("kind", FORMATS)
def test_every_format_parses(kind: str, tmp_path: Path) -> None:
    package = swift_package(bundle_of(decoder_manifest(kind), tmp_path))
    assert_sound(package)
    source = "\n".join(sources(package).values())
    assert "@@" not in source
    assert source.count("final class ModelRuntime: Runtime") == 1
    assert source.count("final class ModelDecoder: Decoder") == 1
    assert "No Mac has compiled" in str(package.files["README.md"])


@pytest.mark.parametrize("kind", FORMATS)
def test_non_decoder_models_get_a_typed_function(kind: str, tmp_path: Path) -> None:
    package = swift_package(bundle_of(module_manifest(kind, MODULE), tmp_path))
    assert_sound(package)
    source = sources(package)[f"Sources/{package.module}/Predictions.swift"]
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


@pytest.mark.parametrize("kind", FORMATS)
def test_sentence_encoders_get_a_function_of_texts(kind: str, tmp_path: Path) -> None:
    padded = kind != "pte-cpu"
    package = swift_package(placeholder_bundle(tmp_path / "encoder", kind, encoder_method(padded)))
    assert_sound(package)
    files = sources(package)
    facts = facts_of(package)["encoder"]
    assert (facts["mostTokens"], facts["isPadded"], facts["width"]) == (48, padded, 24)
    assert (
        "@@" not in "".join(files.values())
        and "EdgecModule" not in "".join(files)
        and "Predictions" not in "".join(files)
    )
    manifest, readme = (bytes(package.files[name]).decode() for name in ("Package.swift", "README.md"))
    assert "swift-transformers" in manifest and "at most 48 tokens" in readme and "time per text" in readme


def test_typed_functions_take_turns(tmp_path: Path) -> None:
    """An actor alone would let a second call in while the first one awaits the model."""
    package = swift_package(bundle_of(module_manifest("mlpackage", MODULE), tmp_path))
    source = sources(package)[f"Sources/{package.module}/Predictions.swift"]
    body = source[source.index("func predict(") :]
    assert body.index("exclusively {") < body.index("runtime.run(")
    odd = MODULE[0].model_copy(update={"inputs": [MODULE[0].inputs[0].model_copy(update={"name": "exclusively"})]})
    named = swift_package(bundle_of(module_manifest("mlpackage", [odd]), tmp_path))
    assert "predict(exclusively2: [Float])" in "\n".join(sources(named).values())


@pytest.mark.long
def test_every_file_of_the_project_is_in_some_package(tmp_path: Path) -> None:
    used: set[str] = set()
    for kind in FORMATS:
        for manifest in (decoder_manifest(kind), module_manifest(kind, MODULE)):
            used |= {Path(name).name for name in swift_package(bundle_of(manifest, tmp_path)).files}
    encoder = placeholder_bundle(tmp_path / "encoder", "mlpackage", encoder_method(True, "int32"))
    used |= {Path(name).name for name in swift_package(encoder).files}
    chat = GOLDEN.model_copy(
        update={"chat": ChatVector(messages=[{"role": "user", "content": "Hi"}], rendered="Hi", ids=[5])}
    )
    talks = bundle_of(decoder_manifest("pte"), tmp_path, {"golden.json": golden_bytes(chat)})
    used |= {Path(name).name for name in swift_package(talks).files}
    hearing = audio_placeholder(tmp_path / "hearing", "iphone-16-pro-cpu", WHISPER, TIMED_CONFIG)
    seeing = vision_placeholder(tmp_path / "seeing", "iphone-16-pro-cpu")
    fixed = (fixed_audio_placeholder(tmp_path / "sound"), fixed_vision_placeholder(tmp_path / "sees"))
    for each in (hearing, seeing, *fixed):
        used |= {Path(name).name for name in swift_package(each).files}
    own = bundle_of(decoder_manifest("pte-cpu"), tmp_path)
    (own.path / own.manifest.artifact).write_bytes(b"EdgecLinear")
    used |= {Path(name).name for name in swift_package(own).files}
    assert names_in(SWIFT, ".swift", ".h") - used <= {"AssetPack.swift", "SampleKitEngine.h"}


def test_facts_come_from_the_bundle(tmp_path: Path) -> None:
    package = swift_package(bundle_of(decoder_manifest("mlpackage"), tmp_path))
    facts = facts_of(package)["decoder"]
    assert (facts["stopTokens"], facts["repetitionPenalty"]) == ([2, 3], 1.1)
    assert (facts["slots"], facts["prefillChunk"], facts["methodsShareState"]) == (128, 64, True)
    shared = swift_package(bundle_of(decoder_manifest("pte"), tmp_path))
    assert not facts_of(shared)["decoder"]["methodsShareState"]
    assert "every token through decode" in str(shared.files["README.md"])


@pytest.mark.parametrize("kind", ["pte", "mlpackage", "aimodel"])
def test_states_that_the_caller_holds_are_shared_by_the_methods(kind: str, tmp_path: Path) -> None:
    package = swift_package(bundle_of(decoder_manifest(kind, methods=caller_methods()), tmp_path))
    assert_sound(package)
    files = sources(package)
    assert facts_of(package)["decoder"]["methodsShareState"]
    assert "every token through decode" not in str(package.files["README.md"])
    assert "state0" not in "\n".join(files.values())


def test_executorch_products_follow_backends_and_operators(tmp_path: Path) -> None:
    runtime = Runtime(
        name="executorch", version="1.5.1", backends=["XnnpackBackend"], operators=["llama::custom_sdpa.out"]
    )
    package = swift_package(bundle_of(decoder_manifest("pte-cpu", runtime=runtime), tmp_path))
    manifest = bytes(package.files["Package.swift"]).decode()
    # ExecuTorch has published no package of 1.5.1; that of 1.5.0 runs the same programs.
    assert 'let executorch: String? = "swiftpm-1.5.0"\n' in manifest
    assert executorch_branch("1.4.1") == "swiftpm-1.4.1" and executorch_branch("1.6.0") == "swiftpm-1.6.0"
    assert 'let linked = ["executorch", "backend_xnnpack", "kernels_optimized", "kernels_llm"]\n' in manifest
    assert "backend_coreml" not in manifest


def test_stop_tokens_fall_back_to_the_tokenizers_own(tmp_path: Path) -> None:
    bundle = bundle_of(decoder_manifest("mlpackage"), tmp_path, {"generation_config.json": b"{}"})
    assert facts_of(swift_package(bundle))["decoder"]["stopTokens"] == [7]
    broken = bundle_of(decoder_manifest("mlpackage"), tmp_path, {"generation_config.json": b"{"})
    with pytest.raises(InputError) as caught:
        swift_package(broken)
    assert caught.value.code == "E463"


def test_templates_refuse_an_unknown_place() -> None:
    assert template_text.fill("a @@x@@ b", {"x": "@@y@@"}) == "a @@y@@ b"
    with pytest.raises(KeyError):
        template_text.fill("@@absent@@", {})


@pytest.mark.long
def test_importing_the_embedder_loads_no_heavy_library() -> None:
    """`edgec embed` answers at once; checked in a separate process, since other tests have loaded them here."""
    heavy = "torch", "coremltools", "executorch", "transformers"
    code = f"import sys, edgec.apps.embed.embed; print([name for name in {heavy} if name in sys.modules])"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "[]"


def test_names_of_adapters_are_facts_and_the_readme_shows_how_to_use_them(tmp_path: Path) -> None:
    adapter = ShippedAdapter(name="pirate", digest="0" * 64, ranks=[4], modules=["lm_head"], bytes=64)
    package = swift_package(bundle_of(decoder_manifest("mlpackage", adapters=[adapter]), tmp_path / "with"))
    plain = swift_package(bundle_of(decoder_manifest("mlpackage"), tmp_path / "without"))
    facts = facts_of(package)["model"]
    # Those under adapters have the same inputs and outputs: the methods are listed once.
    assert facts["adapters"] == ["pirate"] and [method["name"] for method in facts["methods"]] == ["prefill", "decode"]
    assert facts_of(plain)["model"]["adapters"] == []
    readmes = [str(each.files["README.md"]) for each in (package, plain)]
    assert 'useAdapter(named: "pirate")' in readmes[0] and "useAdapter" not in readmes[1]
