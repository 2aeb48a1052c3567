"""Bundles without a Swift package: each is refused with its reason and a way out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from edgec.apps.embed.embed import embed
from edgec.apps.embed.swift_package import swift_package
from edgec.bundle.folder import Bundle
from edgec.bundle.manifest import Runtime
from edgec.errors import InputError
from tests.apps.ios_bundles import bundle_of, decoder_manifest


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


def test_own_kernels_are_refused_for_another_unit_with_the_way_out(tmp_path: Path) -> None:
    runtime = Runtime(
        name="executorch", version="1.5.1", backends=["XnnpackBackend"], operators=["edgec::attention.out"]
    )
    with pytest.raises(InputError) as caught:
        swift_package(bundle_of(decoder_manifest("pte", runtime=runtime), tmp_path))
    assert caught.value.code == "E464" and "--kernels standard" in caught.value.fix


def _cut(bundle: Bundle) -> Bundle:
    """The same bundle with its package one folder further down, as a model in several parts has them."""
    files = [
        file.model_copy(update={"path": file.path.replace("model.mlpackage/", "model.mlpackage/part_0.mlpackage/")})
        for file in bundle.manifest.files
    ]
    return replace(bundle, manifest=bundle.manifest.model_copy(update={"files": files}))


def test_a_folder_of_several_packages_is_refused(tmp_path: Path) -> None:
    bundle = bundle_of(decoder_manifest("mlpackage"), tmp_path)
    swift_package(bundle)
    with pytest.raises(InputError) as caught:
        swift_package(_cut(bundle))
    assert caught.value.code == "E464" and "several" in str(caught.value.why) and "--format pte" in caught.value.fix


def test_a_decoder_needs_a_tokenizer(tmp_path: Path) -> None:
    bundle = bundle_of(decoder_manifest("mlpackage"), tmp_path)
    files = [file for file in bundle.manifest.files if not file.path.startswith("tokenizer/")]
    with pytest.raises(InputError) as caught:
        swift_package(replace(bundle, manifest=bundle.manifest.model_copy(update={"files": files})))
    assert caught.value.code == "E462"


def test_an_unknown_platform_is_named() -> None:
    with pytest.raises(InputError) as caught:
        embed("nowhere", "windows")
    assert caught.value.code == "E466" and "ios" in caught.value.fix
