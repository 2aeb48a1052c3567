"""Qualcomm AI Hub: profile an artifact on a hosted Snapdragon. The client is the module ``qai_hub``.

    hub = hub_client()                                               # pip install "edgec[aihub]"
    job = submit_profile(hub, Path("decode.onnx"), "Samsung Galaxy S25 (Family)")
    figures = profile_figures(hub, job)

AI Hub times single calls of a model, no generation: its figures are kept as what they are. No account has run this; it
is tested against answers in the shape of the client's own tests.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from edgec.devices.cloud.client_library import not_installed
from edgec.errors import InputError

_US_PER_MS = 1e3


@dataclass(frozen=True)
class ProfileFigures:
    """One profile; None is unavailable. Measured on the hosted device by the service.

    Attributes:
        device: as AI Hub names it.
        call_ms: median of all timed calls of the model.
        calls: how many were timed.
        first_load_ms, warm_load_ms: a load that compiles, and one that does not.
        peak_bytes: the service's estimate of the peak while it runs.
        operators: how many run on each compute unit.
    """

    device: str
    call_ms: float | None
    calls: int
    first_load_ms: float | None
    warm_load_ms: float | None
    peak_bytes: int | None
    operators: Mapping[str, int]

    def to_json(self) -> dict[str, Any]:
        """For machines."""
        return {**asdict(self), "operators": dict(self.operators), "obtained": "measured: Qualcomm AI Hub profile job"}


def hub_client() -> Any:
    """The module ``qai_hub``; ``qai-hub configure`` tells it the account.

    Raises:
        ToolError: E567, it is not installed.
    """
    try:
        import qai_hub
    except ImportError as cause:
        raise not_installed("qai-hub", "Qualcomm AI Hub", "aihub", cause) from cause
    return qai_hub


def submit_profile(hub: Any, artifact: Path, device: str, options: str = "") -> str:
    """Upload an artifact and submit a profile job.

    Args:
        hub: the module ``qai_hub``.
        artifact: an ONNX, TFLite or QNN context binary file.
        device: as ``qai_hub.get_devices()`` names it.
        options: of the job.

    Returns:
        The job's identifier.

    Raises:
        InputError: E564, there is no such device or file.
    """
    if not artifact.exists():
        raise _failed(str(artifact), "there is no such file")
    devices = [found.name for found in hub.get_devices()]
    if device not in devices:
        raise _failed(device, f"it has {len(devices)} devices, none of that name")
    model = hub.upload_model(str(artifact))
    job = hub.submit_profile_job(model=model, device=hub.Device(device), name=artifact.name, options=options)
    return str(job.job_id)


def profile_figures(hub: Any, job_id: str) -> ProfileFigures:
    """Wait for a job and read its profile.

    Raises:
        InputError: E564, the job failed, or its profile has another form.
    """
    job = hub.get_job(job_id)
    status = job.wait()
    if not status.success:
        raise _failed(job_id, str(status.message or status.code))
    profile = job.download_profile()
    try:
        return _figures(str(job.device.name), profile)
    except (KeyError, TypeError, ValueError, AttributeError) as cause:
        raise _failed(job_id, f"its profile has another form: {cause}") from cause


def _figures(device: str, profile: Mapping[str, Any]) -> ProfileFigures:
    summary = profile["execution_summary"]
    calls = [float(us) for us in summary.get("all_inference_times") or ()]
    call_us = median(calls) if calls else summary.get("estimated_inference_time")
    peak = summary.get("estimated_inference_peak_memory")
    return ProfileFigures(
        device=device,
        call_ms=_ms(call_us),
        calls=len(calls),
        first_load_ms=_ms(summary.get("first_load_time")),
        warm_load_ms=_ms(summary.get("warm_load_time")),
        peak_bytes=None if not peak else int(peak),
        operators=dict(Counter(str(row["compute_unit"]) for row in profile.get("execution_detail", ()))),
    )


def _ms(us: float | None) -> float | None:
    """Microseconds as milliseconds; the service writes 0 for what it did not measure."""
    return float(us) / _US_PER_MS if us else None


def _failed(where: str, why: str) -> InputError:
    return InputError("AI Hub has no result.", where, why, "look at the job on aihub.qualcomm.com", "E564")
