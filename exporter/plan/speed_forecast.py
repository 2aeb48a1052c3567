"""Speeds of a decoder on a target, from its shapes: what `edgec plan` says about time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from edgec.devices.estimate import Range
from edgec.devices.speed import calibrated_parameters, decode_tokens_per_s, prefill_tokens_per_s
from edgec.devices.targets import Target
from edgec.devices.workload import Workload, fastest_four_hz
from edgec.exporter.plan.parameters import Kind, Parameter

_SOFTWARE = {
    "xnnpack": ("executorch", "xnnpack"),
    "vulkan": ("executorch", "vulkan"),
    "coreml": ("coreml", "coreml"),
    "coreai": ("coreml", "coreml"),
    "qnn": ("qnn", "qnn"),
}
"""backend -> runtime and kernels, as the calibration names them."""

_REACH = 2.0
"""How far, as a factor, a model may lie outside the sizes that were measured and still get an estimate."""


@dataclass(frozen=True)
class Speeds:
    """Estimated speeds; None where unavailable, and ``notes`` then say why.

    Attributes:
        prefill_tokens_per_s: prompt tokens per second, model loaded.
        ttft_ms: time to first token at that rate.
        decode_tokens_per_s: at the end of the prompt.
    """

    prefill_tokens_per_s: Range | None
    ttft_ms: Range | None
    decode_tokens_per_s: Range | None
    notes: tuple[str, ...]


def forecast(
    listed: Sequence[Parameter],
    target: Target,
    read_bytes: int,
    cache_bytes: int,
    prompt_tokens: int,
    prompt_share: float = 1.0,
) -> Speeds:
    """Estimate a decoder's speeds.

    Args:
        listed: its parameters.
        target: needs a known memory bandwidth.
        read_bytes: weights that one decoded token reads.
        cache_bytes: KV cache that the token after the prompt reads.
        prompt_tokens: length of the prompt.
        prompt_share: share (0..1) of the matrices' work that a prompt's tokens need, all but the last.
    """
    work = _workload(listed, target, read_bytes)
    if work is None:
        return Speeds(None, None, None, (f"speeds are unavailable: {_lacking(target)}",))
    beyond = {quantity: _beyond(quantity, work) for quantity in ("prefill", "decode")}
    prefill = None if beyond["prefill"] else prefill_tokens_per_s(work).scaled(1 / prompt_share)
    # The cache is read like weights, once per token.
    share = read_bytes / (read_bytes + cache_bytes)
    return Speeds(
        prefill_tokens_per_s=prefill,
        ttft_ms=prefill.inverted(1000 * prompt_tokens) if prefill else None,
        decode_tokens_per_s=None if beyond["decode"] else decode_tokens_per_s(work).scaled(share),
        notes=(*filter(None, beyond.values()), *_assumptions(target)),
    )


def _lacking(target: Target) -> str:
    """What an estimate would need."""
    if target.bandwidth_bytes_per_s is None or target.chip is None:
        return "this target's memory bandwidth is unknown"
    return f"nothing that was measured with the {target.backend} backend is known"


def _beyond(quantity: str, work: Workload) -> str:
    """Why the model's size makes an estimate senseless; empty when it does not."""
    low, high = calibrated_parameters(quantity, work.unit)
    if low / _REACH <= work.parameters <= high * _REACH:
        return ""
    measured = f"{low / 1e9:.2g} to {high / 1e9:.2g} billion parameters"
    return f"{quantity} speed is unavailable: on this kind of unit it was calibrated on {measured}"


def _workload(listed: Sequence[Parameter], target: Target, read_bytes: int) -> Workload | None:
    bandwidth, software = target.bandwidth_bytes_per_s, _SOFTWARE.get(target.backend)
    if bandwidth is None or target.chip is None or software is None:
        return None
    return Workload(
        unit=target.unit,
        runtime=software[0],
        kernels=software[1],
        vendor=target.vendor or "unknown",
        family=target.family or "unknown",
        chip=target.chip,
        device=target.phone,
        model="the planned model",
        parameters=sum(p.count * p.active for p in listed if p.kind is not Kind.EMBEDDING),
        weight_bytes=read_bytes,
        bandwidth_bytes_per_s=bandwidth,
        core_hz=fastest_four_hz(target.core_clocks_hz),
        int8_matmul="i8mm" in (target.instruction_set or ()),
        gpu_cores=target.gpu_cores,
    )


def _assumptions(target: Target) -> Iterator[str]:
    if target.unit == "cpu" and target.core_clocks_hz is None:
        yield "core clocks unknown: those of a typical phone of 2024 assumed"
    if target.unit == "cpu" and target.instruction_set is None:
        yield "instruction set unknown: int8 matrix instructions assumed absent"
