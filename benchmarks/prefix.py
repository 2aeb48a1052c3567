"""Time to first token with and without a shipped system prompt: python -m benchmarks.prefix [--model NAME] [--json].

All variants run on one loaded model, in turns. The prompt is the system prompt and a question of 20 tokens; the next
turn adds a generated answer of 32 tokens and another question. All figures are measured: medians of wall time in ms,
with the extremes.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import TYPE_CHECKING

from benchmarks.session_models import SUBJECTS, exported

if TYPE_CHECKING:
    from edgec.runtime_py.model import Model

GOAL = 8.0
PREFIX_TOKENS, QUESTION_TOKENS, ANSWER_TOKENS, THREADS = 400, 20, 32, (1, 2)
_WARMUPS, _REPEATS = 1, 9


@dataclass(frozen=True)
class Times:
    """The wall and CPU ms of one variant, over all repetitions."""

    wall_ms: float
    low_ms: float
    high_ms: float
    cpu_ms: float


@dataclass(frozen=True)
class Row:
    """The figures of one model with ``threads`` threads.

    Attributes:
        prefix_tokens: tokens of the system prompt, restored.
        prompt_tokens: tokens of the whole prompt.
        state_bytes: size of the shipped file.
        without: everything is computed.
        restored: the prefix is read from the file into an empty cache.
        held: the cache holds the prefix already, as with every further question.
        turn: a conversation's next turn, after what the cache holds of it.
        turn_without: a conversation's next turn, everything computed.
        restore_ms: the reading alone, in ``restore_prefix``.
        same_token: all variants give the same first token.
    """

    model: str
    threads: int
    prefix_tokens: int
    prompt_tokens: int
    state_bytes: int
    without: Times
    restored: Times
    held: Times
    turn: Times
    turn_without: Times
    restore_ms: float
    same_token: bool

    @property
    def ratio(self) -> float:
        """The speed-up of the first token, measured by the wall clock."""
        return self.without.wall_ms / self.restored.wall_ms


@dataclass(frozen=True)
class Lap:
    """The times of one first token."""

    wall_ms: float
    cpu_ms: float
    token: int


def lap(model: Model, prompt: Sequence[int]) -> Lap:
    """Generate one token."""
    before = process_time()
    out = model.generate(prompt, max_new_tokens=1)
    return Lap(out.ttft_ms, (process_time() - before) * 1e3, out.tokens[0])


def measure(name: str, model: Model, threads: int, repeats: int = _REPEATS) -> Row:
    """Measure one loaded model whose bundle ships a prefix."""
    prefix = model.prefix
    assert prefix is not None  # exported with a system prompt
    tokens = prefix.file.contents.tokens
    prompt = [*tokens, *_question(model)]
    plain = model.new_session()
    plain.prefix = None
    ways: dict[str, Callable[[], Lap]] = {
        "without": lambda: lap(_emptied(plain), prompt),
        "restored": lambda: lap(_emptied(model), prompt),
        "held": lambda: lap(model, prompt),
    }
    laps = [_round(ways, model, prompt) for _ in range(_WARMUPS + repeats)][_WARMUPS:]
    return Row(
        name,
        threads,
        len(tokens),
        len(prompt),
        prefix.file.path.stat().st_size,
        **{way: _times([row[way] for row in laps]) for way in laps[0]},
        restore_ms=median(_restore_ms(model, prompt) for _ in range(repeats)),
        same_token=all(row[way].token == row["without"].token for row in laps for way in ways)
        and all(row["turn"].token == row["turn_without"].token for row in laps),
    )


def _round(ways: Mapping[str, Callable[[], Lap]], model: Model, prompt: Sequence[int]) -> dict[str, Lap]:
    """Measure each variant once, then the next turn with and without what the cache holds."""
    laps = {way: work() for way, work in ways.items()}
    answer = model.generate(prompt, max_new_tokens=ANSWER_TOKENS).tokens
    following = [*prompt, *answer, *prompt[-QUESTION_TOKENS:]]
    return {**laps, "turn": _turn(model, following, reuse=True), "turn_without": _turn(model, following, reuse=False)}


def _turn(model: Model, prompt: Sequence[int], reuse: bool) -> Lap:
    """Measure the first token of a turn; a conversation reuses what its cache holds."""
    from edgec.runtime_py.decoding.prompt_cache import EMPTY, PromptCache
    from edgec.runtime_py.generation.generate import generate

    before = process_time()
    prompt_cache = PromptCache(model.session.reusable) if reuse else EMPTY
    out = generate(model.session, prompt, model.request(max_new_tokens=1), model.decode, prompt_cache=prompt_cache)
    return Lap(out.ttft_ms, (process_time() - before) * 1e3, out.tokens[0])


def _emptied(model: Model) -> Model:
    model.session.cache.hold((), 0)
    return model


def _restore_ms(model: Model, prompt: Sequence[int]) -> float:
    from edgec.runtime_py.sessions.prefix import restore_prefix

    _emptied(model)
    before = perf_counter()
    restore_prefix(model.session, model.prefix, prompt)
    return (perf_counter() - before) * 1e3


def _question(model: Model) -> list[int]:
    ids = model.tokenizer(
        "Tell me what the people of the city say of the corn, and who shall", add_special_tokens=False
    )
    return [int(token) for token in (ids["input_ids"] * QUESTION_TOKENS)[:QUESTION_TOKENS]]


def _times(laps: Sequence[Lap]) -> Times:
    walls = [lap.wall_ms for lap in laps]
    return Times(median(walls), min(walls), max(walls), median(lap.cpu_ms for lap in laps))


def table(rows: Sequence[Row]) -> str:
    """The rows as a Markdown table."""
    heads = (
        "| model | threads | prefix + question, tokens | file, MB | computed, ms | restored, ms | of it reading, ms "
    )
    heads += f"| held already, ms | ratio (goal {GOAL:g}) | next turn: computed, ms | reused, ms |"
    return "\n".join([heads, "|---" * 11 + "|", *map(_line, rows)])


def _line(row: Row) -> str:
    cells = (
        row.model,
        row.threads,
        f"{row.prefix_tokens} + {row.prompt_tokens - row.prefix_tokens}",
        f"{row.state_bytes / 1e6:.2f}",
        *(f"{t.wall_ms:.2f} ({t.low_ms:.2f}-{t.high_ms:.2f})" for t in (row.without, row.restored)),
        f"{row.restore_ms:.2f}",
        f"{row.held.wall_ms:.2f}",
        f"{row.ratio:.1f}{'' if row.same_token else ' (another token)'}",
        f"{row.turn_without.wall_ms:.2f}",
        f"{row.turn.wall_ms:.2f}",
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
    plain_rows = [{**asdict(row), "ratio": row.ratio} for row in rows]
    write(json.dumps({"obtained": "measured", "goal": GOAL, "rows": plain_rows}) if options.json else table(rows))


def _of_model(name: str, build: Path) -> list[Row]:
    import edgec

    bundle = exported(SUBJECTS[name], build, PREFIX_TOKENS)
    return [measure(name, edgec.load(bundle, threads=threads), threads) for threads in THREADS]


if __name__ == "__main__":
    main()
