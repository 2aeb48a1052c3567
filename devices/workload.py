"""What decides how fast a model runs: the model, the machine, and the software between them."""

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
        parameters: all of the model's, tied ones once.
        weight_bytes: bytes of weights that one decoded token reads.
        bandwidth_bytes_per_s: the memory's peak.
        core_hz: summed clock of the four fastest cores, or None when unknown.
        int8_matmul: whether the CPU has the i8mm instructions.
        gpu_cores: cores of an Apple GPU, or None.
    """

    unit: str
    runtime: str
    kernels: str
    vendor: str
    family: str
    chip: str
    device: str
    model: str
    parameters: float
    weight_bytes: float
    bandwidth_bytes_per_s: float
    core_hz: float | None
    int8_matmul: bool
    gpu_cores: float | None


def fastest_four_hz(clusters: Sequence[Sequence[float]] | None) -> float | None:
    """Summed clock of the four fastest cores: what runtimes use with their usual four threads.

    Args:
        clusters: (cores, clock in Hz) per cluster.
    """
    if not clusters:
        return None
    return sum(heapq.nlargest(4, (clock for cores, clock in clusters for _ in range(int(cores)))))
