"""The speeds that no software exceeds: bytes over the memory's bandwidth, operations over a unit's arithmetic peak.

A range that was learnt from other phones may reach beyond what this one can do; it ends here.
"""

from __future__ import annotations

from edgec.devices.prediction.workload import Workload
from edgec.devices.targets import Target

_OPERATIONS_PER_CYCLE = {True: 256, False: 128, None: 256}
"""8-bit operations of a core in a cycle, with and without i8mm: four 128-bit pipes, as the widest Arm cores have (Arm
Cortex-X4 software optimisation guide: SMMLA and SDOT on V0 to V3)."""

_HALF_OVER_SINGLE = 2
_MATRIX_UNITS = 4
"""Apple's claim for the M5: peak of a GPU with matrix units over one without."""


def fastest_decode(work: Workload) -> float:
    """Tokens per second if weights and cache are read at the peak of the memory and nothing else takes time."""
    return work.bandwidth_bytes_per_s / (work.weight_bytes + work.cache_bytes)


def fastest_prefill(work: Workload, target: Target) -> float | None:
    """Prompt tokens per second at the unit's arithmetic peak; None where that is not known."""
    peak = _PEAKS[target.unit](target, work)
    return None if peak is None else peak / (2 * work.prompt_parameters)


def _cpu(target: Target, work: Workload) -> float | None:
    """All cores at their clocks; Apple's have matrix units whose rate is not published."""
    if target.core_clocks_hz is None or target.vendor == "apple":
        return None
    return _OPERATIONS_PER_CYCLE[work.int8_matmul] * sum(cores * hertz for cores, hertz in target.core_clocks_hz)


def _gpu(target: Target, _: Workload) -> float | None:
    single = target.gpu_fp32_flops_per_s
    if single is None:
        return None
    return single * _HALF_OVER_SINGLE * (_MATRIX_UNITS if target.gpu_matrix_units else 1)


def _npu(target: Target, _: Workload) -> float | None:
    return target.npu_ops_per_s


_PEAKS = {"cpu": _cpu, "gpu": _gpu, "npu": _npu}
