"""The manifest on the adapters of an artifact: what it may say, and that bundles without any stay as they were."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from edgec.bundle.canonical import canonical_json
from edgec.bundle.manifest import Manifest
from edgec.bundle.shipped_adapters import ShippedAdapter
from tests.bundle.bundle_samples import sample_manifest

GOOD: dict[str, Any] = {"name": "pirate", "digest": "a" * 64, "ranks": [4], "modules": ["lm_head"], "bytes": 64}


def with_adapters(*adapters: dict[str, Any]) -> Manifest:
    return Manifest.model_validate({**sample_manifest().model_dump(), "adapters": list(adapters)})


def test_adapters_are_written_and_read_back() -> None:
    manifest = with_adapters(GOOD, {**GOOD, "name": "poet"})
    again = Manifest.model_validate_json(canonical_json(manifest))
    assert again == manifest and [one.name for one in again.adapters] == ["pirate", "poet"]
    assert "pirate" in repr(again.adapters[0])


def test_a_bundle_without_adapters_does_not_mention_them() -> None:
    assert b"adapters" not in canonical_json(sample_manifest())


def test_a_name_twice_is_refused() -> None:
    with pytest.raises(ValidationError, match="occurs twice"):
        with_adapters(GOOD, GOOD)


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": "a b"},
        {"name": "1a"},
        {"name": "pirate\n"},
        {"digest": "short"},
        {"ranks": [0]},
        {"bytes": -1},
        {"x": 1},
    ],
)
def test_what_is_not_an_adapter_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        ShippedAdapter.model_validate({**GOOD, **wrong})
