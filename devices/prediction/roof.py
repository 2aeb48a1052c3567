"""The roof: tokens per second of a machine at full use, from bytes over bandwidth, operations over rate, and calls.

Decode reads all weights and the cache once per token. Prefill multiplies every token with the matrices and reads them
once per call; attention grows with the prompt. Each layer of each call also costs a fixed time, whatever its size.
What share of the roof a device, a runtime and a model reach is learnt (``roofline.py``).
"""

from __future__ import annotations

from collections.abc import Mapping

from edgec.devices.prediction.workload import Workload

LAYER_S = {"cpu": 1e-4, "gpu": 5e-5, "npu": 2e-4}
"""Seconds per layer and call in addition to bytes and operations: dispatch, synchronisation, small operators."""

NPU_BYTES_PER_S = 85e9
"""The most that an NPU's memory port delivers: no published NPU read more, however fast its memory."""

MATRIX_UNIT_SPEEDUP = 3.5
"""The speedup of GPUs with matrix units over those without: Apple's claim for the M5 (four times the peak)."""

REFERENCE_HZ = 13e9
"""The summed clock of four fast cores of a phone of 2024, also assumed where the clock is unknown."""

CACHE_COST = {"cpu": 1.0, "gpu": 2.0, "npu": 2.0}
"""How many times as long a byte of the cache takes as one of the weights."""

_CACHE_COST_OF = {("npu", "coreml"): 7.0}
"""The same by unit and kernels: Qwen3-4B on an A19 Pro's Neural Engine took 36 ms a token at 19 tokens, 86 at 2,681
and 95 at 3,977 (github.com/john-rocky/apple-silicon-llm-bench)."""

FLOAT_SLOWDOWN = 4.2
"""How many times as long CPUs take for a product of floats as for one of integers: prompts of Llama 3.2 1B and 3B in
BF16 and 4 bits on a Snapdragon 8 Gen 3 (ExecuTorch, examples/models/llama/README.md: 60.3 and 260.5, 21.2 and 89.7)."""

_INT8_MATMUL: Mapping[bool | None, float] = {True: 1.0, None: 0.5**0.5, False: 0.5}
"""The rate of a CPU's integer products relative to one with i8mm; between the two where it is not known."""

_OPERATIONS_PER_S: Mapping[str, float] = {"gpu": 4e12, "npu": 1e13}
"""A scale only, since the share is learnt: it sets how operations weigh against bytes and calls."""

_EIGHT_BIT_FIGURES = 2e13
"""From here on Apple's figures are those of 8-bit operations: M3 18 TOPS, A17 Pro of the same generation 35."""

_NEWEST_NPU = 1.75e13
"""Float16 operations per second of an A17 Pro's or A18 Pro's; later chips' are not published."""

_APPLE_CORES, _MEMORY_BYTES_PER_S = 6, 80e9
"""The size of a GPU at that scale."""


def roof(quantity: str, work: Workload) -> float:
    """Tokens per second of a workload at full use of its machine.

    Args:
        quantity: ``decode`` or ``prefill``.
        work: the model on the machine.
    """
    seconds = _decode_seconds(work) if quantity == "decode" else _prefill_seconds(work)
    return 1 / seconds


def _decode_seconds(work: Workload) -> float:
    cache = work.cache_bytes * _CACHE_COST_OF.get((work.unit, work.kernels), CACHE_COST[work.unit])
    return (work.weight_bytes + cache) / _bytes_per_s(work) + work.layers * LAYER_S[work.unit]


def _prefill_seconds(work: Workload) -> float:
    operations = 2 * work.prompt_parameters + work.attention_operations
    read = work.weight_bytes * min(1.0, work.prompt_parameters / work.parameters)
    call = read / _bytes_per_s(work) + work.layers * LAYER_S[work.unit]
    return operations / _operations_per_s(work) + call / work.tokens_at_once


def _bytes_per_s(work: Workload) -> float:
    bandwidth = work.bandwidth_bytes_per_s
    return min(bandwidth, NPU_BYTES_PER_S) if work.unit == "npu" else bandwidth


def _operations_per_s(work: Workload) -> float:
    """Operations per second: of a CPU by its clock and integer dot product, of a GPU by its cores or memory."""
    if work.unit == "cpu":
        integers = (work.core_hz or REFERENCE_HZ) * 100 * _INT8_MATMUL[work.int8_matmul]
        return integers / FLOAT_SLOWDOWN if work.arithmetic == "float" else integers
    if work.unit == "npu":
        return _OPERATIONS_PER_S["npu"] * _npu_size(work.npu_ops_per_s)
    size = work.gpu_cores / _APPLE_CORES if work.gpu_cores else work.bandwidth_bytes_per_s / _MEMORY_BYTES_PER_S
    return _OPERATIONS_PER_S["gpu"] * size * (MATRIX_UNIT_SPEEDUP if work.gpu_matrix_units else 1)


def _npu_size(stated: float | None) -> float:
    """An NPU's float16 rate over that of Apple's newest; one where its vendor states none."""
    if stated is None:
        return 1.0
    return (stated if stated < _EIGHT_BIT_FIGURES else stated / 2) / _NEWEST_NPU
