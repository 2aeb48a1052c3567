"""A recipe whose limits a model missed: a default before the one of its bundle, or one that was named and kept."""

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
    if [each.recipe for each in tried] == [taken]:
        return f"{tried[0].line}: kept, since it was named; --max-kl gives layers more bits until a divergence holds"
    return f"{'; '.join(each.line for each in tried)}: {taken} instead" if tried else ""
