"""Attention alone, edgec's kernel against ExecuTorch's: python -m benchmarks.attention_kernel [--json].

One program per kernel and cache dtype holds layers of the shape of Qwen3-0.6B (16 heads over 8 KV heads, width 128),
each with its own KV cache, so that one layer's reads push another's out of the processor's caches. The programs run
in turns on edgec's engine, which times each instruction: wall time of the attention operator, median and deciles.
``llama::custom_sdpa`` is that of ExecuTorch's wheel; it has no integer caches, so their ratio is against its float32.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import quantiles
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import torch

    from edgec.runtime_py.engines.engine import EngineSession

HEADS, KV_HEADS, WIDTH, SLOTS, CHUNK, LAYERS = 16, 8, 128, 4608, 512, 4
EDGEC, EXECUTORCH = "edgec::cached_attention.out", "llama::custom_sdpa.out"
PROGRAMS = (
    *((EDGEC, dtype) for dtype in ("float32", "float16", "int8", "int4")),
    *((EXECUTORCH, dtype) for dtype in ("float32", "float16")),
)
BITS = {"float32": 32, "float16": 16, "int8": 8, "int4": 4}
# ExecuTorch's float16 takes seconds for what float32 does in 50 ms: decoding only.
SLOW = (EXECUTORCH, "float16")


@dataclass(frozen=True)
class Case:
    """A call of ``tokens`` query tokens after ``context - tokens`` earlier ones."""

    name: str
    tokens: int
    context: int

    @property
    def operations(self) -> int:
        """Floating-point operations of the products with visible keys and values."""
        visible = sum(range(self.context - self.tokens + 1, self.context + 1))
        return 4 * visible * HEADS * WIDTH


CASES = (
    Case("prefill", 128, 128),
    Case("prefill", 512, 512),
    Case("prefill", 512, 4096),
    Case("verify", 8, 960),
    *(Case("decode", 1, context) for context in (128, 512, 960, 4096)),
)


@dataclass(frozen=True)
class Row:
    """The figures of one operator in one case.

    Attributes:
        median_ms: wall time of one layer's attention, measured.
        p10_ms: the fastest tenth.
        p90_ms: the slowest tenth.
        calls: how many were measured.
        gflops: rate on visible keys, by the median; None in decoding.
        gb_per_s: rate of reading visible keys and values, by the median; None except in decoding.
        ratio: ExecuTorch's median over this one, in the same dtype where it has it, else in float32.
    """

    case: str
    tokens: int
    context: int
    threads: int
    operator: str
    dtype: str
    median_ms: float
    p10_ms: float
    p90_ms: float
    calls: int
    gflops: float | None
    gb_per_s: float | None
    ratio: float | None = None


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", default="1,2", help="sizes of the thread pool")
    parser.add_argument("--rounds", type=int, default=5, help="turns of every program per case")
    parser.add_argument("--realtime", action="store_true", help="keep other processes off (needs privileges)")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    options = parser.parse_args(arguments)
    threads = [int(n) for n in options.threads.split(",")]
    with TemporaryDirectory() as folder:
        result = measure(Path(folder), threads, options.rounds, options.realtime)
    print(json.dumps(result, indent=1) if options.json else table(result))


def measure(folder: Path, threads: Sequence[int], rounds: int, realtime: bool) -> dict[str, Any]:
    """Measure the machine's limits, and one row per operator, case and number of threads."""
    import torch

    from benchmarks.harness.limits import measure_limits
    from edgec.runtime_py.engines.engine import set_pool_threads
    from edgec.runtime_py.engines.engine_library import library

    # ExecuTorch's kernel multiplies with torch's BLAS, whose threads would fight those of the pool.
    torch.set_num_threads(1)
    # Registers ExecuTorch's kernel before the engine could miss it.
    import executorch.extension.llm.custom_ops.custom_ops  # noqa: F401  # isort: skip

    library()
    paths = {program: _export(folder, *program) for program in PROGRAMS}
    limits = measure_limits(folder, threads, 3)
    if realtime:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(10))
    rows = []
    for count in threads:
        set_pool_threads(count)
        sessions = {program: _session(path) for program, path in paths.items()}
        rows += [row for case in CASES for row in _case(case, sessions, count, rounds)]
    return {"shape": f"H{HEADS} G{KV_HEADS} D{WIDTH}", "limits": limits, "rows": [asdict(row) for row in rows]}


def _export(folder: Path, operator: str, dtype: str) -> Path:
    """Export a program of LAYERS layers that write and read caches of ``dtype``."""
    import torch
    from executorch.exir import EdgeCompileConfig, ExecutorchBackendConfig, to_edge
    from executorch.exir.passes import MemoryPlanningPass
    from executorch.exir.passes.sym_shape_eval_pass import ConstraintBasedSymShapeEvalPass

    size = torch.export.Dim("S", min=2, max=CHUNK)
    # ExecuTorch's kernel wants queries of the cache's dtype.
    held = getattr(torch, dtype) if operator == EXECUTORCH else torch.float32
    inputs = (*(torch.zeros(1, 8, n, WIDTH, dtype=held) for n in (HEADS, KV_HEADS, KV_HEADS)), torch.arange(8))
    shapes = ({1: size}, {1: size}, {1: size}, {0: size})
    with torch.no_grad():
        exported = torch.export.export(_model(operator, dtype), inputs, dynamic_shapes=shapes)
    edge = to_edge(exported, compile_config=EdgeCompileConfig(_check_ir_validity=False, _skip_dim_order=True))
    emitting = ExecutorchBackendConfig(
        memory_planning_pass=MemoryPlanningPass(alloc_graph_input=False, share_mutable_buffers=True),
        sym_shape_eval_pass=ConstraintBasedSymShapeEvalPass(),
    )
    path = folder / f"{operator.partition(':')[0]}-{dtype}.pte"
    path.write_bytes(edge.to_executorch(emitting).buffer)
    return path


def _model(operator: str, dtype: str) -> torch.nn.Module:
    import torch
    from torch import Tensor, nn

    from edgec.ir.operators import CACHE_WRITE, CACHED_ATTENTION, grid_group

    stored = torch.uint8 if dtype == "int4" else getattr(torch, dtype)
    width = WIDTH // 2 if dtype == "int4" else WIDTH

    class Layers(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            for layer in range(LAYERS):
                for name in (f"keys{layer}", f"values{layer}"):
                    self.register_buffer(name, torch.zeros(1, SLOTS, KV_HEADS, width, dtype=stored))
                    grid = torch.zeros(1, SLOTS, KV_HEADS, 2 * WIDTH // grid_group(stored, WIDTH), dtype=torch.float16)
                    if not stored.is_floating_point:
                        self.register_buffer(f"{name}_grid", grid)

        def forward(self, q: Tensor, k: Tensor, v: Tensor, positions: Tensor) -> list[Tensor]:
            layer = self.edgec_layer if operator == EDGEC else self.executorch_layer
            return [layer(i, q, k, v, positions) for i in range(LAYERS)]

        def edgec_layer(self, i: int, q: Tensor, k: Tensor, v: Tensor, positions: Tensor) -> Tensor:
            keys, values = getattr(self, f"keys{i}"), getattr(self, f"values{i}")
            grids = getattr(self, f"keys{i}_grid", None), getattr(self, f"values{i}_grid", None)
            CACHE_WRITE(k, positions, keys, grids[0], 0, 0)
            CACHE_WRITE(v, positions, values, grids[1], 0, 0)
            rows = positions, positions
            result: Tensor = CACHED_ATTENTION(q, *rows, keys, values, *grids, WIDTH**-0.5, 0, 0, 0, 0.0, None)
            return result

        def executorch_layer(self, i: int, q: Tensor, k: Tensor, v: Tensor, positions: Tensor) -> Tensor:
            keys, values, start = getattr(self, f"keys{i}"), getattr(self, f"values{i}"), positions[0].item()
            torch.ops.llama.update_cache(k, keys, start)
            torch.ops.llama.update_cache(v, values, start)
            result: Tensor = torch.ops.llama.custom_sdpa(q, keys, values, start, None, 0.0, True, WIDTH**-0.5)
            return result

    return Layers()


def _session(path: Path) -> EngineSession:
    """Open a session and write its caches: unwritten pages would all be one page of zeros."""
    from edgec.runtime_py.engines.engine import EngineModel

    session = EngineModel(path).session(profile=True)
    assert session.state is not None
    # Small positive numbers in each of the dtypes.
    session.state.fill(0x30)
    return session


def _case(case: Case, sessions: dict[tuple[str, str], EngineSession], threads: int, rounds: int) -> Iterator[Row]:
    """Run all programs in turns; the first turn is not counted."""
    wanted = [program for program in PROGRAMS if program != SLOW or case.tokens == 1]
    times: dict[tuple[str, str], list[float]] = {program: [] for program in wanted}
    inputs = {program: _inputs(program, case) for program in wanted}
    for turn in range(rounds * (8 if case.tokens == 1 else 1) + 1):
        for program in wanted:
            sessions[program].run(inputs[program])
            taken = sessions[program].profile(reset=True)
            if turn:
                times[program] += [step.total_ns / 1e6 for step in taken if step.name == program[0]]
    executorch_ms = {dtype: _median(times[EXECUTORCH, dtype]) for operator, dtype in wanted if operator == EXECUTORCH}
    for (operator, dtype), values in times.items():
        yield _row(case, threads, operator, dtype, values, executorch_ms.get(dtype, executorch_ms["float32"]))


def _inputs(program: tuple[str, str], case: Case) -> list[np.ndarray[Any, Any]]:
    generator = np.random.default_rng(0)
    dtype = np.float16 if program == SLOW else np.float32
    parts = [generator.standard_normal((1, case.tokens, n, WIDTH), np.float32) for n in (HEADS, KV_HEADS, KV_HEADS)]
    positions = np.arange(case.context - case.tokens, case.context, dtype=np.int64)
    return [*(part.astype(dtype) for part in parts), positions]


def _median(values: Sequence[float]) -> float:
    return float(np.median(values))


def _row(case: Case, threads: int, operator: str, dtype: str, values: Sequence[float], executorch_ms: float) -> Row:
    median, deciles = _median(values), quantiles(values, n=10)
    read = 2 * case.context * KV_HEADS * WIDTH * BITS[dtype] / 8
    return Row(
        case=case.name,
        tokens=case.tokens,
        context=case.context,
        threads=threads,
        operator=operator,
        dtype=dtype,
        median_ms=median,
        p10_ms=deciles[0],
        p90_ms=deciles[-1],
        calls=len(values),
        gflops=case.operations / median / 1e6 if case.tokens > 1 else None,
        gb_per_s=read / median / 1e6 if case.tokens == 1 else None,
        ratio=executorch_ms / median,
    )


def table(result: dict[str, Any]) -> str:
    """The result as a text table."""
    lines = [f"machine, {row['threads']} threads: {_limits(row)}" for row in result["limits"]]
    lines.append("case          threads  operator                     dtype    median ms [p10 .. p90]     rate  ratio")
    for row in (Row(**fields) for fields in result["rows"]):
        rate = f"{row.gflops:.0f} GFLOP/s" if row.gflops else f"{row.gb_per_s:.1f} GB/s"
        name = f"{row.case} {row.tokens}/{row.context}"
        times = f"{row.median_ms:8.3f} [{row.p10_ms:.3f} .. {row.p90_ms:.3f}]"
        lines.append(f"{name:17} {row.threads}  {row.operator:28} {row.dtype:8} {times:28} {rate:>12} {row.ratio:6.2f}")
    return "\n".join(lines)


def _limits(row: dict[str, Any]) -> str:
    figures = {"reads GB/s": row["read_gb_per_s"], "float32 GFLOP/s": row["fp32_gflops"]}
    known = (f"{name} {value:.1f}" if value else f"{name} unavailable" for name, value in figures.items())
    return f"{', '.join(known)} ({row['obtained']})"


if __name__ == "__main__":
    main()
