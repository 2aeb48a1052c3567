"""One of two cores is shared with a busy process: python -m benchmarks.unequal_cores BUNDLE [--gguf FILE] [--json].

The busy process is pinned to the second core, at equal priority. What the cores give alone is measured with one thread
on each, the second beside the busy process; what two threads give together is compared with that sum, and with what
they give on two idle cores. All figures are measured: tokens per second of wall time, each in a process of its own, the
ways taking turns; the median of the rounds. With --gguf, llama.cpp (llama-cpp-python on the path) does the same.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from time import perf_counter

from benchmarks.harness.jobs import Engine

CASES = {"prefill of 512": (512, 0, 1), "call of 8": (8, 128, 8), "decode": (1, 128, 1)}
"""Per case: tokens of a call, the position of the first, rows of logits."""
GOALS = {"prefill of 512": 0.90, "call of 8": 0.90, "decode": 0.85}
_FIRST, _SECOND = 0, 1
_CONTEXT = 1024


@dataclass(frozen=True)
class Way:
    """How a process runs.

    Attributes:
        threads: how many compute.
        cores: those that they may use.
        busy: whether another process is busy on the second core.
    """

    threads: int
    cores: tuple[int, ...]
    busy: bool


WAYS = {
    "first core alone": Way(1, (_FIRST,), False),
    "second core, shared": Way(1, (_SECOND,), True),
    "both, one shared": Way(2, (_FIRST, _SECOND), True),
    "both, idle": Way(2, (_FIRST, _SECOND), False),
}


@dataclass(frozen=True)
class SharedRow:
    """Tokens per second of one runtime in one case, by way.

    Attributes:
        of_the_sum: what two threads give on one whole and one shared core, over the sum of what these give alone.
        goal: what it should be at least.
    """

    runtime: str
    case: str
    tokens_per_s: dict[str, float]
    of_the_sum: float
    goal: float


@contextmanager
def busy_process(core: int) -> Iterator[None]:
    """A process that computes on one core all the time."""
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as process:
        try:
            os.sched_setaffinity(process.pid, {core})
            yield
        finally:
            process.kill()


def measure(open_engine: Callable[[int], Engine], threads: int, seconds: float) -> dict[str, float]:
    """Tokens per second of each case in this process, each repeated for so many seconds."""
    engine = open_engine(threads)
    prompt = [7 * i % min(engine.vocab_size, 1000) for i in range(512)]
    engine.feed(prompt, 0, 1)
    return {name: _rate(engine, prompt, *case, seconds) for name, case in CASES.items()}


def _rate(engine: Engine, prompt: Sequence[int], tokens: int, start: int, rows: int, seconds: float) -> float:
    call = prompt[:tokens]
    engine.feed(call, start, rows)
    began, calls = perf_counter(), 0
    while perf_counter() - began < seconds or calls < 2:
        engine.feed(call, start, rows)
        calls += 1
    return tokens * calls / (perf_counter() - began)


def _open_edgec(artifact: Path) -> Callable[[int], Engine]:
    def opened(threads: int) -> Engine:
        from benchmarks.harness.edgec_engine import EdgecSession

        return EdgecSession(artifact, threads)

    return opened


def _open_llama_cpp(artifact: Path) -> Callable[[int], Engine]:
    def opened(threads: int) -> Engine:
        from benchmarks.peers.llama_cpp import LlamaCpp

        return LlamaCpp(str(artifact), threads, _CONTEXT)

    return opened


RUNTIMES = {"edgec": _open_edgec, "llama.cpp": _open_llama_cpp}


def _in_a_process(runtime: str, artifact: Path, way: Way, seconds: float) -> dict[str, float]:
    words = ["-m", "benchmarks.unequal_cores", str(artifact), "--one", runtime, json.dumps(asdict(way))]
    line = [sys.executable, *words, "--seconds", str(seconds)]
    done = subprocess.run(line, capture_output=True, text=True, check=True)
    rates: dict[str, float] = json.loads(done.stdout.strip().splitlines()[-1])
    return rates


def rows_of(runtime: str, runs: Sequence[dict[str, dict[str, float]]]) -> list[SharedRow]:
    """The rows of a runtime from its rounds: per round the rates by way and case."""
    rows = []
    for case, goal in GOALS.items():
        rates = {way: median(run[way][case] for run in runs) for way in WAYS}
        alone = rates["first core alone"] + rates["second core, shared"]
        rows.append(SharedRow(runtime, case, rates, rates["both, one shared"] / alone, goal))
    return rows


def table(rows: Sequence[SharedRow]) -> str:
    """The rows as a Markdown table."""
    heads = ["runtime", "tokens/s of", *WAYS, "of the sum", "goal"]
    lines = [heads, ["---"] * len(heads)]
    for row in rows:
        rates = [f"{row.tokens_per_s[way]:.1f}" for way in WAYS]
        lines.append([row.runtime, row.case, *rates, f"{row.of_the_sum:.0%}", f"{row.goal:.0%}"])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main(write: Callable[[str], None] = print) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("bundle", type=Path)
    parser.add_argument("--gguf", type=Path, help="the same model for llama.cpp")
    parser.add_argument("--seconds", type=float, default=1.0, help="of each case")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--one", nargs=2, metavar=("RUNTIME", "WAY"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        write(json.dumps(_one(options.one[0], options.bundle, Way(**json.loads(options.one[1])), options.seconds)))
        return
    files = {"edgec": options.bundle} | ({"llama.cpp": options.gguf} if options.gguf else {})
    runs: dict[str, list[dict[str, dict[str, float]]]] = {runtime: [] for runtime in files}
    for _ in range(options.rounds):
        for runtime, file in files.items():
            ways = {name: _in_a_process(runtime, file, way, options.seconds) for name, way in WAYS.items()}
            runs[runtime].append(ways)
    rows = [row for runtime in files for row in rows_of(runtime, runs[runtime])]
    write(json.dumps({"obtained": "measured", "rows": [asdict(row) for row in rows]}) if options.json else table(rows))


def _one(runtime: str, artifact: Path, way: Way, seconds: float) -> dict[str, float]:
    os.sched_setaffinity(0, set(way.cores))
    if not way.busy:
        return measure(RUNTIMES[runtime](artifact), way.threads, seconds)
    with busy_process(_SECOND):
        return measure(RUNTIMES[runtime](artifact), way.threads, seconds)


if __name__ == "__main__":
    main()
