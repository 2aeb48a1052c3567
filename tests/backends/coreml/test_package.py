"""A package names what lies in it, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch import nn

from edgec.backends.coreml.package import write_package
from edgec.bundle.checked_files import first_difference, list_files
from edgec.exporter.capture.module import capture_module


@pytest.mark.long
def test_a_package_without_weights_has_no_folder_for_them(tmp_path: Path) -> None:
    """An empty folder is in no list of files, and a manifest that names an absent one makes a package invalid."""
    path = tmp_path / "x.mlpackage"
    write_package({"main": capture_module(nn.ReLU(), (torch.randn(1, 4),))}, path)
    named = json.loads((path / "Manifest.json").read_text())["itemInfoEntries"].values()
    assert [item["path"] for item in named] == ["com.apple.CoreML/model.mlmodel"]
    assert first_difference(tmp_path, list_files(tmp_path)) is None
