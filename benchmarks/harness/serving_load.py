"""Several sequences on one runtime, in the same way for every runtime: throughput, and a request that comes meanwhile.

Standard library and numpy only: the peers' environments run this module too. Every runtime is driven by the same loop:
one call of the model takes a token of each sequence that writes, and a chunk of a prompt that is read meanwhile.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from time import perf_counter
from typing import Any, Protocol


@dataclass(frozen=True)
class Fed:
    """Tokens of one sequence in a call; ``wanted``: the likeliest token after the last one is asked for."""

    sequence: int
    tokens: tuple[int, ...]
    start: int
    wanted: bool = True


class Sequences(Protocol):
    """A loaded language model with several sequences."""

    @property
    def vocab_size(self) -> int:
        """The size of the vocabulary; token ids are below it."""

    def step(self, fed: Sequence[Fed]) -> list[int]:
        """Compute all of it in one call; the likeliest next token of each that wants one, in their order."""


@dataclass(frozen=True)
class Load:
    """What is measured.

    Attributes:
        sessions: sequences that write.
        prompt_tokens: of each, and of the request that comes meanwhile.
        steps: tokens that each writes for the throughput.
        arrivals: requests that come meanwhile, one after the other.
        chunk: tokens of a prompt that are read in one call.
    """

    sessions: int
    prompt_tokens: int = 128
    steps: int = 32
    arrivals: int = 8
    chunk: int = 64


@dataclass(frozen=True)
class Measured:
    """Wall times, all measured.

    Attributes:
        sessions: sequences that wrote.
        tokens_per_s: of all together.
        ttft_ms: of each request that came while the others wrote.
        gap_ms: between two tokens of those that wrote, while a prompt was read.
    """

    sessions: int
    tokens_per_s: float
    ttft_ms: tuple[float, ...]
    gap_ms: tuple[float, ...]


def random_prompt(seed: int, tokens: int, vocab_size: int) -> tuple[int, ...]:
    """Seeded token ids, none of them 0."""
    chosen = random.Random(seed)
    return tuple(chosen.randrange(1, vocab_size) for _ in range(tokens))


def gaps_between(times: Sequence[float], begin: float, end: float) -> list[float]:
    """The ms between the tokens of one writer that came between two times."""
    within = [time for time in times if begin <= time <= end]
    return [(later - earlier) * 1e3 for earlier, later in pairwise(within)]


class Writers:
    """Sequences that write, each with its latest token and its position."""

    def __init__(self, model: Sequences, load: Load) -> None:
        """Read the prompt of each, one after the other."""
        self._model, self._load = model, load
        self._ends = [load.prompt_tokens] * load.sessions
        self._latest = [self._read(sequence) for sequence in range(load.sessions)]

    def _parts(self, sequence: int, seed: int) -> list[Fed]:
        tokens, chunk = random_prompt(seed, self._load.prompt_tokens, self._model.vocab_size), self._load.chunk
        starts = range(0, len(tokens), chunk)
        return [Fed(sequence, tokens[at : at + chunk], at, at + chunk >= len(tokens)) for at in starts]

    def _read(self, sequence: int) -> int:
        for part in self._parts(sequence, sequence):
            written = self._model.step([part])
        return written[0]

    def _tokens(self) -> list[Fed]:
        return [Fed(i, (token,), end) for i, (token, end) in enumerate(zip(self._latest, self._ends, strict=True))]

    def write(self, beside: Sequence[Fed] = ()) -> list[int]:
        """Write a token of each, and read ``beside`` in the same call; the tokens that ``beside`` asked for."""
        written = self._model.step([*self._tokens(), *beside])
        count = self._load.sessions
        self._latest, self._ends = written[:count], [end + 1 for end in self._ends]
        return written[count:]

    def arrive(self, seed: int) -> tuple[float, list[float]]:
        """Let a request come: the ms until its first token, and those between tokens of the others meanwhile."""
        begun, gaps = perf_counter(), []
        for part in self._parts(self._load.sessions, seed):
            before = perf_counter()
            self.write([part])
            gaps.append((perf_counter() - before) * 1e3)
        return (perf_counter() - begun) * 1e3, gaps


def measure(model: Sequences, load: Load) -> Measured:
    """Measure one load; the first steps and the first request are not counted."""
    writers = Writers(model, load)
    for _ in range(3):
        writers.write()
    begun = perf_counter()
    for _ in range(load.steps):
        writers.write()
    seconds = perf_counter() - begun
    arrivals = [writers.arrive(1000 + seed) for seed in range(load.arrivals + 1)][1:]
    gaps = tuple(gap for _, some in arrivals for gap in some)
    return Measured(load.sessions, load.sessions * load.steps / seconds, tuple(ttft for ttft, _ in arrivals), gaps)


def serve(open_model: Callable[[Mapping[str, Any]], Sequences]) -> None:
    """Take a job from stdin, with ``loads``, and print what was measured as JSON on the last line of stdout."""
    job = json.load(sys.stdin)
    model = open_model(job)
    rows = [asdict(measure(model, Load(**load))) for load in job["loads"]]
    print("\n" + json.dumps({"rows": rows}))
