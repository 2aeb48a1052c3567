"""A results object with known numbers, and a workshop whose artifacts are empty files."""

from __future__ import annotations

from typing import Any

from benchmarks.harness.results import (
    Artifact,
    ContextCurve,
    Export,
    Limits,
    Machine,
    Memory,
    ModelFacts,
    OperatorCost,
    Profile,
    Results,
    Speed,
    Spread,
)


def spread(value: float) -> Spread:
    return Spread(median=value, low=value / 2, q1=value, q3=value, high=2 * value, count=3)


def speed(subject: str, threads: int, case: str, ms: float, tokens: int = 1) -> Speed:
    times = {"wall_ms": spread(ms), "cpu_ms": spread(ms)}
    return Speed(model="q8L", subject=subject, threads=threads, case=case, tokens=tokens, others=0.0, **times)


def memory(subject: str, runtime: str, peak: int) -> Memory:
    what: dict[str, Any] = {"model": "q8L", "subject": subject, "runtime": runtime, "threads": 2}
    return Memory(**what, peak_bytes=peak, idle_bytes=None, kv_bytes=40_000_000, obtained="measured")


MACHINE = Machine(
    cpu="Chip 9",
    cores=2,
    memory_bytes=8_000_000_000,
    system="Linux",
    features=["avx2"],
    governor=None,
    load_average=(0.1, None),
)
# 1e9 bytes per token at 50 GB/s: 20 ms at best. 1e9 weights x 2 x 100 tokens at 400 GOPS: 500 ms at best.
RESULTS = Results(
    date="2026-01-02T03:04:05+00:00",
    quick=False,
    seconds={"speed": 1.0},
    versions={"edgec": "0.1.0", "executorch": "1.5.1"},
    machine=MACHINE,
    models=[ModelFacts(name="q8L", about="a model", layers=8, matrix_values=1_000_000_000, vocab_values=1)],
    limits=[Limits(threads=t, read_gb_per_s=50.0, int8_gops=400.0, fp32_gflops=100.0, obtained="m") for t in (1, 2)],
    artifacts=[
        Artifact(model="q8L", subject="edgec", file_bytes=100_000_000, decode_bytes_computed=1_000_000_000),
        Artifact(model="q8L", subject="peer", file_bytes=200_000_000, decode_bytes_computed=None, note="a remark"),
    ],
    exports=[Export(model="q8L", subject="edgec", cpu_s=50, wall_s=51, peak_bytes=10**9, bf16_bytes=10**9)],
    speeds=[
        *(speed("edgec", t, "prefill 100", 1000.0 / t, 100) for t in (1, 2)),
        *(speed("peer", t, "prefill 100", 2000.0, 100) for t in (1, 2)),
        *(speed("edgec", t, "decode at 960", 40.0 / t) for t in (1, 2)),
        *(speed("peer", 1, "decode at 960", 20.0) for _ in range(1)),
    ],
    memory=[memory("edgec", "Python", 300_000_000), memory("edgec", "C++ runner", 160_000_000)],
    contexts=[
        ContextCurve(
            subject="edgec, int8 KV",
            threads=2,
            contexts=[128, 8192],
            ttft_ms=[spread(10.0), spread(900.0)],
            decode_ms=[spread(1.0), spread(3.0)],
        )
    ],
    profiles=[
        Profile(
            model="q8L",
            subject="edgec",
            threads=t,
            phase="decode",
            tokens=1,
            repetitions=3,
            ms=10.0,
            operators=[OperatorCost(operator="edgec::rope.out", calls=16, ms=8.0, share=0.8)],
        )
        for t in (1, 2)
    ],
    scripts={"prefix": {"ttft_ms": {"with": 1.5, "without": [12, 13]}}},
)
