"""One measuring job inside one process, the same for every runtime: open an engine, feed it tokens, read the clocks.

Standard library only: the peers' environments run this module too. A worker calls ``serve`` with a function that opens
its engine; the job comes as JSON on stdin, the result goes as JSON to the last line of stdout.
"""

from __future__ import annotations

import heapq
import json
import os
import random
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from time import perf_counter, process_time
from typing import Any, Protocol, runtime_checkable

from benchmarks.harness.cases import Case

_STATUS, _CLEAR, _STAT = Path("/proc/self/status"), Path("/proc/self/clear_refs"), Path("/proc/stat")
_RESET_PEAK = "5"
_FILL = 128


class Engine(Protocol):
    """A loaded language model with a KV cache of one sequence."""

    @property
    def vocab_size(self) -> int:
        """The size of the vocabulary; token ids are below it."""

    def feed(self, tokens: Sequence[int], start: int, rows: int) -> None:
        """Compute ``tokens`` from position ``start`` on, and logits of the last ``rows``; later positions are lost."""

    def logits(self) -> list[list[float]]:
        """The logits of the last call, [rows][vocabulary]."""


@runtime_checkable
class Rewinding(Protocol):
    """An engine that has to copy what stays of its cache when later positions are dropped."""

    def rewind(self, positions: int) -> None:
        """Keep only the first ``positions`` positions, before the clock runs: generating text never needs this."""


OpenEngine = Callable[[Mapping[str, Any]], Engine]


@dataclass(frozen=True)
class Sample:
    """The times of one repetition of a case.

    Attributes:
        wall_s: seconds on the clock.
        cpu_s: seconds of CPU time of all threads of this process.
    """

    case: str
    wall_s: float
    cpu_s: float


def timed(name: str, work: Callable[[], object]) -> Sample:
    """Run ``work`` once and read the clocks around it."""
    wall, cpu = perf_counter(), process_time()
    work()
    return Sample(name, perf_counter() - wall, process_time() - cpu)


def watched(work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The result of ``work`` with ``others``: the CPUs that other processes kept busy meanwhile, or None.

    The kernel counts in steps of 10 ms, too coarse for a single sample.
    """
    busy, wall, cpu = _machine_cpu_s(), perf_counter(), process_time()
    result = work()
    cpu, wall, after = process_time() - cpu, perf_counter() - wall, _machine_cpu_s()
    return result | {"others": None if busy is None or after is None else max(0.0, after - busy - cpu) / wall}


def _machine_cpu_s() -> float | None:
    """The CPU seconds that all processes of this machine have used, without idling and waiting."""
    if not _STAT.exists():
        return None
    user, nice, system, _, _, *rest = map(int, _STAT.read_text().split("\n", 1)[0].split()[1:9])
    return (user + nice + system + sum(rest)) / os.sysconf("SC_CLK_TCK")


class Feeder:
    """Feeds an engine with seeded random tokens, and knows how far its cache is filled."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._tokens = random.Random(0)
        self._filled = 0

    def fill(self, context: int) -> None:
        """Make sure that the first ``context`` positions are in the cache."""
        for start in range(self._filled, context, _FILL):
            self.feed(start, min(_FILL, context - start), 1)

    def feed(self, start: int, count: int, rows: int) -> None:
        """Feed ``count`` tokens from position ``start``."""
        self.engine.feed(self.draw(count), start, rows)
        self._filled = start + count

    def draw(self, count: int) -> list[int]:
        """Draw random token ids; the speed of a dense model does not depend on them."""
        return [self._tokens.randrange(self.engine.vocab_size) for _ in range(count)]

    def samples(self, case: Case) -> Iterator[Sample]:
        """Measure all repetitions of a case."""
        self.fill(case.context)
        for repetition in range(case.warmups + case.repeats):
            sample = self._sample(case)
            if repetition >= case.warmups:
                yield sample

    def _sample(self, case: Case) -> Sample:
        calls = [(self.draw(case.tokens), case.context + i * case.tokens) for i in range(case.steps)]
        if isinstance(self.engine, Rewinding):
            self.engine.rewind(case.context)

        def work() -> None:
            for tokens, start in calls:
                self.engine.feed(tokens, start, case.rows)

        sample = timed(case.name, work)
        self._filled = case.end
        return sample


def measure_speed(job: Mapping[str, Any], open_engine: OpenEngine) -> dict[str, Any]:
    """Time the load, the first token and every case of as many rows of logits as the engine gives.

    ``load`` ends with the engine open, before any logits; ``most_rows`` of the job limits the rows.
    """
    opened: list[Engine] = []
    load = timed("load", lambda: opened.append(open_engine(job)))
    feeder = Feeder(opened[0])
    first = timed("first token", lambda: feeder.feed(0, 1, 1))
    given = [Case(**fields) for fields in job["cases"]]
    cases = [case for case in given if case.rows <= job.get("most_rows", case.rows)]
    samples = [load, first, *(sample for case in cases for sample in feeder.samples(case))]
    return {"samples": [asdict(sample) for sample in samples]}


def measure_memory(job: Mapping[str, Any], open_engine: OpenEngine) -> dict[str, Any]:
    """Measure the peak resident bytes of a load, a prefill and a few tokens, and those of the idle process before."""
    resettable = reset_peak()
    idle = status_bytes("VmRSS")
    feeder = Feeder(open_engine(job))
    prompt, new = job["prompt_tokens"], job["new_tokens"]
    feeder.feed(0, prompt, 1)
    for position in range(prompt, prompt + new):
        feeder.feed(position, 1, 1)
    source = "VmHWM, reset before the load" if resettable else "VmHWM of the whole process"
    return {"peak_bytes": status_bytes("VmHWM"), "idle_bytes": idle, "obtained": f"measured: {source}"}


def reset_peak() -> bool:
    """Let the peak of this process's memory begin anew; returns whether the kernel can."""
    try:
        _CLEAR.write_text(_RESET_PEAK)
    except OSError:
        return False
    return True


def status_bytes(field: str) -> int | None:
    """A figure of this process in /proc: ``VmRSS``, or ``VmHWM``, its peak; None where there is no /proc."""
    if not _STATUS.exists():
        return None
    line = next(line for line in _STATUS.read_text().splitlines() if line.startswith(f"{field}:"))
    return int(line.split()[1]) * 1024


def measure_contexts(job: Mapping[str, Any], open_engine: OpenEngine) -> dict[str, Any]:
    """Measure the time to the first token of prompts of growing length, then of a decoded token after each.

    Two passes over one sequence: a ring of KV slots cannot be rewound far, so decoding does not interrupt the prefill.
    """
    feeder, contexts, steps = Feeder(open_engine(job)), job["contexts"], job["steps"]
    feeder.feed(0, contexts[0], 1)
    prefill = [asdict(_span(feeder, start, end)) for start, end in pairwise([0, *contexts])]
    decode = []
    for start, end in pairwise([0, *contexts]):
        feeder.feed(start, end - start - steps, 1)
        decode.append(asdict(_decoded(feeder, end - steps, steps)))
    return {"contexts": contexts, "prefill": prefill, "decode": decode, "steps": steps}


def _span(feeder: Feeder, start: int, end: int) -> Sample:
    tokens = feeder.draw(end - start)
    return timed(f"{start}..{end}", lambda: feeder.engine.feed(tokens, start, 1))


def _decoded(feeder: Feeder, start: int, steps: int) -> Sample:
    feeder.feed(start, 1, 1)
    calls = [(feeder.draw(1), position) for position in range(start + 1, start + steps)]

    def work() -> None:
        for tokens, position in calls:
            feeder.engine.feed(tokens, position, 1)

    return timed(f"decode at {start}", work)


def read_logits(job: Mapping[str, Any], open_engine: OpenEngine) -> dict[str, Any]:
    """The logits after given tokens, all fed at once; one row for each of the last ``rows``.

    From position ``again`` on, where it is given, they are fed a second time.
    """
    engine, tokens = open_engine(job), job["tokens"]
    engine.feed(tokens, 0, job["rows"])
    if again := job.get("again"):
        engine.feed(tokens[again:], again, job["rows"])
    return {"logits": engine.logits()}


def write_greedy(job: Mapping[str, Any], open_engine: OpenEngine) -> dict[str, Any]:
    """The most likely continuation of each of ``prompts``: ``tokens`` ids at most, to one of ``ends``.

    Each text has its ``tokens``, the next best ones (``others``), and how far they lie behind (``leads``, in nats).
    """
    engine = open_engine(job)
    return {"texts": [_greedy(engine, prompt, job["tokens"], job["ends"]) for prompt in job["prompts"]]}


def _greedy(engine: Engine, prompt: Sequence[int], count: int, ends: Sequence[int]) -> dict[str, Any]:
    text: dict[str, Any] = {"tokens": [], "leads": [], "others": []}
    fed, start = list(prompt), 0
    while len(text["tokens"]) < count and (not text["tokens"] or text["tokens"][-1] not in ends):
        engine.feed(fed, start, 1)
        row = engine.logits()[-1]
        best, second = heapq.nlargest(2, range(len(row)), key=row.__getitem__)
        start, fed = start + len(fed), [best]
        text["tokens"].append(best)
        text["leads"].append(row[best] - row[second])
        text["others"].append(second)
    return text


KINDS: dict[str, Callable[[Mapping[str, Any], OpenEngine], dict[str, Any]]] = {
    "speed": measure_speed,
    "memory": measure_memory,
    "contexts": measure_contexts,
    "logits": read_logits,
    "greedy": write_greedy,
}


def serve(open_engine: OpenEngine, prepare: Callable[[Mapping[str, Any]], object] = lambda job: None) -> None:
    """Run the job on stdin; native libraries may write to stdout before the result, so it goes on a separate line.

    Args:
        open_engine: opens the job's engine; its time is the load's.
        prepare: imports libraries before any clock runs, since an import is not part of a load.
    """
    job = json.load(sys.stdin)
    prepare(job)
    result = watched(lambda: KINDS[job["kind"]](job, open_engine))
    print("\n" + json.dumps(result), flush=True)


def serve_export(export: Callable[[Path, Path], None], *beside: str) -> None:
    """Run the export job on stdin (``folder``, ``out``); the result has the artifact's size and this process's peak.

    Args:
        export: turns the model in a folder into the artifact at a path.
        beside: names of further files of the artifact, in the folder of ``out``.
    """
    job = json.load(sys.stdin)
    out = Path(job["out"])
    export(Path(job["folder"]), out)
    size = sum(path.stat().st_size for path in (out, *map(out.with_name, beside)))
    print("\n" + json.dumps({"file_bytes": size, "peak_bytes": status_bytes("VmHWM")}))
