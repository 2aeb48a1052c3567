"""The results as tables: speed side by side, and the machine's limits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchmarks.harness import goals
from benchmarks.harness.grid import Grid, number, pair
from benchmarks.harness.results import Results, Speed
from benchmarks.harness.subjects import OWN

_RATIO = "edgec against the best peer"


@dataclass(frozen=True)
class Row:
    """A row of the speed table. ``rate``: printed as steps per second, more is better; else milliseconds."""

    case: str
    label: str
    rate: bool = False

    def shown(self, speed: Speed | None) -> float | None:
        """The median in the row's unit."""
        if speed is None:
            return None
        return 1e3 / speed.wall_ms.median if self.rate else speed.wall_ms.median


def rows_of(results: Results, model: str) -> list[Row]:
    """A row for each case that was measured of a model."""
    cases = dict.fromkeys(s.case for s in results.speeds if s.model == model)
    return [_row(case) for case in cases]


def _row(case: str) -> Row:
    kind, _, count = case.rpartition(" ")
    labels: dict[str, Callable[[], Row]] = {
        "prefill": lambda: Row(case, f"prefill of {count} tokens, ms"),
        "forward": lambda: Row(case, f"forward of {count} with logits, ms"),
        "last row": lambda: Row(case, f"forward of {count}, last logits, ms"),
        "decode at": lambda: Row(case, f"decode at position {count}, tokens/s", rate=True),
    }
    return labels.get(kind, lambda: Row(case, f"{case}, ms"))()


@dataclass(frozen=True)
class Table:
    """The speeds of one model, by subject and number of threads."""

    results: Results
    model: str

    @property
    def subjects(self) -> list[str]:
        """The subjects, in the order of measuring."""
        return list(dict.fromkeys(s.subject for s in self.results.speeds if s.model == self.model))

    @property
    def threads(self) -> list[int]:
        """The numbers of threads, ascending."""
        return sorted({s.threads for s in self.results.speeds if s.model == self.model})

    @property
    def peers(self) -> list[str]:
        """Subjects that edgec did not make."""
        return [name for name in self.subjects if not name.startswith(OWN)]

    def speed(self, subject: str, threads: int, case: str) -> Speed | None:
        """The speed of a subject in a case, or None."""
        wanted = (self.model, subject, threads, case)
        return next((s for s in self.results.speeds if (s.model, s.subject, s.threads, s.case) == wanted), None)

    def medians(self, subject: str, row: Row) -> list[float | None]:
        """A subject's medians in a row, one for each number of threads."""
        return [row.shown(self.speed(subject, threads, row.case)) for threads in self.threads]

    def ratios(self, case: str) -> list[float | None]:
        """How many times as fast edgec is as the fastest peer, for each number of threads."""
        return [self._ratio(case, threads) for threads in self.threads]

    def _ratio(self, case: str, threads: int) -> float | None:
        own = self.speed(OWN, threads, case)
        others = [speed.wall_ms.median for peer in self.peers if (speed := self.speed(peer, threads, case))]
        return min(others) / own.wall_ms.median if own and others else None

    def goal(self, case: str) -> str:
        """The goals of a case, one for each subject that has one."""
        known = [goals.SPEED.get((self.model, subject, case)) for subject in self.subjects]
        return "; ".join(str(goal) for goal in known if goal)


def speed_grid(results: Results, model: str, judged: bool = True) -> Grid:
    """The speed table of one model: figures with 1 / 2 threads for each subject; ``judged``: goal and ratio too."""
    table = Table(results, model)
    about = next((m.about for m in results.models if m.name == model), "")
    compared = bool(table.peers)
    last = ("goal", *((_RATIO,) if compared else ())) if judged else ()
    rows = [_cells(table, row, last) for row in rows_of(results, model)]
    rows += [(*cells, *("" for _ in last)) for cells in _roofs(table)]
    threads = " / ".join(map(str, table.threads))
    notes = [f"Cells: {threads} threads."]
    notes += [f"A ratio above 1: edgec is faster. {goals.REMARK}."] if judged else []
    notes += [f"{a.subject}: {a.note}." for a in results.artifacts if a.model == model and a.note]
    notes += _absent(results, model)
    return Grid(f"{model}: {about}", ("wall, median", *table.subjects, *last), tuple(rows), tuple(notes))


def ratio_grid(results: Results, models: Sequence[str]) -> Grid:
    """How many times as fast as its best peer edgec is in each case, a column for each model."""
    tables = [Table(results, model) for model in models]
    cases = dict.fromkeys(row for model in models for row in rows_of(results, model))
    rows = [(row.label.rpartition(", ")[0], *(_times(table.ratios(row.case)) for table in tables)) for row in cases]
    notes = ("Times as fast as the best of the others, 1 / 2 threads; above 1, edgec is faster.",)
    return Grid("edgec against the best peer", ("", *models), tuple(rows), notes)


def _absent(results: Results, model: str) -> list[str]:
    """Notes on the optional peers that could not be run, which have no column."""
    missed = [f for f in results.failures if f.optional and f.part.startswith(f"{model}: ")]
    return list(dict.fromkeys(f"{f.part.removeprefix(f'{model}: ')}: {f.what}" for f in missed))


def _cells(table: Table, row: Row, last: Sequence[str]) -> tuple[str, ...]:
    figures = [pair(table.medians(subject, row)) for subject in table.subjects]
    return (
        row.label,
        *figures,
        *(_times(table.ratios(row.case)) if head == _RATIO else table.goal(row.case) for head in last),
    )


def _times(ratios: Sequence[float | None]) -> str:
    return " / ".join("-" if ratio is None else f"{ratio:.2f}x" for ratio in ratios)


def _roofs(table: Table) -> list[tuple[str, ...]]:
    """Rows of the share of the machine's limits: bytes read in decoding, integer operations in prefill."""
    rows = [
        ("decode: % of read bandwidth (computed)", [_bandwidth_share(table, s) for s in table.subjects]),
        ("longest prefill: % of int8 peak (computed)", [_compute_share(table, s) for s in table.subjects]),
    ]
    return [(label, *map(_percent, shares)) for label, shares in rows]


def _percent(shares: Sequence[float | None]) -> str:
    return pair([None if share is None else 100 * share for share in shares])


def _bandwidth_share(table: Table, subject: str) -> list[float | None]:
    artifact = next((a for a in table.results.artifacts if (a.model, a.subject) == (table.model, subject)), None)
    read = {limit.threads: limit.read_gb_per_s for limit in table.results.limits}
    case = next((row.case for row in rows_of(table.results, table.model) if row.rate), "")
    if artifact is None or artifact.decode_bytes_computed is None:
        return [None] * len(table.threads)
    speeds = [table.speed(subject, threads, case) for threads in table.threads]
    amount = artifact.decode_bytes_computed / 1e6
    return [_share(amount, s, read.get(t)) for t, s in zip(table.threads, speeds, strict=True)]


def _compute_share(table: Table, subject: str) -> list[float | None]:
    model = next(m for m in table.results.models if m.name == table.model)
    peak = {limit.threads: limit.int8_gops for limit in table.results.limits}
    cases = [row.case for row in rows_of(table.results, table.model) if row.case.startswith("prefill")]
    speeds = [table.speed(subject, threads, cases[-1]) for threads in table.threads]
    return [
        _share(2 * model.matrix_values * s.tokens / 1e6 if s else 0.0, s, peak.get(t))
        for t, s in zip(table.threads, speeds, strict=True)
    ]


def _share(millions: float, speed: Speed | None, billions_per_s: float | None) -> float | None:
    """The share of a limit: millions per millisecond are billions per second."""
    return millions / speed.wall_ms.median / billions_per_s if speed and billions_per_s else None


def limits_grid(results: Results) -> Grid:
    """The rates that this machine reached in simple loops."""
    rows = [
        (str(x.threads), number(x.read_gb_per_s), number(x.int8_gops), number(x.fp32_gflops)) for x in results.limits
    ]
    machine = results.machine
    notes = (f"{machine.cpu}, {machine.cores} cores. {results.limits[0].obtained}.",) if results.limits else ()
    return Grid("The machine's limits", ("threads", "read GB/s", "int8 GOPS", "fp32 GFLOPS"), tuple(rows), notes)


def spread_grid(results: Results) -> Grid:
    """The table of every measurement with its spread and CPU time."""
    heads = ("model", "subject", "threads", "case", "median ms", "min", "q1", "q3", "max", "n", "CPU ms", "others")
    rows = tuple(_spread_row(speed) for speed in results.speeds)
    notes = ("Per step. CPU: median over all threads. Others: CPUs kept busy by other processes, worst round.",)
    return Grid("All times with their spread (measured)", heads, rows, notes)


def _spread_row(s: Speed) -> tuple[str, ...]:
    wall = s.wall_ms
    figures = [number(value) for value in (wall.median, wall.low, wall.q1, wall.q3, wall.high)]
    rest = (str(wall.count), number(s.cpu_ms.median), number(s.others))
    return (s.model, s.subject, str(s.threads), s.case, *figures, *rest)
