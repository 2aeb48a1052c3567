"""The ``Workload``: everything that decides how fast a model runs, about the model, the machine and the software."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

FLOAT_BITS = 12
"""More bits a weight are floats, whose products take another time than those of integers."""


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
        parameters: those that one decoded token reads: all but an embedding that is not the lm_head, too.
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
        float_inputs: an accelerator's products are of floats; elsewhere of integers.
        recurrent: the model has layers whose state is a matrix (delta rule, SSD), for which few runtimes have kernels.
        npu_ops_per_s: the NPU's peak as its vendor states it, or None.
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
    float_inputs: bool = False
    recurrent: bool = False
    npu_ops_per_s: float | None = None

    @property
    def arithmetic(self) -> str:
        """Of the products: ``float`` or ``integer``; on CPUs it is told by the bits of the weights."""
        floats = self.bits_per_weight > FLOAT_BITS if self.unit == "cpu" else self.float_inputs
        return "float" if floats else "integer"

    @property
    def floats_on(self) -> str:
        """The kernels that multiply floats; empty where integers are multiplied."""
        return self.kernels if self.arithmetic == "float" else ""

    @property
    def recurrent_on(self) -> str:
        """The kernels under a model whose states are matrices; empty for other models."""
        return self.kernels if self.recurrent else ""

    @property
    def bits_per_weight(self) -> float:
        """Of those that a token reads, with scales."""
        return 8 * self.weight_bytes / self.parameters


def fastest_four_hz(clusters: Sequence[Sequence[float]] | None) -> float | None:
    """The summed clock of the four fastest cores, which runtimes use with their usual four threads.

    Args:
        clusters: (cores, clock in Hz) per cluster.
    """
    if not clusters:
        return None
    return sum(heapq.nlargest(4, (clock for cores, clock in clusters for _ in range(int(cores)))))
