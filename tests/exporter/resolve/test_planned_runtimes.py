"""Which runtime a plan proposes for each unit of a phone, and why."""

from __future__ import annotations

import pytest

from edgec.devices.targets import load_target
from edgec.exporter.resolve.planned_runtimes import RuntimeChoice, runtime_choices
from edgec.exporter.sources.hf_config import DECODER, VISION_LANGUAGE


def _choices(
    phone: str, kind: str = DECODER, context: int | None = None, recurrent: bool = False
) -> dict[str, RuntimeChoice]:
    return {each.unit: each for each in runtime_choices(load_target(phone), kind, context, recurrent)}


@pytest.mark.parametrize(
    ("phone", "npu"),
    [("pixel-9", "google-tensor"), ("galaxy-s24-exynos", ""), ("oneplus-12", ""), ("xiaomi-14t", "mediatek")],
)
def test_each_unit_of_a_phone_has_a_runtime_and_a_reason(phone: str, npu: str) -> None:
    found = _choices(phone)
    assert (found["cpu"].runtime, load_target(found["cpu"].target).format) == ("edgec", "pte")
    assert (found["gpu"].runtime, load_target(found["gpu"].target).format) == ("LiteRT-LM", "litertlm")
    assert "twice as fast" in found["cpu"].reason and "in software" in found["gpu"].reason
    assert ("npu" in found) == bool(npu)
    if npu:
        assert (found["npu"].runtime, found["npu"].target) == ("none", "") and npu in found["npu"].reason


@pytest.mark.parametrize(
    ("given", "words"),
    [({"context": 4096}, "4,096 tokens"), ({"recurrent": True}, "recurrences"), ({"kind": VISION_LANGUAGE}, "of kind")],
)
def test_what_a_litertlm_for_gpus_cannot_hold_is_for_vulkan(given: dict[str, object], words: str) -> None:
    chosen = _choices("pixel-9", **given)["gpu"]  # type: ignore[arg-type]
    assert (chosen.runtime, load_target(chosen.target).format) == ("edgec", "pte") and words in chosen.reason


@pytest.mark.parametrize("phone", ["iphone-16-pro", "host"])
def test_other_phones_have_none(phone: str) -> None:
    assert _choices(phone) == {}
