"""Manifest values in Swift: whatever they hold, they stay inside their literal."""

from __future__ import annotations

import plistlib
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from edgec.apps.embed.swift_package import swift_package
from edgec.apps.embed.swift_text import identifier, string, unique
from edgec.bundle.manifest import Manifest, PrefixInfo
from tests.apps.ios_bundles import FORMATS, bundle_of, decoder_manifest
from tests.apps.swift_syntax import faults, nodes, parse, sources

GENERATED = ("Package.swift", "SchemaNames.swift", "Predictions.swift", "ModelStates.swift")
PLAIN = dict.fromkeys(("name", "recipe", "model", "revision", "version", "tensor", "prompt"), "plain")
NASTY = st.one_of(
    st.text(max_size=40),
    st.sampled_from(['"', '\\("x")', '")\nimport Evil //', "*/", "@@digest@@", "\u2028", "`", "\\u{41}", '#"', "\0"]),
)


@pytest.mark.long
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
        {Path(name).name: source for name, source in sources(package).items() if Path(name).name in GENERATED}
        for package in (odd, plain)
    )
    for name, source in ours.items():
        assert not faults(source)
        assert _shape(source) == _shape(theirs[name]), name
    assert re.fullmatch(r"[A-Za-z][A-Za-z0-9]*", odd.module)
    plistlib.loads(odd.files["Bench/EdgecBench.xcodeproj/project.pbxproj"])  # type: ignore[arg-type]


def _with(manifest: Manifest, values: dict[str, str]) -> Manifest:
    """The manifest with these texts in every field whose text reaches a source file."""
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
    """The kinds of a tree's nodes, without the contents of literals and comments."""

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
    back = re.sub(r"\\u\{([0-9A-F]+)\}", lambda match: chr(int(match[1], 16)), literal[1:-1])
    assert back == re.sub("[\ud800-\udfff]", "\ufffd", value)


@given(st.lists(st.text(max_size=8), max_size=6))
@settings(max_examples=100, deadline=None)
def test_identifiers_are_unique_and_parse(names: list[str]) -> None:
    identifiers = unique([identifier(name, "input") for name in names])
    assert len(set(identifiers)) == len(names)
    assert not faults("func f(" + ", ".join(f"{name}: [Float]" for name in identifiers) + ") {}")
