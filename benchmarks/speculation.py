"""Tokens per second with and without drafting ahead: python -m benchmarks.speculation [--speculate auto] [--json].

Two ways of continuing the first tokens of a text. *own*: the example model continues, greedily. *replayed*: the calls
are the model's, but the tokens are the text's own next ones, whatever the model predicts: the gain of speculation for a
model that writes exactly this text. With and without take turns on one loaded model; what the controller learns is kept
from text to text, as in an app. The cost of calls of several tokens is measured too: it bounds the gain of drafts that
are always right. All figures are measured: medians over texts and rounds, and the ratio's extremes.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.session_models import SUBJECTS, exported

if TYPE_CHECKING:
    from edgec.runtime_py.decoding.stepper import Logits, Stepper
    from edgec.runtime_py.model import Model
    from edgec.runtime_py.sessions.session import Session
    from edgec.runtime_py.speculation.speculator import Speculator

ROOT = Path(__file__).resolve().parents[1]
WORST = 0.95
GOALS = {"repetitive": 2.0, "JSON": 2.0, "code": 3.0, "prose": WORST}
PROMPT_TOKENS, NEW_TOKENS, ROUNDS = 160, 300, 5
SIZES, TURNS, CALLS = (1, 2, 4, 8, 16), 15, 10
CODE = ("runtime_py/decoding/sampling.py", "ir/spec.py", "passes/contract.py", "runtime_py/decoding/stopping.py")


@dataclass(frozen=True)
class Lap:
    """The time and the counts of one text's tokens after the first."""

    tokens: tuple[int, ...]
    wall_ms: float
    cpu_ms: float
    tokens_per_call: float
    acceptance: float | None


@dataclass(frozen=True)
class Row:
    """The figures of one kind of text, continued in one way.

    Attributes:
        off: tokens/s without drafts, wall.
        on: tokens/s with drafts.
        ratio: on / off, the median over texts and rounds, with its extremes; ``cpu_ratio``: the ratio of CPU times.
        tokens_per_call: tokens per call with drafts.
        acceptance: share of drafted tokens that were right; None when nothing was drafted.
        same: every token is the same with and without.
    """

    kind: str
    way: str
    texts: int
    off: float
    on: float
    ratio: float
    ratio_low: float
    ratio_high: float
    cpu_ratio: float
    tokens_per_call: float
    acceptance: float | None
    same: bool


@dataclass(frozen=True)
class CallCosts:
    """The cost of a call of several tokens, after as many tokens as the texts have half-way.

    Attributes:
        sizes: tokens per call.
        wall_ms: median wall time of each size.
        ceiling: tokens in a plain call's time at the best size, if every draft is right.
    """

    sizes: tuple[int, ...]
    wall_ms: tuple[float, ...]
    ceiling: float


def call_costs(session: Session, ids: Sequence[int], turns: int = TURNS) -> CallCosts:
    """Measure calls of all sizes in turns, a few of a size in a row, each with all its rows of logits."""
    start = min(PROMPT_TOKENS + NEW_TOKENS // 2, session.limits.context - SIZES[-1])
    session.prefill(ids[:start], 0)
    sizes = tuple(size for size in SIZES if size <= session.limits.logit_rows)
    rounds = [[_call_ms(session, ids[:size], start) for size in sizes] for _ in range(turns)]
    times = tuple(median(times) for times in zip(*rounds, strict=True))
    return CallCosts(sizes, times, max(size * times[0] / ms for size, ms in zip(sizes, times, strict=True)))


def _call_ms(session: Session, tokens: Sequence[int], start: int) -> float:
    # The first calls after others of another size are up to three times as slow (measured): they are not counted.
    for call in range(2 * CALLS):
        if call == CALLS:
            begun = perf_counter()
        session.forward(tokens, start, range(len(tokens)))
    return (perf_counter() - begun) * 1e3 / CALLS


class Replayed:
    """A model whose calls are real and whose logits predict a given text."""

    def __init__(self, session: Session, text: Sequence[int]) -> None:
        self.limits, self.reusable, self.head_logits = session.limits, session.reusable, session.head_logits
        self._session, self._text = session, text

    def forward(self, tokens: Sequence[int], start: int, rows: Sequence[int]) -> Logits:
        """Make the session's call, with the text's next token far ahead of all others in each row."""
        logits = self._session.forward(tokens, start, rows)
        for index, row in enumerate(rows):
            logits[index, self._text[start + row + 1]] = np.float32(1e9)
        return logits

    def prefill(self, tokens: Sequence[int], start: int) -> Logits:
        """See ``Stepper.prefill``."""
        from edgec.runtime_py.decoding.stepper import prefill_in_chunks

        return prefill_in_chunks(self, tokens, start)


def lap(stepper: Stepper, prompt: Sequence[int], count: int, ahead: Speculator | None) -> Lap:
    """Time ``count`` tokens after a prompt, except the first one."""
    from edgec.runtime_py.decoding.sampling import Sampler, Sampling
    from edgec.runtime_py.generation.generate import stream_tokens

    greedy = Sampling()
    stream = ahead.tokens(stepper, prompt, greedy, count) if ahead else stream_tokens(stepper, prompt, Sampler(greedy))
    first, wall, cpu = next(stream), perf_counter(), process_time()
    tokens = (first, *islice(stream, count - 1))
    wall, cpu = perf_counter() - wall, process_time() - cpu
    counts = ahead.counts if ahead else None
    per_call = counts.tokens_per_call if counts else 1.0
    return Lap(tokens, wall * 1e3, cpu * 1e3, per_call or 1.0, counts.acceptance if counts else None)


def texts_of(kind: str) -> list[str]:
    """Four texts of a kind, generated or taken from this repository."""
    if kind == "code":
        return [(ROOT / name).read_text() for name in CODE]
    if kind == "prose":
        whole = (ROOT / "exporter/parity/probe_text.txt").read_text()
        return [whole[len(whole) * part // 4 :] + whole[: len(whole) * part // 4] for part in range(4)]
    rng = random.Random(0)
    return [_records(rng) if kind == "JSON" else _log(rng) for _ in range(4)]


def _records(rng: random.Random) -> str:
    names = ("Pierre", "Natasha", "Andrew", "Sonya", "Nicholas", "Mary", "Boris", "Helene")
    people = [
        {"id": index, "name": rng.choice(names), "age": rng.randint(17, 70), "city": "Moscow", "invited": True}
        for index in range(60)
    ]
    return json.dumps({"guests": people}, indent=2)


def _log(rng: random.Random) -> str:
    acts = ("opened the door", "closed the door", "lit the candle", "read the letter")
    return "".join(f"Hour {hour}: the old servant {rng.choice(acts)} and went away.\n" for hour in range(1, 90))


def measure(model: Model, kind: str, way: str, ahead: Speculator, rounds: int = ROUNDS) -> Row:
    """Measure each text of a kind with and without drafts, in turns."""
    laps: list[tuple[Lap, Lap]] = []
    for text in texts_of(kind):
        ids = model.encode(text)[: model.session.limits.context]
        count = min(NEW_TOKENS, len(ids) - PROMPT_TOKENS)
        stepper: Stepper = Replayed(model.session, [*ids, 0]) if way == "replayed" else model.session
        laps += [_pair(stepper, ids[:PROMPT_TOKENS], count, ahead, turn) for turn in range(rounds)]
    return _row(kind, way, len(laps) // rounds, laps)


def _pair(stepper: Stepper, prompt: Sequence[int], count: int, ahead: Speculator, turn: int) -> tuple[Lap, Lap]:
    """Measure without and with drafts; the order changes from turn to turn."""
    if turn % 2:
        on, off = lap(stepper, prompt, count, ahead), lap(stepper, prompt, count, None)
    else:
        off, on = lap(stepper, prompt, count, None), lap(stepper, prompt, count, ahead)
    return off, on


def _row(kind: str, way: str, texts: int, laps: Sequence[tuple[Lap, Lap]]) -> Row:
    ratios = [off.wall_ms / on.wall_ms for off, on in laps]
    accepted = [on.acceptance for _, on in laps if on.acceptance is not None]
    return Row(
        kind,
        way,
        texts,
        off=median(_speed(off) for off, _ in laps),
        on=median(_speed(on) for _, on in laps),
        ratio=median(ratios),
        ratio_low=min(ratios),
        ratio_high=max(ratios),
        cpu_ratio=median(off.cpu_ms / on.cpu_ms for off, on in laps),
        tokens_per_call=median(on.tokens_per_call for _, on in laps),
        acceptance=median(accepted) if accepted else None,
        same=all(off.tokens == on.tokens for off, on in laps),
    )


def _speed(one: Lap) -> float:
    return (len(one.tokens) - 1) / one.wall_ms * 1e3


def rows_of(model: Model, choice: str) -> Iterator[Row]:
    """Measure all kinds of text in both ways; one text before them warms the caches."""
    ahead = model.speculator(choice)
    if ahead is None:
        return
    lap(model.session, model.encode("Once upon a time"), 64, None)
    for way in ("own", "replayed"):
        for kind in GOALS:
            yield measure(model, kind, way, ahead)


def table(rows: Sequence[Row], costs: CallCosts) -> str:
    """The rows as a Markdown table, and the cost of calls of several tokens."""
    head = "| text | way | off, tokens/s | on, tokens/s | ratio | extremes | CPU time | goal | per call | right |"
    calls = (f"{size}: {ms:.2f} ms" for size, ms in zip(costs.sizes, costs.wall_ms, strict=True))
    below = f"Calls by tokens: {', '.join(calls)}. Drafts that are always right would bring {costs.ceiling:.1f}x."
    return "\n".join([head, "|---" * 10 + "|", *map(_line, rows), "", below])


def _line(row: Row) -> str:
    right = "nothing drafted" if row.acceptance is None else f"{row.acceptance:.0%}"
    cells = (
        row.kind,
        row.way,
        f"{row.off:,.0f}",
        f"{row.on:,.0f}",
        f"{row.ratio:.2f}{'' if row.same else ' (another text)'}",
        f"{row.ratio_low:.2f}-{row.ratio_high:.2f}",
        f"{row.cpu_ratio:.2f}",
        f"{GOALS[row.kind]:g}",
        f"{row.tokens_per_call:.2f}",
        right,
    )
    return f"| {' | '.join(cells)} |"


def as_json(rows: Sequence[Row], costs: CallCosts, options: Mapping[str, object]) -> str:
    """The result as JSON; null is unavailable."""
    plain_rows = [{**asdict(row), "goal": GOALS[row.kind]} for row in rows]
    return json.dumps({"obtained": "measured", **options, "call": asdict(costs), "rows": plain_rows})


def main(write: Callable[[str], None] = print) -> None:
    """Export, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--bundle", type=Path, help="measure this one instead of the exported example")
    parser.add_argument("--speculate", default="auto", help="as for edgec run")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--build", type=Path, default=Path("build/bench/sessions"))
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    import edgec

    bundle = given.bundle or exported(SUBJECTS["tiny-stories"], given.build)
    model = edgec.load(bundle, threads=given.threads)
    rows = list(rows_of(model, given.speculate))
    costs = call_costs(model.session, model.encode(texts_of("prose")[0]))
    options = {"threads": given.threads, "speculate": given.speculate}
    write(as_json(rows, costs, options) if given.json else table(rows, costs))


if __name__ == "__main__":
    main()
