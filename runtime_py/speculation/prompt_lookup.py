"""Prompt look-up: the tokens that followed the same words before, in the prompt or the text so far, may follow again.

No model and no weights (Saxena 2023, github.com/apoorvumang/prompt-lookup-decoding). It pays where text repeats itself:
code, JSON, edits, summaries, loops.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from edgec.runtime_py.decoding.sampling import Sampling
from edgec.runtime_py.speculation.draft import Draft
from edgec.runtime_py.speculation.suffix_index import LONGEST, SuffixIndex

# Agreements of 2, 3, 4..7, 8..15 and 16 tokens are separate classes of confidence.
_CLASSES: Final = tuple(0 if n < 3 else 1 if n < 4 else 2 if n < 8 else 3 if n < LONGEST else 4 for n in range(17))


class PromptLookup:
    """A drafter that copies what followed the longest earlier occurrence of the last tokens."""

    name: Final = "ngram"
    free: Final = True

    def __init__(self) -> None:
        self._index = SuffixIndex()

    def begin(self, prompt: Sequence[int], sampling: Sampling) -> None:
        """Forget the last sequence and index the prompt."""
        self._index = SuffixIndex()
        self._index.extend(prompt)

    def propose(self, history: Sequence[int], count: int) -> Draft | None:
        """Draft what followed before; None where the last two tokens never occurred together."""
        self._index.extend(history)
        match = self._index.match()
        if match is None:
            return None
        return Draft(self._index.following(match, count), confidence=_CLASSES[match.length])
