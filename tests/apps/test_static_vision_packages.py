"""Swift packages of models that see through Core ML: what they hold, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from edgec.apps.embed.embed import embed
from edgec.apps.embed.engine_sources import image_functions, image_sources
from edgec.apps.embed.swift_package import swift_package
from edgec.apps.embed.written_package import AppPackage, write_package
from edgec.bundle.entry_points import TensorInfo
from edgec.bundle.image_preparation import PreparationFile
from edgec.bundle.manifest import Manifest
from edgec.errors import InputError
from tests.apps.ios_bundles import with_method
from tests.apps.project_files import facts_of
from tests.apps.static_packages import assert_c_target, assert_included_alone
from tests.apps.swift_syntax import assert_sound
from tests.apps.swift_toolchain import Swift
from tests.apps.test_engine_project import text
from tests.apps.vision_app_bundles import FIXED, fixed_vision_manifest, fixed_vision_placeholder

OWN = {"Images", "ImageReader", "ImageDecoder", "ImageHeader", "ImagePreparation", "VisionStatic", "VisionSession"}
ENGINE = {"Vision", "VisionDecoder", "Session", "RuntimeEngine", "EngineSchema"}
GRID = FIXED.model_copy(update={"grid": (2, 2)})
AHEAD = FIXED.model_copy(update={"ahead": "image"})


def package_of(folder: Path, manifest: Manifest | None = None) -> AppPackage:
    """The Swift package of a model that takes images through Core ML."""
    return swift_package(fixed_vision_placeholder(folder / "bundle", manifest))


def refusal(folder: Path, manifest: Manifest) -> InputError:
    """Why a bundle gets no package."""
    with pytest.raises(InputError) as caught:
        package_of(folder, manifest)
    return caught.value


@pytest.mark.parametrize("info", [FIXED, GRID, AHEAD])
def test_the_package_holds_a_language_model_with_vision(info: Any, tmp_path: Path) -> None:
    package = package_of(tmp_path, fixed_vision_manifest(info=info))
    assert_sound(package)
    held = {Path(path).stem for path in package.files if path.startswith(f"Sources/{package.module}/")}
    assert held >= OWN | {"RuntimeCoreML", "DecoderStatic", "EdgecModel", "EngineCall"} and not held & ENGINE
    assert not [path for path, content in package.files.items() if isinstance(content, bytes) and b"@@" in content]
    decoder, model = (
        text(package, f"Sources/{package.module}/{name}.swift") for name in ("DecoderStatic", "EdgecModel")
    )
    assert "rows?.values(facts, start: start, count: last + 1)" in decoder
    assert "session.begin(prompt, isolation: self)" in model and "Session(runtime, bundle)" in model
    facts = facts_of(package)["decoder"]
    assert (facts["context"], facts["prefillChunk"], facts["slots"]) == (128, 64, 128)
    apps = {Path(path).parts[0] for path in package.files}
    assert {"Bench", "Sample"} <= apps and any(path.endswith("PictureButton.swift") for path in package.files)


def test_the_c_target_has_the_sources_that_prepare_images_under_names_of_its_own(tmp_path: Path) -> None:
    package = package_of(tmp_path)
    renamed = assert_c_target(package, image_sources(), image_functions(), ("ImagePreparation",))
    assert len(renamed) == 6


def test_what_prepares_images_includes_its_own_sources_alone() -> None:
    assert_included_alone(image_sources())


def test_the_readme_says_how_images_are_given_and_what_prepares_them(tmp_path: Path) -> None:
    package = package_of(tmp_path)
    readme = text(package, "README.md")
    assert "## Images" in readme and "takes 4 tokens of the context." in readme and "`<image>`" in readme
    assert f"Sources/{package.module}Engine" in readme and "Core ML runs the functions `vision_encoder`" in readme
    assert "ExecuTorch's branch" not in readme and "## Engine" not in readme


@pytest.mark.parametrize("name", ["window_positions", "per_layer_inputs"])
def test_an_input_that_the_glue_does_not_feed_is_refused_by_its_name(name: str, tmp_path: Path) -> None:
    manifest = fixed_vision_manifest()
    odd = [*manifest.methods[1].inputs, TensorInfo(name=name, dtype="int32", shape=[1, 64])]
    found = refusal(tmp_path, with_method(manifest, "prefill", inputs=odd))
    assert found.code == "E464" and f"the method prefill reads {name}, which the Swift glue does not feed" in found.why


@pytest.mark.parametrize("info", [GRID, AHEAD])
def test_positions_or_vision_ahead_without_their_input_are_refused(info: Any, tmp_path: Path) -> None:
    blind = fixed_vision_manifest()
    found = refusal(tmp_path, blind.model_copy(update={"vision_language": info}))
    assert found.code == "E464" and ("mrope_positions" if info.grid else "span_end") in found.why
    # And the other way round: the manifest knows nothing of the input.
    found = refusal(tmp_path / "b", fixed_vision_manifest(info=info).model_copy(update={"vision_language": FIXED}))
    assert found.code == "E464" and "does not feed" in found.why


def test_an_image_encoder_of_other_shapes_is_refused(tmp_path: Path) -> None:
    manifest = fixed_vision_manifest()
    see = manifest.methods[0]
    (tile,), (rows,) = see.inputs, see.outputs
    cases: dict[str, Manifest] = {
        "absent": manifest.model_copy(update={"methods": manifest.methods[1:]}),
        "half": with_method(manifest, "vision_encoder", inputs=[tile.model_copy(update={"dtype": "float16"})]),
        "wide": with_method(manifest, "vision_encoder", inputs=[tile.model_copy(update={"shape": [1, 3, 8, 9]})]),
        "few rows": with_method(manifest, "vision_encoder", outputs=[rows.model_copy(update={"shape": [1, 3, 16]})]),
        "no batch": with_method(manifest, "vision_encoder", outputs=[rows.model_copy(update={"shape": [4, 16]})]),
        "two": with_method(manifest, "vision_encoder", outputs=[rows, rows]),
    }
    for name, case in cases.items():
        found = refusal(tmp_path / name, case)
        assert found.code == "E464" and "the method vision_encoder does not make rows of one tile" in found.why, name


@pytest.mark.parametrize(
    ("info", "method", "name", "shape"),
    [
        (FIXED, "prefill", "tokens", [1, 32]),
        (FIXED, "decode", "tokens", [1, 2]),
        (FIXED, "prefill", "input_embeds", [1, 64, 17]),
        (FIXED, "decode", "input_embeds", [1, 1, 15]),
        (FIXED, "prefill", "embeds_mask", [1, 64]),
        (AHEAD, "prefill", "span_end", [1, 64]),
        (GRID, "prefill", "mrope_positions", [64, 3]),
        (GRID, "decode", "mrope_positions", [1, 1]),
    ],
)
def test_rows_of_other_sizes_than_are_fed_are_refused(
    info: Any, method: str, name: str, shape: list[int], tmp_path: Path
) -> None:
    manifest = fixed_vision_manifest(info=info)
    inputs = next(each.inputs for each in manifest.methods if each.name == method)
    odd = [each.model_copy(update={"shape": shape}) if each.name == name else each for each in inputs]
    found = refusal(tmp_path, with_method(manifest, method, inputs=odd))
    assert found.code == "E464" and f"the method {method} takes {name} {shape} where" in found.why


@pytest.mark.parametrize("kind", ["pte", "aimodel"])
def test_other_formats_of_the_neural_engine_are_refused_with_the_way_out(kind: str, tmp_path: Path) -> None:
    found = refusal(tmp_path, fixed_vision_manifest(kind))
    assert found.code == "E464" and "through Core ML with one .mlpackage" in found.why
    assert "--format mlpackage" in found.fix


def test_a_package_in_parts_is_refused_with_a_way_out_that_sees(tmp_path: Path) -> None:
    bundle = fixed_vision_placeholder(tmp_path / "bundle", fixed_vision_manifest(artifact="parts"))
    files = [file for file in bundle.manifest.files if file.path != "parts/Manifest.json"]
    manifest = bundle.manifest.model_copy(update={"files": files})
    with pytest.raises(InputError) as caught:
        swift_package(replace(bundle, manifest=manifest))
    assert caught.value.code == "E464" and "several" in caught.value.why and "for a CPU" in caught.value.fix


def test_a_bundle_that_does_not_describe_its_images_is_refused(tmp_path: Path) -> None:
    for prepared, why in ((None, "older edgec"), (PreparationFile(lacking="its processor is odd"), "processor is odd")):
        with pytest.raises(InputError) as caught:
            swift_package(fixed_vision_placeholder(tmp_path / why.split()[0], prepared=prepared))
        assert caught.value.code == "E780" and why in caught.value.why


def test_embed_takes_such_a_bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bundle = fixed_vision_placeholder(tmp_path / "bundle")
    monkeypatch.setattr("edgec.apps.embed.embed.open_bundle", lambda path: bundle)
    assert (embed(bundle.path, "ios", tmp_path / "kit").path / "Package.swift").is_file()


@pytest.mark.long
@pytest.mark.parametrize("info", [*(pytest.param(each, marks=pytest.mark.slow) for each in (FIXED, GRID)), AHEAD])
def test_the_swift_compiles_with_its_apps(info: Any, swift: Swift, swift_folder: Path) -> None:
    package = package_of(swift_folder, fixed_vision_manifest(info=info))
    write_package(package, swift_folder / "kit")
    headers = [swift_folder / "kit" / "Sources" / f"{package.module}Engine" / "include"]
    kit = sorted((swift_folder / "kit" / "Sources" / package.module).glob("*.swift"))
    assert swift.compile(package.module, kit, headers) == ""
    for name, folder in (("EdgecSample", "Sample"), ("EdgecBench", "Bench")):
        assert swift.compile(name, sorted((swift_folder / "kit" / folder).rglob("*.swift")), headers) == ""
