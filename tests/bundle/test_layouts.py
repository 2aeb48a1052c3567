"""A manifest says a layout that its format can have; edgec's own is left out."""

from __future__ import annotations

import json

import pytest
from pydantic import ValidationError

from edgec.bundle.canonical import canonical_json
from edgec.bundle.manifest import Manifest
from tests.bundle.bundle_samples import sample_manifest


def test_a_manifest_without_a_layout_has_edgecs_own() -> None:
    manifest = sample_manifest()
    assert manifest.layout == "edgec" and "layout" not in json.loads(canonical_json(manifest))


def test_a_layout_comes_back_as_it_was_written() -> None:
    manifest = sample_manifest(format="onnx", layout="genai")
    assert Manifest.model_validate_json(canonical_json(manifest)).layout == "genai"


@pytest.mark.parametrize(("format", "layout"), [("pte", "genai"), ("onnx", "llama.cpp"), ("onnx", "")])
def test_a_layout_that_the_format_cannot_have_is_refused(format: str, layout: str) -> None:
    with pytest.raises(ValidationError, match="has no layout"):
        sample_manifest(format=format, layout=layout)
