"""Profiling an artifact on a hosted Snapdragon with Qualcomm AI Hub, through its client module ``qai_hub``.

    hub = hub_client()                                               # pip install "edgec[aihub]"
    job = submit_profile(hub, Path("decode.onnx"), "Samsung Galaxy S25 (Family)")
    figures = profile_figures(hub, job)

AI Hub times single calls of a model, not generation, and the figures are kept as such. No account has run this; it is
tested against answers in the shape of the client's own tests.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from edgec.devices.answers import Bytes, asked, first_fault, not_installed, plain
from edgec.errors import InputError

_US_PER_MS = 1e3
WAIT_S = 2 * 3600
_MOST_CALLS, _MOST_OPERATORS = 100_000, 1_000_000
# The service writes 0 for what it did not measure; nothing that it times takes longer than a day.
_Microseconds = Annotated[float, Field(ge=0, le=8.64e10, allow_inf_nan=False)]


class _Answer(BaseModel):
    """Base of the parts of a profile that are read: types are checked strictly, unknown fields are ignored."""

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore")


class _Summary(_Answer):
    all_inference_times: list[_Microseconds] | None = Field(None, max_length=_MOST_CALLS)
    estimated_inference_time: _Microseconds | None = None
    first_load_time: _Microseconds | None = None
    warm_load_time: _Microseconds | None = None
    estimated_inference_peak_memory: Bytes | None = None


class _Operator(_Answer):
    compute_unit: str


class _Profile(_Answer):
    execution_summary: _Summary
    execution_detail: list[_Operator] = Field([], max_length=_MOST_OPERATORS)


@dataclass(frozen=True)
class ProfileFigures:
    """The figures of one profile, measured by the service on the hosted device; None means unavailable.

    Attributes:
        device: as AI Hub names it.
        call_ms: median of all timed calls of the model.
        calls: how many were timed.
        first_load_ms, warm_load_ms: a load that compiles, and one that does not.
        peak_bytes: the service's estimate of the peak while it runs.
        operators: number of operators by compute unit.
    """

    device: str
    call_ms: float | None
    calls: int
    first_load_ms: float | None
    warm_load_ms: float | None
    peak_bytes: int | None
    operators: Mapping[str, int]

    def to_json(self) -> dict[str, Any]:
        """The figures as plain data, with how they were obtained."""
        return {**asdict(self), "operators": dict(self.operators), "obtained": "measured: Qualcomm AI Hub profile job"}


def hub_client() -> Any:
    """The module ``qai_hub``, which ``qai-hub configure`` sets up with an account.

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
        options: for the job, as AI Hub documents them.

    Returns:
        The job's identifier.

    Raises:
        InputError: E564, there is no such device or file.
    """
    if not artifact.exists():
        raise _failed(str(artifact), "the file does not exist")
    failed = partial(_failed, device)
    devices = asked(lambda: [listed.name for listed in hub.get_devices()], failed)
    if device not in devices:
        raise _failed(device, f"it has {len(devices)} devices, none with that name")
    model = asked(lambda: hub.upload_model(str(artifact)), failed)
    fields = {"name": artifact.name, "options": options}
    return asked(lambda: str(hub.submit_profile_job(model=model, device=hub.Device(device), **fields).job_id), failed)


def profile_figures(hub: Any, job_id: str) -> ProfileFigures:
    """Wait for a job and read its profile.

    Raises:
        InputError: E564, the job failed, or its profile has another form.
    """
    device, profile = asked(lambda: _downloaded(hub.get_job(job_id), job_id), partial(_failed, job_id))
    try:
        return _figures(plain(device), _Profile.model_validate(profile))
    except ValidationError as cause:
        raise _failed(job_id, f"its profile has another form: {first_fault(cause)}") from cause


def _downloaded(job: Any, job_id: str) -> tuple[str, Any]:
    status = job.wait(WAIT_S)
    if not status.success:
        raise _failed(job_id, str(status.message or status.code))
    return job.device.name, job.download_profile()


def _figures(device: str, profile: _Profile) -> ProfileFigures:
    summary = profile.execution_summary
    calls = summary.all_inference_times or []
    return ProfileFigures(
        device=device,
        call_ms=_ms(median(calls) if calls else summary.estimated_inference_time),
        calls=len(calls),
        first_load_ms=_ms(summary.first_load_time),
        warm_load_ms=_ms(summary.warm_load_time),
        peak_bytes=summary.estimated_inference_peak_memory or None,
        operators=dict(Counter(plain(row.compute_unit) for row in profile.execution_detail)),
    )


def _ms(us: float | None) -> float | None:
    """Microseconds as milliseconds; None for 0, which the service writes for what it did not measure."""
    return float(us) / _US_PER_MS if us else None


def _failed(where: str, why: str) -> InputError:
    return InputError("AI Hub has no result.", where, plain(why), "look at the job on aihub.qualcomm.com", "E564")
