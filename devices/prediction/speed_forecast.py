"""The speeds of a decoder on a target, estimated from its shapes for ``edgec plan``."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from edgec.devices.prediction.calibration import (
    CALL_TOKENS,
    STATIC_RUNTIMES,
    USUAL_ATTENTION_COST,
    USUAL_CALL_TOKENS,
    attention_cost,
    decoders,
)
from edgec.devices.prediction.estimate import Range
from edgec.devices.prediction.footprint import OWN_KERNELS, kv_bytes
from edgec.devices.prediction.parameters import Kind, Parameter
from edgec.devices.prediction.peak_speed import fastest_decode, fastest_prefill
from edgec.devices.prediction.shared_layers import prompt_layers, prompt_share
from edgec.devices.prediction.speed import Measured, decode_tokens_per_s, prefill_tokens_per_s
from edgec.devices.prediction.speed_notes import notes_on, unavailable, unmeasured
from edgec.devices.prediction.workload import Workload, fastest_four_hz
from edgec.devices.targets import Target
from edgec.ir.spec import LayerSpec, ModelSpec

Software = Mapping[str, Any]
"""The fields of a ``Workload`` that say what executes it."""

_MLX: Software = {"runtime": "mlx", "kernels": "mlx"}
_SOFTWARE: Mapping[str, Software] = {
    OWN_KERNELS: {"runtime": "edgec", "kernels": OWN_KERNELS},
    "xnnpack": {"runtime": "executorch", "kernels": "xnnpack"},
    "vulkan": {"runtime": "executorch", "kernels": "vulkan"},
    "coreml": {"runtime": "coreml", "kernels": "coreml", "float_inputs": True},
    "coreai": {"runtime": "coreml", "kernels": "coreml", "float_inputs": True},
    "qnn": {"runtime": "qnn", "kernels": "qnn"},
    "mlx": _MLX,
}
"""Kernels -> software, as the calibration names it."""

_OTHERS: Mapping[str, Software] = {"coreml_gpu": _MLX, "coreai_gpu": _MLX}
"""Backend of which no speed is known -> what was measured on its unit."""

_STATIC = ("coreml", "coreml_gpu", "coreai", "coreai_gpu", "qnn", "qnn_delegate", "vulkan")
"""Backends whose artifacts have static shapes: every call attends to the whole cache."""

_ATTENTION_COST = {"xnnpack": 1.0}
"""Cost of edgec's own kernel on CPUs, where 512 tokens took 4.0 times as long as 128 (measured); others: the usual."""

_ALIKE = 0.02
"""How far the parameters of a model's matrices may be from those of a measured decoder that it is taken for."""

_MATRIX_STATE_BYTES = 2**18
"""More bytes of state a layer are matrices (delta rule, SSD), for which few runtimes have kernels."""


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
    work = planned_workload(task, target)
    if work is None:
        return Speeds(None, None, None, (f"speeds are unavailable: {_lacking(target)}",))
    beyond = {quantity: unmeasured(quantity, work, target, measured) for quantity in ("prefill", "decode")}
    prefill = None if beyond["prefill"] else _estimate(partial(_prefill, target, measured), work, target)
    decode = None if beyond["decode"] else _estimate(partial(_decode, measured), work, target)
    return Speeds(
        prefill_tokens_per_s=prefill,
        ttft_ms=prefill.invert(1000 * task.prompt_tokens) if prefill else None,
        decode_tokens_per_s=decode,
        notes=(*unavailable(beyond), *(notes_on(work, target, measured) if prefill or decode else ())),
    )


def _prefill(target: Target, measured: Measured, work: Workload) -> Range:
    return prefill_tokens_per_s(work, measured).at_most(fastest_prefill(work, target))


def _decode(measured: Measured, work: Workload) -> Range:
    return decode_tokens_per_s(work, measured).at_most(fastest_decode(work))


def _estimate(speed: Callable[[Workload], Range], work: Workload, target: Target) -> Range:
    """The speed of a workload; where the memory is one of several, from the low end of the slowest on."""
    middle = speed(work)
    if target.bandwidth_low_bytes_per_s is None or target.bandwidth_bytes_per_s is None:
        return middle
    ends = (target.bandwidth_low_bytes_per_s, target.bandwidth_bytes_per_s)
    slow, fast = (speed(replace(work, bandwidth_bytes_per_s=rate)) for rate in ends)
    return replace(middle, low=slow.low, high=fast.high)


def _lacking(target: Target) -> str:
    """What is missing for an estimate, as a note."""
    if target.bandwidth_bytes_per_s is None or target.chip is None:
        return "this target's memory bandwidth is unknown"
    return f"no measurements are known with the {target.backend} backend"


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
        "bandwidth_bytes_per_s": _middle_bandwidth(target),
        "core_hz": fastest_four_hz(target.core_clocks_hz),
        "int8_matmul": None if target.instruction_set is None else "i8mm" in target.instruction_set,
        "gpu_cores": target.gpu_cores,
        "gpu_matrix_units": target.gpu_matrix_units,
        "npu_ops_per_s": target.npu_ops_per_s,
    }


def _middle_bandwidth(target: Target) -> float:
    """The memory's bandwidth; of several kinds of memory the geometric mean."""
    high = target.bandwidth_bytes_per_s
    assert high is not None  # without it there is no machine
    return math.sqrt(high * (target.bandwidth_low_bytes_per_s or high))


def software_of(target: Target, kernels: str | None = None) -> Software | None:
    """What executes an artifact of a target; None where the calibration has no such software.

    ``kernels``: what multiplies the matrices; None: edgec's own on CPUs, else the target's backend.
    """
    usual = OWN_KERNELS if target.backend == "xnnpack" else target.backend
    return _OTHERS.get(target.backend) or _SOFTWARE.get(kernels or usual)


@dataclass(frozen=True)
class _Calls:
    """How a runtime reads a prompt: the tokens of a call, and the cost of attention; static: over the whole cache."""

    tokens: int
    static: bool
    attention_cost: float


def planned_workload(task: Task, target: Target, other: Software | None = None) -> Workload | None:
    """What a task asks of a target; None where the target's bandwidth or its software is not known.

    ``other``: software that runs the task in place of edgec's artifact.
    """
    machine, software = machine_of(target), other or software_of(target, task.kernels)
    if machine is None or software is None:
        return None
    others = other or _OTHERS.get(target.backend)
    calls = _calls_of(others, task) if others else _own_calls(target, task)
    matrices = int(sum(p.count * p.active for p in task.listed if p.kind is Kind.LINEAR))
    cached = task.context if calls.static else task.prompt_tokens
    return Workload(
        **machine,
        **software,
        model=_decoder_of(task.spec, matrices),
        layers=len(task.spec.layers),
        parameters=sum(p.count * p.active for p in task.listed if p.kind is not Kind.EMBEDDING),
        prompt_parameters=matrices * prompt_share(task.listed, task.spec),
        weight_bytes=task.read_bytes,
        cache_bytes=kv_bytes(task.spec, task.kv_bits, cached) + 2 * task.state_bytes,
        attention_operations=_attention_operations(task, calls),
        tokens_at_once=calls.tokens,
        recurrent=task.state_bytes > _MATRIX_STATE_BYTES * len(task.spec.layers),
    )


def _own_calls(target: Target, task: Task) -> _Calls:
    static, cost = target.backend in _STATIC, _ATTENTION_COST.get(target.backend, USUAL_ATTENTION_COST)
    return _Calls(task.call_tokens, static, cost)


def _calls_of(software: Software, task: Task) -> _Calls:
    runtime = software["runtime"]
    tokens = min(task.prompt_tokens, CALL_TOKENS.get(runtime, USUAL_CALL_TOKENS))
    return _Calls(tokens, runtime in STATIC_RUNTIMES, attention_cost(software["kernels"]))


def _decoder_of(spec: ModelSpec, matrices: int) -> str:
    """The measured decoder of nearly the same shape, so that what is known of it counts; any other model has none."""
    off = {
        name: abs(int(row["matrix_parameters"]) / max(matrices, 1) - 1)
        for name, row in decoders().items()
        if int(row["layers"]) == len(spec.layers)
    }
    nearest = min(off, key=lambda name: off[name], default="")
    return nearest if nearest and off[nearest] <= _ALIKE else "the planned model"


def _attention_operations(task: Task, calls: _Calls) -> float:
    """Operations of attention for one token of the prompt: scores and values against each attended token."""
    layers = prompt_layers(task.spec)
    return 4 * sum(each.heads * each.head_dim * _attended(task, calls, each) for each in layers) * calls.attention_cost


def _attended(task: Task, calls: _Calls, layer: LayerSpec) -> float:
    """Tokens attended to in a layer, on average; in static shapes a window is only a mask over the whole cache."""
    if calls.static:
        return task.context
    half = task.prompt_tokens / 2
    return min(half, layer.window or half)
