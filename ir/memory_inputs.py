"""What the methods of an encoder-decoder hand on to each other, where their shapes are fixed.

source, source_used? -> encode -> states -> cross -> cross_key_0, cross_value_0, cross_key_1, ...   [1, G, T, D] each
|
tokens, start, cross_key_0, cross_value_0, ..., source_used?, last -> prefill, decode -> logits

``source_used`` float32 [1, T] is there where a source may be shorter than the encoder's length: 1 at its tokens, 0 at
the padding after them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from edgec.ir.program import Interface
from edgec.ir.static_methods import Methods

STATES, USED = "states", "source_used"
# As `memory_names` of bundle/entry_points.py names them.
_KEPT = re.compile(r"cross_(key|value)_\d+")


def is_memory(name: str) -> bool:
    """Whether an input of a decoder's method is what it knows of the source: the same in each call after it."""
    return bool(_KEPT.fullmatch(name)) or name == USED


def handed_on(interface: Interface) -> frozenset[str]:
    """The inputs that another method of the artifact made, and that have the type of its output."""
    kept = {tensor.name for tensor in interface.inputs if _KEPT.fullmatch(tensor.name)}
    makes_kept = any(_KEPT.fullmatch(tensor.name) for tensor in interface.outputs)
    return frozenset(kept | ({STATES} if makes_kept else set()))


@dataclass(frozen=True)
class RememberingMethods:
    """The methods of a decoder after one source.

    Attributes:
        methods: of an artifact, or as graphs.
        memory: what they know of the source, by the inputs' names.
    """

    methods: Methods
    memory: Mapping[str, Tensor]

    @property
    def chunk(self) -> int:
        """Tokens that one call of ``prefill`` takes."""
        return self.methods.chunk

    def call(self, method: str, inputs: Mapping[str, Tensor]) -> Tensor:
        """Execute a method with what is known of the source."""
        return self.methods.call(method, {**self.memory, **inputs})
