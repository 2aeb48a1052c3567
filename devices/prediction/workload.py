"""The ``Workload``: everything that decides how fast a model runs, about the model, the machine and the software."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Workload:
    """One model on one unit of one device.

    Attributes:
        unit: ``cpu``, ``gpu`` or ``npu``.
        runtime: the software (``executorch``, ``litert``, ``llama.cpp``, ...).
        kernels: the kernel library under it; ExecuTorch and LiteRT share ``xnnpack`` on the CPU.
        npu: generation of the NPU, or the chip's family where it is unknown.
        driver: the chip, where its driver and not the memory limits the unit; empty elsewhere.
        laptop: the machine is a laptop or desktop; its ranges are those of laptops.
        model: the decoder, whatever the bits of its weights.
        layers: number of its layers.
        parameters: number of all parameters, tied ones once.
        prompt_parameters: parameters of the matrices that every token of a prompt is multiplied with.
        weight_bytes: bytes of weights that one decoded token reads.
        cache_bytes: bytes of keys and values that one decoded token reads.
        attention_operations: the cost of attention per token of the prompt, in operations of a matrix product.
        tokens_at_once: tokens of a prompt that one call takes, so that weights are read once for all of them.
        bandwidth_bytes_per_s: the memory's peak.
        core_hz: summed clock of the four fastest cores, or None when unknown.
        int8_matmul: whether the CPU has the i8mm instructions; None where that is not known.
        gpu_cores: cores of an Apple GPU, or None.
        gpu_matrix_units: whether each core of the GPU has matrix units.
    """

    unit: str
    runtime: str
    kernels: str
    vendor: str
    family: str
    chip: str
    npu: str
    device: str
    driver: str
    laptop: bool
    model: str
    layers: int
    parameters: float
    prompt_parameters: float
    weight_bytes: float
    cache_bytes: float
    attention_operations: float
    tokens_at_once: float
    bandwidth_bytes_per_s: float
    core_hz: float | None
    int8_matmul: bool | None
    gpu_cores: float | None
    gpu_matrix_units: bool


def fastest_four_hz(clusters: Sequence[Sequence[float]] | None) -> float | None:
    """The summed clock of the four fastest cores, which runtimes use with their usual four threads.

    Args:
        clusters: (cores, clock in Hz) per cluster.
    """
    if not clusters:
        return None
    return sum(heapq.nlargest(4, (clock for cores, clock in clusters for _ in range(int(cores)))))
