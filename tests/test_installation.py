"""How extras are installed: a command that works from where edgec is."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path

import pytest

from edgec import installation
from edgec.installation import install_command

ROOT = Path(__file__).parents[1]


def test_a_checkout_installs_its_own_extra() -> None:
    assert install_command("serve") == f'pip install -e "{ROOT}[serve]"'


def test_a_wheel_names_what_the_extra_requires(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [
        "torch==2.13.*",
        'starlette>=1.0; extra == "serve"',
        'uvicorn>=0.50; extra == "serve"',
        'pillow>=11; extra == "vision"',
        'onnxruntime-qnn==2.7.0; sys_platform == "nowhere" and extra == "serve"',
    ]
    monkeypatch.setattr(installation, "PACKAGE", tmp_path / "site-packages" / "edgec")
    monkeypatch.setattr(importlib.metadata, "requires", lambda _: lines)
    assert install_command("serve") == 'pip install "starlette>=1.0" "uvicorn>=0.50"'
    monkeypatch.setattr(importlib.metadata, "requires", lambda _: None)
    assert install_command("serve") == 'pip install "edgec[serve]"'
