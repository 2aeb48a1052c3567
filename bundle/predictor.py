"""The manifest on a predictor of further tokens: the method draft of an artifact, which goes on from hidden states.

tokens -> forward -> logits, hidden [1, S, H]
                                 |
tokens, each the next one -> draft -> logits of the token after, hidden [1, K, H] for the guess after that
"""

from __future__ import annotations

from typing import Final

from edgec.bundle.entry_points import StateInfo
from edgec.bundle.part import JsonPart, JsonSize

DRAFT: Final = "draft"
MTP: Final = "mtp"
"""The predictor inside a checkpoint: what ``--draft-heads`` and ``--speculate`` call it."""


EAGLE3: Final = "eagle3"
"""A predictor that an EAGLE-3 folder brings: what ``--speculate`` calls it."""


class PredictorInfo(JsonPart):
    """A method ``draft``: see docs/speculation.md.

    ``name``: what ``--speculate`` calls it; ``width``: H of the hidden states; ``states``: those of draft, beside those
    of forward in the manifest.
    """

    name: str
    width: JsonSize
    states: list[StateInfo]
