"""What long work reports to its caller: the stage, how far it is, and the time left."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from edgec.interruption import raise_if_interrupted

# Share of an export's wall time per stage, measured on the example model with the 4-bit recipe.
STAGE_SHARES = {
    "engine": 0.0,
    "resolve": 0.05,
    "text": 0.0,
    "reference": 0.02,
    "capture": 0.05,
    "rewrite": 0.15,
    "lower": 0.68,
    "verify": 0.02,
    "bundle": 0.03,
}


@dataclass(frozen=True)
class Event:
    """One step of progress.

    Attributes:
        stage: resolve, engine (where it is compiled first), text (where it is made), reference, capture, rewrite,
            lower, verify or bundle.
        fraction: of the stage, 0..1.
        overall: of the whole export, 0..1 (estimated).
        eta_s: seconds left (estimated), None at the beginning.
        detail: what is being worked on.
        cached: the stage's result came from the stage cache.
        noted: ``detail`` is something to know of this export, rather than what is being worked on.
    """

    stage: str
    fraction: float
    overall: float
    eta_s: float | None
    detail: str = ""
    cached: bool = False
    noted: bool = False


LOCATING = "outputs differ: looking for the first layer that does"
ARBITRATING = "comparing layer by layer, with the artifact's own roundings"
"""What a stage does once a rung has failed; it repeats work."""
# The same where the engine is compiled first: two minutes on two cores, compared with 20 s for the rest.
ENGINE_SHARE = 0.85
Listener = Callable[[Event], None]


def silent(_: Event) -> None:
    """The listener that ignores every event."""


@dataclass
class ProgressLines:
    """Progress without a terminal: a line at the beginning of each stage, then one per minute, with the time so far.

    Attributes:
        write: called with each line.
        every_s: seconds between two lines of one stage.
        clock: returns seconds since some fixed moment.
    """

    write: Callable[[str], None]
    every_s: float = 60.0
    clock: Callable[[], float] = time.monotonic
    _started: float | None = None
    _last: tuple[str, float] = ("", 0.0)

    def tell(self, stage: str, text: str) -> None:
        """Write a line if the stage is a new one, or the last line is old."""
        now = self.clock()
        self._started = now if self._started is None else self._started
        if stage != self._last[0] or now - self._last[1] >= self.every_s:
            self.write(f"{_clock_time(now - self._started)}  {stage:<10} {text}".rstrip())
            self._last = (stage, now)


def shares_with_engine() -> dict[str, float]:
    """The shares of the stages where the engine is compiled first."""
    rest = {name: share * (1 - ENGINE_SHARE) for name, share in STAGE_SHARES.items()}
    return rest | {"engine": ENGINE_SHARE}


def _clock_time(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}"


@dataclass
class Progress:
    """Turns stages into events and measures each stage's seconds."""

    listener: Listener = silent
    seconds: dict[str, float] = field(default_factory=dict)
    shares: Mapping[str, float] = field(default_factory=lambda: STAGE_SHARES)
    _started: float = field(default_factory=time.perf_counter)
    _stage: str = ""
    _stage_started: float = 0.0

    def enter(self, stage: str, detail: str = "", cached: bool = False) -> None:
        """Begin a stage; this ends the one before it."""
        self._close()
        self._stage, self._stage_started = stage, time.perf_counter()
        self.step(0.0, detail, cached)

    def note(self, text: str) -> None:
        """Tell something that is worth knowing before the work starts."""
        self.listener(Event(self._stage, 1.0, self.shares.get(self._stage, 0.0), None, text, noted=True))

    def step(self, fraction: float, detail: str = "", cached: bool = False) -> None:
        """Report how far the current stage is.

        Raises:
            KeyboardInterrupt: Ctrl-C was pressed, and something swallowed it.
        """
        raise_if_interrupted()
        before = sum(share for name, share in self.shares.items() if _precedes(name, self._stage))
        overall = min(1.0, before + fraction * self.shares.get(self._stage, 0.0))
        elapsed = time.perf_counter() - self._started
        eta = elapsed / overall - elapsed if overall > 0.05 else None
        self.listener(Event(self._stage, fraction, overall, eta, detail, cached))

    def finish(self) -> None:
        """Report the end of all stages."""
        self._close()
        self.listener(Event("done", 1.0, 1.0, 0.0))

    def _close(self) -> None:
        if self._stage:
            taken = self.seconds.get(self._stage, 0.0) + time.perf_counter() - self._stage_started
            self.seconds[self._stage] = round(taken, 3)


def _precedes(name: str, stage: str) -> bool:
    order = list(STAGE_SHARES)
    return stage in order and order.index(name) < order.index(stage)
