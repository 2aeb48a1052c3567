"""The speeds of a decoder on a target, estimated from its shapes for ``edgec plan``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from edgec.devices.prediction.calibration import USUAL_ATTENTION_COST, decoders
from edgec.devices.prediction.estimate import Range
from edgec.devices.prediction.footprint import OWN_KERNELS, kv_bytes
from edgec.devices.prediction.parameters import Kind, Parameter
from edgec.devices.prediction.peak_speed import fastest_decode, fastest_prefill
from edgec.devices.prediction.shared_layers import prompt_layers, prompt_share
from edgec.devices.prediction.speed import (
    Measured,
    calibrated_parameters,
    decode_tokens_per_s,
    prefill_tokens_per_s,
    reading_bytes_per_s,
)
from edgec.devices.prediction.workload import Workload, fastest_four_hz
from edgec.devices.targets import Target
from edgec.ir.spec import LayerSpec, ModelSpec

_SOFTWARE = {
    OWN_KERNELS: ("edgec", OWN_KERNELS),
    "xnnpack": ("executorch", "xnnpack"),
    "vulkan": ("executorch", "vulkan"),
    "coreml": ("coreml", "coreml"),
    "coreai": ("coreml", "coreml"),
    "qnn": ("qnn", "qnn"),
}
"""Kernels -> runtime and kernels, as the calibration names them."""

_STATIC = ("coreml", "coreai", "qnn", "qnn_delegate")
"""Backends whose artifacts have static shapes: every call attends to the whole cache."""

_ATTENTION_COST = {"xnnpack": 1.0}
"""Cost of edgec's own kernel on CPUs, where 512 tokens took 4.0 times as long as 128 (measured); others: the usual."""

_FLOAT_BITS = 12
"""More bits a weight are floats, whose products take another time than those of integers."""

_REACH = 2.0
"""The factor by which a model may lie outside the measured sizes and still get an estimate."""


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


@dataclass(frozen=True)
class Task:
    """A decoder and the prompt that its speeds are estimated for.

    Attributes:
        spec: the decoder's layers.
        listed: its parameters.
        read_bytes: weights that one decoded token reads.
        kernels: what multiplies the matrices: edgec's own kernels, or the target's backend.
        kv_bits: of cached keys and values.
        prompt_tokens: length of the prompt.
        call_tokens: tokens of the prompt that one call takes.
        context: tokens that the cache has room for.
        state_bytes: of what recurrences remember, which each decoded token reads and writes.
        float_inputs: as in ``Widths``.
    """

    spec: ModelSpec
    listed: Sequence[Parameter]
    read_bytes: int
    kernels: str
    kv_bits: int
    prompt_tokens: int
    call_tokens: int
    context: int
    state_bytes: int = 0
    float_inputs: bool = False


def forecast(task: Task, target: Target, measured: Measured = ()) -> Speeds:
    """Estimate a decoder's speeds on a target, which needs a known memory bandwidth.

    ``measured``: the user's own measurements, of this phone or others.
    """
    if task.float_inputs:
        note = "speeds are unavailable: they were calibrated on 8-bit activations, and this recipe's stay in float"
        return Speeds(None, None, None, (note,))
    work = _workload(task, target)
    if work is None:
        return Speeds(None, None, None, (f"speeds are unavailable: {_lacking(target)}",))
    beyond = {quantity: _beyond(quantity, work, measured) for quantity in ("prefill", "decode")}
    prefill = None if beyond["prefill"] else prefill_tokens_per_s(work, measured).at_most(fastest_prefill(work, target))
    return Speeds(
        prefill_tokens_per_s=prefill,
        ttft_ms=prefill.invert(1000 * task.prompt_tokens) if prefill else None,
        decode_tokens_per_s=None
        if beyond["decode"]
        else decode_tokens_per_s(work, measured).at_most(fastest_decode(work)),
        notes=(
            *filter(None, beyond.values()),
            *_learned(work, measured),
            *_assumptions(work, target),
            *_limits(work, target),
        ),
    )


def _learned(work: Workload, measured: Measured) -> Iterator[str]:
    """A note on which of the user's own measurements count most here: those of the phone, else the chip, else any."""
    here = [each for each in measured if each.workload.unit == work.unit]
    for words, field in (("this phone", "device"), ("its chip", "chip"), ("other phones", "unit")):
        alike = [each.row for each in here if getattr(each.workload, field) == getattr(work, field)]
        if alike:
            yield f"learned from your measurements of {words}: {'; '.join(alike)}"
            return


def _lacking(target: Target) -> str:
    """What is missing for an estimate, as a note."""
    if target.bandwidth_bytes_per_s is None or target.chip is None:
        return "this target's memory bandwidth is unknown"
    return f"no measurements are known with the {target.backend} backend"


def _beyond(quantity: str, work: Workload, measured: Measured) -> str:
    """A note that nothing alike was measured: the model's size, or a prompt in floats; empty where something was."""
    if quantity == "prefill" and work.unit == "cpu" and 8 * work.weight_bytes / work.parameters > _FLOAT_BITS:
        return "prefill speed is unavailable: on CPUs it was calibrated on integer weights alone"
    low, high = calibrated_parameters(quantity, work.unit, measured)
    if low / _REACH <= work.parameters <= high * _REACH:
        return ""
    sizes = f"{low / 1e9:.2g} to {high / 1e9:.2g} billion parameters"
    return f"{quantity} speed is unavailable: on this kind of unit it was calibrated on {sizes}"


def machine_of(target: Target) -> dict[str, Any] | None:
    """The fields of a ``Workload`` that say what it runs on; None where the bandwidth or the chip is unknown."""
    if target.bandwidth_bytes_per_s is None or target.chip is None:
        return None
    family = target.family or "unknown"
    return {
        "unit": target.unit,
        "vendor": target.vendor or "unknown",
        "family": family,
        "chip": target.chip,
        "npu": target.hexagon or family,
        "device": target.phone,
        "driver": target.chip if target.unit in target.driver_limited else "",
        "laptop": target.kind == "laptop",
        "bandwidth_bytes_per_s": target.bandwidth_bytes_per_s,
        "core_hz": fastest_four_hz(target.core_clocks_hz),
        "int8_matmul": None if target.instruction_set is None else "i8mm" in target.instruction_set,
        "gpu_cores": target.gpu_cores,
        "gpu_matrix_units": target.gpu_matrix_units,
    }


def software_of(target: Target, kernels: str | None = None) -> dict[str, Any] | None:
    """The fields of a ``Workload`` that say what executes it; None where the calibration has no such software.

    ``kernels``: what multiplies the matrices; None: edgec's own on CPUs, else the target's backend.
    """
    usual = OWN_KERNELS if target.backend == "xnnpack" else target.backend
    named = _SOFTWARE.get(kernels or usual)
    return None if named is None else {"runtime": named[0], "kernels": named[1]}


def _workload(task: Task, target: Target) -> Workload | None:
    machine, software = machine_of(target), software_of(target, task.kernels)
    if machine is None or software is None:
        return None
    matrices = int(sum(p.count * p.active for p in task.listed if p.kind is Kind.LINEAR))
    cached = task.context if target.backend in _STATIC else task.prompt_tokens
    return Workload(
        **machine,
        **software,
        model=_decoder_of(task.spec, matrices),
        layers=len(task.spec.layers),
        parameters=sum(p.count * p.active for p in task.listed if p.kind is not Kind.EMBEDDING),
        prompt_parameters=matrices * prompt_share(task.listed, task.spec),
        weight_bytes=task.read_bytes,
        cache_bytes=kv_bytes(task.spec, task.kv_bits, cached) + 2 * task.state_bytes,
        attention_operations=_attention_operations(task, target.backend),
        tokens_at_once=task.call_tokens,
    )


def _decoder_of(spec: ModelSpec, matrices: int) -> str:
    """The measured decoder of the same shape, so that what is known of it counts; any other model has none."""
    same = (name for name, row in decoders().items() if _is(row, spec, matrices))
    return next(same, "the planned model")


def _is(row: Mapping[str, str], spec: ModelSpec, matrices: int) -> bool:
    layers = (int(row["layers"]), int(row["matrix_parameters"]))
    return layers == (len(spec.layers), matrices)


def _attention_operations(task: Task, backend: str) -> float:
    """Operations of attention for one token of the prompt: scores and values against each attended token."""
    attended = (layer.heads * layer.head_dim * _attended(task, backend, layer) for layer in prompt_layers(task.spec))
    return 4 * sum(attended) * _ATTENTION_COST.get(backend, USUAL_ATTENTION_COST)


def _attended(task: Task, backend: str, layer: LayerSpec) -> float:
    """Tokens attended to in a layer, on average; in static shapes a window is only a mask over the whole cache."""
    if backend in _STATIC:
        return task.context
    half = task.prompt_tokens / 2
    return min(half, layer.window or half)


def _limits(work: Workload, target: Target) -> Iterator[str]:
    """A note where the driver holds the unit back, whatever the memory could deliver."""
    if target.unit in target.driver_limited:
        low, high = (value / 1e9 for value in reading_bytes_per_s(work.chip, work.unit))
        peak = work.bandwidth_bytes_per_s / 1e9
        yield (
            f"the driver limits this chip's {work.unit}: where it was measured, it read {low:.0f} to {high:.0f} "
            f"of the memory's {peak:.0f} GB/s, so more bandwidth does not make it faster"
        )


def _assumptions(work: Workload, target: Target) -> Iterator[str]:
    if work.kernels == OWN_KERNELS:
        yield (
            "edgec's own kernels have not been measured on a phone yet: estimated from other software on this chip, "
            "with a wider range"
        )
    if target.unit == "cpu" and target.core_clocks_hz is None:
        yield "core clocks unknown: those of a typical phone of 2024 assumed"
    if target.unit == "cpu" and target.instruction_set is None:
        yield "instruction set unknown: a speed between those with and without int8 matrix instructions is assumed"
