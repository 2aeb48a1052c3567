"""What the tests of app packages share."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from edgec.devices.targets import load_target
from edgec.exporter.embed import app_facts
from tests.exporter.embed.ios_bundles import FORMATS


@pytest.fixture(autouse=True)
def npu_pte(monkeypatch: pytest.MonkeyPatch) -> None:
    """ExecuTorch with the Core ML delegate as a target, whatever units.toml calls its default."""

    def found(name: str) -> Any:
        if name == FORMATS["pte"][0]:
            return replace(load_target("iphone-16-pro"), name=name, format="pte", backend="coreml")
        return load_target(name)

    monkeypatch.setattr(app_facts, "load_target", found)
