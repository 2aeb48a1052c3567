"""Models and drafters whose costs and hits are known: what the controller learns can be checked against the truth."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from edgec.runtime_py.decoding.sampling import Sampling
from edgec.runtime_py.decoding.stepper import Logits, Stepper
from edgec.runtime_py.sessions.cache_contents import CacheState
from edgec.runtime_py.speculation.draft import Draft, Drafter, DraftLimits
from edgec.runtime_py.speculation.speculator import Speculator
from tests.runtime_py.fake_stepper import FakeStepper, Rule


class Clock:
    """Seconds that pass only when told."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class TimedStepper(FakeStepper):
    """A fake model whose calls take ``cost(tokens)`` ms."""

    def __init__(self, rule: Rule, clock: Clock, cost: Callable[[int], float], **options: object) -> None:
        super().__init__(rule, **{"context": 4096, "chunk": 32, "rows": 16} | options)  # type: ignore[arg-type]
        self._clock, self._cost = clock, cost

    def forward(self, tokens: Sequence[int], start: int, rows: Sequence[int]) -> Logits:
        self._clock.now += self._cost(len(tokens)) / 1e3
        return super().forward(tokens, start, rows)


class Guesser:
    """Knows the rule, and errs at each token with a chance of its own."""

    def __init__(
        self, rule: Rule, hits: float, clock: Clock | None = None, ms: float = 0.0, free: bool = True, seed: int = 0
    ) -> None:
        self.name, self.free, self.hits = "guesser", free, hits
        self.made = 0
        self._rule, self._clock, self._ms = rule, clock, ms
        self._rng = np.random.default_rng(seed)

    def begin(self, prompt: Sequence[int], sampling: Sampling) -> None:
        pass

    def propose(self, history: Sequence[int], count: int) -> Draft | None:
        seen = list(history)
        for _ in range(count):
            token = self._rule(seen) % 64
            seen.append(token if self._rng.random() < self.hits else (token + 1) % 64)
        self.made += 1
        if self._clock:
            self._clock.now += self._ms * count / 1e3
        return Draft(tuple(seen[len(history) :]))


class Replay:
    """Knows how the text goes on, and says every ``wrong``-th token wrong."""

    name, free = "replay", True

    def __init__(self, text: Sequence[int], wrong: int) -> None:
        self._text, self._wrong = list(text), wrong

    def begin(self, prompt: Sequence[int], sampling: Sampling) -> None:
        pass

    def propose(self, history: Sequence[int], count: int) -> Draft | None:
        places = range(len(history), min(len(history) + count, len(self._text)))
        tokens = tuple(self._text[i] if i % self._wrong else (self._text[i] + 1) % 64 for i in places)
        return Draft(tokens) if tokens else None


class Always(Speculator):
    """Time stands still except for plain calls, which are dear: drafts always pay."""

    def __init__(self, drafters: Sequence[Drafter], of: Stepper, states: Sequence[CacheState]) -> None:
        clock = Clock()
        super().__init__(drafters, DraftLimits.of(of.limits, states), clock)
        forward = of.forward

        def ticking(fed: Sequence[int], start: int, rows: Sequence[int]) -> Logits:
            clock.now += 1.0
            return forward(fed, start, rows)

        of.forward = ticking  # type: ignore[method-assign, assignment]
