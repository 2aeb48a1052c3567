"""Inputs on which a compressing pass looks at activations: tokens of real text for a decoder, examples for the rest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from edgec.exporter.parity.execution import call_inputs
from edgec.exporter.program import Dynamic, Interface, Program

Calls = Sequence[Sequence[Tensor]]
_CHUNK = 64


class Calibration:
    """What is fed to the float graph before it is compressed; empty: nothing is known of activations.

    Args:
        tokens: of a decoder's calibration text; fed in chunks, from the start again when the context is full.
        calls: inputs of each call of another graph, in the interface's order.
        context: the most positions of a sequence.
    """

    def __init__(self, tokens: Sequence[int] = (), calls: Calls = (), context: int = 512) -> None:
        self.tokens, self.given, self.context = tuple(tokens), calls, context

    def __bool__(self) -> bool:
        return bool(self.tokens or self.given)

    def __repr__(self) -> str:
        """Short: it stands in manifests as a pass's option."""
        return f"{len(self.tokens)} tokens" if self.tokens else f"{len(self.given)} calls"

    def calls(self, program: Program) -> Iterator[Sequence[Tensor]]:
        """The inputs of each call, as the program takes them."""
        yield from self.given
        chunk = _chunk(program.interface)
        usable = max(chunk, self.context // chunk * chunk)
        for first in range(0, len(self.tokens), usable):
            part = self.tokens[first : first + usable]
            for start in range(0, len(part), chunk):
                size = min(chunk, len(part) - start)
                yield call_inputs(program.interface, part, start, size, torch.tensor([size - 1]))


def _chunk(interface: Interface) -> int:
    """Tokens of one call: as many as the graph takes, at most 64."""
    sizes = [_CHUNK, *(size for tensor in interface.inputs if tensor.name == "tokens" for size in tensor.shape[1:])]
    return min(size.high if isinstance(size, Dynamic) else size for size in sizes)
