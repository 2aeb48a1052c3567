"""Several sessions at once against llama.cpp: python -m benchmarks.serving [--servers] [--json] [--plot FILE.svg].

1, 2, 4, 8 and 16 sequences write at the same time, each call of the model for all of them. Measured, in turns, each
subject in a fresh process with the same weights (4 bits in groups of 32): tokens per second of all together, and while
they write, the time to the first token of a request with a prompt of 128 tokens, which is read 64 tokens a call. Also
edgec's sessions as its server uses them: a thread for each answer, a scheduler, a sampler. ``--servers``: the same of
``edgec serve`` and of llama.cpp's own server instead, by clients that read streams over HTTP, with the defaults of each
but for threads, sessions and context.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.harness.artifacts import Workshop
from benchmarks.harness.edgec_slots import WORKER as SLOTS
from benchmarks.harness.grid import Grid
from benchmarks.harness.http_load import WORKER as HTTP
from benchmarks.harness.machine import identity
from benchmarks.harness.models import Q8L, TINY, Model
from benchmarks.harness.processes import ProcessFailed, run_worker
from benchmarks.harness.servers import served, server_job
from benchmarks.harness.subjects import OWN, Subject, edgec, llama

SESSIONS = (1, 2, 4, 8, 16)
CONTEXT = 512
_WORKERS = {"edgec": "benchmarks.harness.edgec_sequences", "gguf": "benchmarks.peers.llama_cpp_sequences"}
THROUGH_SERVER = "edgec, by threads of its server"
_LIMIT_S = 1800.0
Run = Callable[[], list[dict[str, Any]]]


@dataclass(frozen=True)
class Row:
    """One subject with some sessions, all of it measured: medians over the rounds, percentiles over all requests.

    Attributes:
        subject: the runtime and its form.
        sessions: sequences that wrote at the same time.
        tokens_per_s: of all together.
        ttft_p50_ms, ttft_p95_ms: of requests that came meanwhile.
        gap_p95_ms: between two tokens of those that wrote, while a prompt was read.
    """

    subject: str
    sessions: int
    tokens_per_s: float
    ttft_p50_ms: float
    ttft_p95_ms: float
    gap_p95_ms: float


def percentile(values: Sequence[float], share: float) -> float:
    """The value below or at which so much of all lies; one that occurred."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def rows_of(subject: str, rounds: Sequence[Sequence[Mapping[str, Any]]]) -> list[Row]:
    """The rows of a subject, of the rows of each round."""
    rows = []
    for same in zip(*rounds, strict=True):
        waited = [ms for one in same for ms in one["ttft_ms"]]
        gaps = [ms for one in same for ms in one["gap_ms"]]
        speed = median(one["tokens_per_s"] for one in same)
        shares = (percentile(waited, 0.5), percentile(waited, 0.95), percentile(gaps, 0.95))
        rows.append(Row(subject, same[0]["sessions"], speed, *shares))
    return rows


def table(rows: Sequence[Row]) -> str:
    """The rows as a Markdown table, with edgec's speed over that of the fastest peer."""
    heads = ("sessions", "subject", "tokens/s", "edgec / this", "TTFT p50, ms", "p95, ms", "gap p95, ms")
    own = {row.sessions: row.tokens_per_s for row in rows if row.subject == OWN}
    ordered = sorted(rows, key=lambda row: row.sessions)
    return Grid("", heads, tuple(_cells(row, own.get(row.sessions)) for row in ordered)).markdown(0)


def _cells(row: Row, own: float | None) -> tuple[str, ...]:
    ratio = "unavailable" if own is None else f"{own / row.tokens_per_s:.2f}x"
    figures = (row.tokens_per_s, row.ttft_p50_ms, row.ttft_p95_ms, row.gap_p95_ms)
    speed, *times = (f"{figure:.1f}" for figure in figures)
    return (str(row.sessions), row.subject, speed, ratio, *times)


def plot(rows: Sequence[Row]) -> str:
    """Throughput and time to first token by sessions, as SVG."""
    from edgec.svg import Series, labelled_chart, stack

    names = list(dict.fromkeys(row.subject for row in rows))

    def lines(figure: Callable[[Row], float], dashed: bool = False, more: str = "") -> list[Series]:
        by_name = {name: [row for row in rows if row.subject == name] for name in names}
        return [
            Series(name + more, tuple(float(r.sessions) for r in own), tuple(map(figure, own)), dashed)
            for name, own in by_name.items()
        ]

    ticks = sorted({float(row.sessions) for row in rows})
    waited = [*lines(lambda row: row.ttft_p50_ms, more=", p50"), *lines(lambda row: row.ttft_p95_ms, True, ", p95")]
    charts = (
        labelled_chart("All sessions together", "sessions", "tokens/s", lines(lambda row: row.tokens_per_s), ticks),
        labelled_chart("First token of a request that comes meanwhile", "sessions", "ms", waited, ticks),
    )
    return stack(charts)


@dataclass(frozen=True)
class Options:
    """What is measured: the model, the numbers of sessions, the sizes of a load; servers, or the runtimes in them."""

    model: Model
    sessions: tuple[int, ...]
    threads: int
    rounds: int
    load: Mapping[str, int]
    servers: bool = False
    context: int = CONTEXT

    def job(self, artifact: Path) -> dict[str, Any]:
        """The job of a worker."""
        loads = [{"sessions": count, **self.load} for count in self.sessions]
        sizes = {"threads": self.threads, "context": self.context, "sequences": max(self.sessions) + 1}
        return {"artifact": str(artifact), **sizes, "loads": loads}


def measure(
    shop: Workshop, options: Options, subjects: Sequence[Subject], say: Callable[[str], None]
) -> tuple[list[Row], dict[str, str]]:
    """The rows of all subjects, and of those that were not run why."""
    named = {
        name: partial(_rows, shop, options, subject, worker)
        for name, subject, worker in _workers(subjects, options.servers)
    }
    return in_turns(named, options.rounds, say)


def in_turns(runs: Mapping[str, Run], rounds: int, say: Callable[[str], None]) -> tuple[list[Row], dict[str, str]]:
    """The rows of all subjects, each of which runs once in a round; one that failed runs no more, with the reason."""
    made: dict[str, list[list[dict[str, Any]]]] = {}
    failed: dict[str, str] = {}
    for turn in range(rounds):
        for name, run in runs.items():
            if name in failed:
                continue
            say(f"round {turn + 1}: {name}")
            try:
                made.setdefault(name, []).append(run())
            except ProcessFailed as error:
                failed[name] = str(error)
    return [row for name, some in made.items() if name not in failed for row in rows_of(name, some)], failed


def _rows(shop: Workshop, options: Options, subject: Subject, worker: str) -> list[dict[str, Any]]:
    """One round of a subject."""
    job, python = options.job(shop.made(subject).path), shop.interpreter(subject)
    if options.servers:
        job, python = server_job(shop, subject, job), Path(sys.executable)
    return list(run_worker(worker, job, python=python, timeout_s=_LIMIT_S, environment=_cache(shop))["rows"])


def _workers(subjects: Sequence[Subject], servers: bool) -> list[tuple[str, Subject, str]]:
    """Name, subject and worker of each measurement; edgec is measured by the threads of its server, too."""
    if servers:
        return [(one.name, served(one), HTTP) for one in subjects]
    found = [(one.name, one, _WORKERS[one.maker]) for one in subjects]
    return [*found, *((THROUGH_SERVER, one, SLOTS) for one in subjects if not one.peer)]


def _cache(shop: Workshop) -> dict[str, str]:
    return {"EDGEC_CACHE_DIR": str(shop.cache.resolve())}


def main(write: Callable[[str], None] = print) -> None:
    """Make the artifacts, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--build", type=Path, default=Path("build/bench"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--sessions", type=int, nargs="+", default=list(SESSIONS))
    parser.add_argument("--quick", action="store_true", help="a tiny model and few tokens: checks the harness")
    parser.add_argument("--servers", action="store_true", help="over HTTP, with llama.cpp's own server")
    parser.add_argument("--no-peers", action="store_true", help="edgec alone")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--plot", type=Path, help="write both charts to this SVG file")
    given = parser.parse_args()
    load = {"prompt_tokens": 24, "steps": 4, "arrivals": 2, "chunk": 16} if given.quick else {}
    options = Options(
        TINY if given.quick else Q8L, tuple(given.sessions), given.threads, given.rounds, load, given.servers
    )
    subjects = [edgec(options.model, OWN, context=CONTEXT)]
    if not given.no_peers and not given.quick:
        subjects += [llama(options.model, f"llama.cpp {name}", kind, CONTEXT) for name, kind in _PEERS.items()]
    rows, failed = measure(Workshop(given.build, identity()), options, subjects, _say)
    if given.plot and rows:
        given.plot.write_text(plot(rows))
    held = {"obtained": "measured", "rows": [asdict(row) for row in rows], "not_run": failed}
    write(json.dumps(held) if given.json else table(rows))
    for name, why in failed.items() if not given.json else ():
        write(f"{name}: not run: {why}")


_PEERS = {"Q4_0": "preset", "all Q4_0": "equal"}


def _say(what: str) -> None:
    print(what, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
