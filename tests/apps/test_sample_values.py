"""The app projects of the repository open as they lie there: with a sample model's values, as `embed` writes them."""

from __future__ import annotations

import re

import pytest

from edgec.apps.embed.engine_sources import engine_functions, image_functions, speech_functions
from edgec.apps.embed.project import ANDROID, MODULE, SWIFT
from edgec.apps.embed.swift_package import swift_package
from edgec.engine.compile.build import SOURCES
from tests.apps.ios_bundles import bundle_of, decoder_manifest
from tests.apps.sample_values import sample_values
from tests.apps.swift_syntax import faults


@pytest.mark.parametrize("path", sample_values(), ids=lambda path: path.name)
def test_the_values_are_those_of_the_sample(path: object) -> None:
    """`python -m tests.apps.sample_values` writes them anew."""
    assert {name: content.decode() for name, content in sample_values().items() if name == path} == {
        path: path.read_text()  # type: ignore[attr-defined]
    }


def test_every_swift_file_of_the_repository_parses() -> None:
    # The grammar does not know the newest Swift; that file is compiled in tests/apps/test_swift_foundation.py.
    files = [path for path in SWIFT.rglob("*.swift") if path.name != "FoundationModel.swift"]
    assert len(files) > 90 and not {path.name: faults(path.read_text()) for path in files if faults(path.read_text())}


def test_nothing_is_a_template() -> None:
    own = [path for root in (SWIFT, ANDROID) for path in root.rglob("*") if path.is_file()]
    texts = (path for path in own if path.suffix in (".swift", ".kt", ".kts", ".cmake", ".xml", ".properties"))
    assert not [path for path in texts if "@@" in path.read_text()]


def test_the_engine_is_beside_the_projects() -> None:
    assert (SWIFT / f"Sources/{MODULE}Engine/edgec").resolve() == SOURCES.resolve()
    cpp = ANDROID / "model/src/main/cpp"
    (there,) = re.findall(r'EDGEC_ENGINE "\$\{CMAKE_CURRENT_LIST_DIR\}/(.*)"', (cpp / "values.cmake").read_text())
    assert (cpp / there).resolve() == SOURCES.resolve()


def test_the_header_renames_every_function_of_the_c_interfaces() -> None:
    header = (SWIFT / f"Sources/{MODULE}Engine/include/{MODULE}Engine.h").read_text()
    renamed = dict(re.findall(r"^#define (edgec_\w+) (\w+)$", header, re.MULTILINE))
    functions = {*engine_functions(audio=True, images=True), *image_functions(), *speech_functions()}
    assert renamed == {name: f"{MODULE}_{name.removeprefix('edgec_')}" for name in functions}


def test_a_model_states_file_is_a_sample_of_what_core_ai_needs(tmp_path: object) -> None:
    package = swift_package(bundle_of(decoder_manifest("aimodel", name="sample"), tmp_path))  # type: ignore[arg-type]
    written = bytes(package.files[f"Sources/{MODULE}/ModelStates.swift"]).decode()
    lines = (SWIFT / f"Sources/{MODULE}/RuntimeCoreAI/ModelStates.swift").read_text()
    assert written.endswith(lines)
