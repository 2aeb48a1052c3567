"""A default recipe that a model was compiled with before the one of its bundle, and what it missed."""

from __future__ import annotations

from collections.abc import Sequence

from edgec.bundle.part import JsonPart


class TriedRecipe(JsonPart):
    """A recipe whose budget did not hold; ``missed``: the figures, each with its budget."""

    recipe: str
    missed: str

    @property
    def line(self) -> str:
        """In words: ``8bit misses its budget (max_relative 0.56 (budget 0.1) on the example inputs)``."""
        return f"{self.recipe} misses its budget ({self.missed})"


def tried_line(tried: Sequence[TriedRecipe], taken: str) -> str:
    """What was tried and what was taken, in a line; empty where the first recipe held."""
    return f"{'; '.join(each.line for each in tried)}: {taken} instead" if tried else ""
