"""Qualcomm AI Hub against a module that answers as ``qai_hub`` does."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from edgec.devices.cloud.ai_hub import hub_client, profile_figures, submit_profile
from edgec.errors import InputError, ToolError

PHONE = "Samsung Galaxy S25 (Family)"
PROFILE: dict[str, Any] = {
    "execution_summary": {
        "estimated_inference_time": 3652,
        "all_inference_times": [3700, 3652, 4100],
        "estimated_inference_peak_memory": 166711296,
        "first_load_time": 1374293,
        "warm_load_time": 0,
    },
    "execution_detail": [{"compute_unit": "NPU"}] * 3 + [{"compute_unit": "CPU"}],
}


class Hub:
    """A stand-in for the part of ``qai_hub`` that edgec uses."""

    def __init__(self, profile: Any = None, success: bool = True) -> None:
        self.profile, self.success = PROFILE if profile is None else profile, success
        self.submitted: dict[str, Any] = {}

    def get_devices(self) -> list[Any]:
        return [SimpleNamespace(name=PHONE)]

    def Device(self, name: str) -> Any:
        return SimpleNamespace(name=name)

    def upload_model(self, path: str) -> str:
        return f"model of {Path(path).name}"

    def submit_profile_job(self, **fields: Any) -> Any:
        self.submitted = fields
        return SimpleNamespace(job_id="j5w", url="https://x")

    def get_job(self, job_id: str) -> Any:
        status = SimpleNamespace(success=self.success, message="out of memory", code="FAILED")
        return SimpleNamespace(
            device=SimpleNamespace(name=PHONE), wait=lambda timeout: status, download_profile=lambda: self.profile
        )


def test_a_profile_is_submitted_and_read(tmp_path: Path) -> None:
    (tmp_path / "decode.onnx").write_bytes(b"x")
    hub = Hub()
    job = submit_profile(hub, tmp_path / "decode.onnx", PHONE)
    assert hub.submitted["model"] == "model of decode.onnx" and hub.submitted["device"].name == PHONE
    figures = profile_figures(hub, job)
    assert (figures.call_ms, figures.calls, figures.peak_bytes) == (3.7, 3, 166711296)
    assert figures.first_load_ms == 1374.293 and figures.warm_load_ms is None
    assert figures.operators == {"NPU": 3, "CPU": 1} and "measured" in figures.to_json()["obtained"]


def test_a_client_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "qai_hub", None)
    with pytest.raises(ToolError, match="E567") as caught:
        hub_client()
    assert "[aihub]" in caught.value.fix


@pytest.mark.parametrize(
    "changes",
    [
        {"all_inference_times": [3700, -1]},
        {"all_inference_times": [float("inf")]},
        {"all_inference_times": ["3700"]},
        {"estimated_inference_peak_memory": float("inf")},
        {"estimated_inference_peak_memory": -5},
        {"first_load_time": 1e12},
    ],
)
def test_figures_that_cannot_have_been_measured(changes: dict[str, Any]) -> None:
    odd = PROFILE | {"execution_summary": PROFILE["execution_summary"] | changes}
    with pytest.raises(InputError, match="E564") as caught:
        profile_figures(Hub(profile=odd), "j")
    assert next(iter(changes)) in caught.value.why


def test_a_client_that_breaks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "m.onnx").write_bytes(b"x")
    monkeypatch.setattr(Hub, "upload_model", lambda hub, path: dict[str, str]()["\x1b[2J"])
    with pytest.raises(InputError, match="E564") as caught:
        submit_profile(Hub(), tmp_path / "m.onnx", PHONE)
    assert "KeyError" in caught.value.why and "\x1b" not in caught.value.why


def test_what_ends_without_a_profile(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="E564"):
        submit_profile(Hub(), tmp_path / "none.onnx", PHONE)
    (tmp_path / "m.onnx").write_bytes(b"x")
    with pytest.raises(InputError, match="E564"):
        submit_profile(Hub(), tmp_path / "m.onnx", "Toaster")
    with pytest.raises(InputError, match="E564") as caught:
        profile_figures(Hub(success=False), "j")
    assert caught.value.why == "out of memory"
    with pytest.raises(InputError, match="E564"):
        profile_figures(Hub(profile={"other": 1}), "j")
