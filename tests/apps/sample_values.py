"""The values that the app projects of the repository have: those of a sample model, as `embed` writes them.

`python -m tests.apps.sample_values` writes them anew, after a change of what apps read.
"""

from __future__ import annotations

import re
from pathlib import Path
from tempfile import TemporaryDirectory

from edgec.apps.embed.facts_json import FACTS
from edgec.apps.embed.gradle_modules import gradle_modules
from edgec.apps.embed.gradle_properties import PROPERTIES
from edgec.apps.embed.project import ANDROID, MODULE, SWIFT
from edgec.apps.embed.swift_manifest import MANIFEST
from edgec.apps.embed.swift_package import swift_package
from edgec.apps.embed.written_package import AppPackage
from tests.apps.android_bundles import android_bundle
from tests.apps.ios_bundles import bundle_of, decoder_manifest
from tests.apps.test_engine_project import OWN

CMAKE = "model/src/main/cpp/values.cmake"
_ENGINE = "../../../../../../engine"


def sample_values() -> dict[Path, bytes]:
    """The files of the projects that hold values, with those of the sample."""
    with TemporaryDirectory() as folder:
        android = gradle_modules(android_bundle(Path(folder) / "android", OWN, name="sample"))
        bundle = bundle_of(decoder_manifest("pte-cpu", name="sample"), Path(folder) / "ios")
        (bundle.path / bundle.manifest.artifact).write_bytes(b"EdgecLinear")
        ios = swift_package(bundle)
    assert (android.module, ios.module) == ("dev.edgec.sample", MODULE)
    facts = f"model/src/main/resources/dev/edgec/sample/{FACTS}"
    cmake = _content(android, CMAKE).replace(b'DIR}/edgec"', f'DIR}}/{_ENGINE}"'.encode())
    # In the repository all modules lie side by side, and so do the sources of every kind of model.
    properties = re.sub(rb"(?<=edgecModules=).*", b"model,bench,sample,model_json", _content(android, PROPERTIES))
    return {
        ANDROID / facts: _content(android, facts),
        ANDROID / PROPERTIES: properties,
        ANDROID / CMAKE: cmake,
        SWIFT / f"Sources/{MODULE}/Resources/{FACTS}": _content(ios, f"Sources/{MODULE}/Resources/{FACTS}"),
        SWIFT / MANIFEST: _manifest(ios),
    }


def _content(package: AppPackage, path: str) -> bytes:
    content = package.files[path]
    assert isinstance(content, bytes)
    return content


def _manifest(package: AppPackage) -> bytes:
    """The manifest, which leaves out the folders of other kinds of models, and has no bundle among its resources."""
    folders = {path.name: {file.name for file in path.iterdir()} for path in (SWIFT / "Sources" / MODULE).iterdir()}
    held = {Path(path).name for path in package.files if path.startswith(f"Sources/{MODULE}/")}
    others = sorted(name for name, files in folders.items() if name != "Resources" and not files <= held)
    listed = "[\n" + "".join(f'    "{name}",\n' for name in others) + "]"
    text = _content(package, MANIFEST).decode().replace("let excluded = [String]()", f"let excluded = {listed}")
    return text.replace(', "Model.edgec"]', "]").encode()


if __name__ == "__main__":
    for path, content in sample_values().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
