"""One timed generation, whatever executes it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True)
class Lap:
    """The times of one generation: seconds to the first token, and from each token to the next."""

    ttft_s: float
    gaps_s: tuple[float, ...]


class Laps(Protocol):
    """A loaded model, asked for the same again and again."""

    @property
    def facts(self) -> dict[str, Any]:
        """What a record says of the engine, with ``threads`` and ``engine``."""

    def lap(self) -> Lap:
        """Generate once, from an empty cache.

        Raises:
            InputError: E162, no token came; E962, LiteRT-LM has no text of so many.
        """
