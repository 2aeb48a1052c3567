"""The goals of edgec, as data: figures chosen from measurements on another processor.

They were set on two cores of a Cascade Lake server (8.6 GB/s per core, 595 int8 GOPS per core). On another machine
the ratios to the peers decide, not these numbers.
"""

from __future__ import annotations

from dataclasses import dataclass

REMARK = "Goals were set on 2 cores of a Cascade Lake server; on another processor the ratios to the peers decide"


@dataclass(frozen=True)
class Goal:
    """A figure to reach. ``values``: with 1 and with 2 threads, or one for both; ``unit`` as the table prints it."""

    values: tuple[float, ...]
    unit: str

    def __str__(self) -> str:
        return " / ".join(f"{value:g}" for value in self.values)


# By model, subject and row of the speed table.
SPEED = {
    ("q8L", "edgec", "prefill 512"): Goal((900, 530), "ms"),
    ("q8L", "edgec, shared KV", "prefill 512"): Goal((560, 330), "ms"),
    ("q8L", "edgec", "decode at 128"): Goal((46, 80), "tokens/s"),
    ("q8L", "edgec", "decode at 960"): Goal((40, 71), "tokens/s"),
    ("q8L", "edgec", "forward 8"): Goal((28, 17), "ms"),
    ("q8L", "edgec", "load to first token"): Goal((150,), "ms"),
}
EXPORT_CPU_S = {"smol": 90.0, "qwen3": 180.0}


def export_peak_bytes(bf16_bytes: int) -> int:
    """The most resident memory that an export may take."""
    return bf16_bytes * 3 // 2 + 1_000_000_000


def memory_peak_bytes(file_bytes: int, kv_bytes: int) -> int:
    """The most resident memory that the C++ runner may take."""
    return file_bytes * 115 // 100 + kv_bytes + 60_000_000
