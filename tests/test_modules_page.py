"""docs/modules.md is true: its Swift parses, its Python runs, its commands write the bundles that it names."""

from __future__ import annotations

import ast
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.real_networks.made_inputs import image
from benchmarks.real_networks.network import FOLDER, seeded
from edgec.bundle.folder import read_manifest
from edgec.bundle.input_preparation import ImagePreparation, read_preparations
from tests.apps.swift_syntax import faults
from tests.test_readme import ROOT, blocks

PAGE = (ROOT / "docs" / "modules.md").read_text()


def test_its_declarations_are_read() -> None:
    """The two of the section on images and sounds."""
    (block,) = [block for block in blocks("python", PAGE) if block.startswith("{")]
    for line in block.splitlines():
        assert set(read_preparations(ast.literal_eval(line), ["x"], "modules.md")) == {"x"}


def test_its_swift_parses() -> None:
    (source,) = blocks("swift", PAGE)
    assert faults(source) == []


@pytest.mark.real_model
@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.skipif(FOLDER not in os.environ, reason=f"{FOLDER} names no folder of packages")
def test_its_python_runs(tmp_path: Path) -> None:
    from PIL import Image

    pictures, call = blocks("python", PAGE)[:2]
    (tmp_path / "pictures.py").write_text(pictures)
    (tmp_path / "call.py").write_text(call)
    (tmp_path / "photos").mkdir()
    drawn = seeded(0)
    for index in range(16):
        pixels = (255 * image(drawn, 256)[0]).byte().permute(1, 2, 0).numpy()
        Image.fromarray(pixels).save(tmp_path / "photos" / ("cat.jpg" if index == 0 else f"{index}.jpg"))
    (commands,) = [block for block in blocks("bash", PAGE) if "export" in block]
    known = {**os.environ, "PYTHONPATH": os.pathsep.join((str(tmp_path), os.environ[FOLDER]))}
    for line in (*commands.splitlines(), "python call.py"):
        program, *words = shlex.split(line)
        start = [sys.executable] if program == "python" else [sys.executable, "-m", "edgec"]
        done = subprocess.run([*start, *words], cwd=tmp_path, env=known, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    assert 0 <= int(done.stdout.strip().splitlines()[-1]) < 1000
    manifest = read_manifest(tmp_path / "lite0-android.edgec")
    assert manifest.judged_on == "judged on 16 given inputs (photos)"
    assert isinstance(how := manifest.prepared["inputs"], ImagePreparation) and how.mean == 127
