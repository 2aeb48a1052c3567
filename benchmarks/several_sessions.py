"""Two requests on one loaded model: python -m benchmarks.several_sessions [--model NAME] [--json].

Two sessions decode one after the other, and in turns, token by token. Measured: tokens per second of both together
(wall), and the resident memory that the second session adds. Estimated, from calls of k tokens: the gain of computing
one token of each of k sessions in one call, if attention costs as much for a batch as for k tokens of one sequence.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING

from benchmarks.harness.jobs import status_bytes
from benchmarks.session_models import SUBJECTS, exported

if TYPE_CHECKING:
    from edgec.runtime_py.model import Model
    from edgec.runtime_py.sessions.session import Session

PROMPT_TOKENS, NEW_TOKENS, THREADS, WIDTHS = 128, 48, (1, 2), (1, 2, 4, 8)
_REPEATS = 5


@dataclass(frozen=True)
class Row:
    """The figures of one model with ``threads`` threads.

    Attributes:
        sequential_tokens_per_s: rate of both sessions together, where the second begins when the first has ended.
        interleaved_tokens_per_s: rate of both sessions together, switched after every token.
        same_tokens: both orders give each session the same tokens.
        state_bytes: state of one session.
        second_session_bytes: resident memory that the second one added once its whole cache was written; None where
            the system does not report it.
        open_ms: time to open the second session.
        forward_ms: time of one call of k tokens with k rows of logits, by k.
        batching_gain: estimated tokens per second of k batched sessions over those of k that take turns, by k.
    """

    model: str
    threads: int
    sequential_tokens_per_s: float
    interleaved_tokens_per_s: float
    same_tokens: bool
    state_bytes: int
    second_session_bytes: int | None
    open_ms: float
    forward_ms: dict[int, float]
    batching_gain: dict[int, float]


def measure(name: str, model: Model, threads: int, new_tokens: int = NEW_TOKENS, repeats: int = _REPEATS) -> Row:
    """Measure one loaded model."""
    _fill(model.session)
    before = status_bytes("VmRSS")
    second = model.new_session()
    _fill(second.session)
    after = status_bytes("VmRSS")
    forward_ms = {k: _forward_ms(model.session, k, repeats) for k in WIDTHS}
    pair, orders = (model, second), (_one_by_one, _in_turns)
    runs = [[_run(pair, new_tokens, order) for order in orders] for _ in range(1 + repeats)]
    return Row(
        name,
        threads,
        sequential_tokens_per_s=median(2 * new_tokens / first.seconds for first, _ in runs[1:]),
        interleaved_tokens_per_s=median(2 * new_tokens / other.seconds for _, other in runs[1:]),
        same_tokens=all(first.tokens == other.tokens for first, other in runs),
        state_bytes=sum(state.bytes for state in model.bundle.manifest.states),
        second_session_bytes=after - before if before is not None and after is not None else None,
        open_ms=second.load_ms,
        forward_ms=forward_ms,
        batching_gain={k: k * forward_ms[1] / ms for k, ms in forward_ms.items()},
    )


@dataclass(frozen=True)
class Run:
    """The tokens of both sessions and the seconds for all but the first of each."""

    tokens: tuple[tuple[int, ...], ...]
    seconds: float


Streams = Sequence[Iterator[int]]


def _run(models: Sequence[Model], new_tokens: int, order: Callable[[Streams, int], list[list[int]]]) -> Run:
    """Decode after a different prompt in each session; prefill and first token are not timed."""
    streams = [_stream(model, seed) for seed, model in enumerate(models)]
    for stream in streams:
        next(stream)
    before = perf_counter()
    tokens = order(streams, new_tokens)
    return Run(tuple(map(tuple, tokens)), perf_counter() - before)


def _stream(model: Model, seed: int) -> Iterator[int]:
    """Generate greedy tokens past any end-of-sequence token."""
    from edgec.runtime_py.decoding.sampling import Sampler, Sampling
    from edgec.runtime_py.generation.generate import stream_tokens

    return stream_tokens(model.session, _prompt(model.session, PROMPT_TOKENS, seed), Sampler(Sampling()))


def _one_by_one(streams: Streams, count: int) -> list[list[int]]:
    return [list(islice(stream, count)) for stream in streams]


def _in_turns(streams: Streams, count: int) -> list[list[int]]:
    turns = list(islice(zip(*streams, strict=True), count))
    return [list(tokens) for tokens in zip(*turns, strict=True)]


def _prompt(session: Session, count: int, seed: int) -> list[int]:
    import numpy as np

    vocabulary = int(session.bundle.manifest.model.vocab_size or 2)
    return [int(token) for token in np.random.default_rng(seed).integers(0, vocabulary, count)]


def _fill(session: Session) -> None:
    """Write every slot, so that all of the state is resident."""
    session.prefill(_prompt(session, session.limits.context, 9), 0)


def _forward_ms(session: Session, k: int, repeats: int) -> float:
    tokens, times = _prompt(session, k, 3), []
    session.prefill(_prompt(session, PROMPT_TOKENS, 0), 0)
    for _ in range(1 + repeats):
        before = perf_counter()
        session.forward(tokens, PROMPT_TOKENS, range(k))
        times.append((perf_counter() - before) * 1e3)
    return median(times[1:])


def table(rows: Sequence[Row]) -> str:
    """The rows as a Markdown table."""
    heads = "| model | threads | in sequence, tokens/s | in turns, tokens/s | second session, MB | its state, MB "
    heads += f"| opened in, ms | batched instead, estimated gain for {', '.join(map(str, WIDTHS[1:]))} |"
    return "\n".join([heads, "|---" * 8 + "|", *map(_line, rows)])


def _line(row: Row) -> str:
    added = row.second_session_bytes
    cells = (
        row.model,
        row.threads,
        f"{row.sequential_tokens_per_s:.1f}",
        f"{row.interleaved_tokens_per_s:.1f}{'' if row.same_tokens else ' (other tokens)'}",
        "unavailable" if added is None else f"{added / 1e6:.1f}",
        f"{row.state_bytes / 1e6:.1f}",
        f"{row.open_ms:.1f}",
        ", ".join(f"{row.batching_gain[k]:.2f}x" for k in WIDTHS[1:]),
    )
    return f"| {' | '.join(map(str, cells))} |"


def main(write: Callable[[str], None] = print) -> None:
    """Export, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--model", choices=tuple(SUBJECTS), action="append", help="repeatable; default: all")
    parser.add_argument("--build", type=Path, default=Path("build/bench/sessions"))
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = [row for name in options.model or SUBJECTS for row in _of_model(name, options.build)]
    methods = {"obtained": "measured", "batching_gain": "estimated"}
    write(json.dumps({**methods, "rows": [asdict(row) for row in rows]}) if options.json else table(rows))


def _of_model(name: str, build: Path) -> list[Row]:
    import edgec

    bundle = exported(SUBJECTS[name], build)
    return [measure(name, edgec.load(bundle, threads=threads), threads) for threads in THREADS]


if __name__ == "__main__":
    main()
