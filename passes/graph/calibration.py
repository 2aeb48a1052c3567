"""The inputs on which passes observe activations: tokens of real text for a decoder, examples for other models."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from edgec.errors import InputError
from edgec.ir.call_plan import call_inputs
from edgec.ir.program import Dynamic, Interface, Program

CalibrationCalls = Sequence[Sequence[Tensor]]
_CHUNK = 64


class Calibration:
    """What is fed to the float graph before it is compressed; when it is empty, nothing is known of activations.

    Args:
        tokens: of a decoder's calibration text; fed in chunks, from the start again when the context is full.
        calls: inputs of each call of another graph, in the interface's order.
        context: the most positions of a sequence.
    """

    def __init__(self, tokens: Sequence[int] = (), calls: CalibrationCalls = (), context: int = 512) -> None:
        self.tokens, self.given, self.context = tuple(tokens), calls, context

    def __bool__(self) -> bool:
        return bool(self.tokens or self.given)

    def __eq__(self, other: object) -> bool:
        """Compare tokens by value, and examples by identity."""
        return isinstance(other, Calibration) and self._identity == other._identity

    def __hash__(self) -> int:
        """Hash what ``==`` compares."""
        return hash(self._identity)

    @property
    def _identity(self) -> tuple[object, ...]:
        return self.tokens, self.context, id(self.given) if self.given else 0

    def __repr__(self) -> str:
        """A short text, which manifests hold as a pass's option."""
        return f"{len(self.tokens)} tokens" if self.tokens else f"{len(self.given)} calls"

    def calls(self, program: Program) -> Iterator[Sequence[Tensor]]:
        """The inputs of each call, as the program takes them."""
        yield from self.given
        # Tokens of one call: as many as the graph takes, at most 64.
        sizes = [
            _CHUNK,
            *(size for tensor in program.interface.inputs if tensor.name == "tokens" for size in tensor.shape[1:]),
        ]
        chunk = min(size.high if isinstance(size, Dynamic) else size for size in sizes)
        usable = max(chunk, self.context // chunk * chunk)
        for first in range(0, len(self.tokens), usable):
            part = self.tokens[first : first + usable]
            for start in range(0, len(part), chunk):
                size = min(chunk, len(part) - start)
                yield call_inputs(program.interface, part, start, size, _rows(program.interface, size))


def require_calibration(calibration: Calibration, where: str) -> None:
    """Refuse a pass that needs calibration where there is none.

    Raises:
        InputError: E521.
    """
    if not calibration:
        raise InputError(
            what="this recipe needs calibration text, and none was given",
            where=where,
            why="no --calibrate was given, and none is made for a model that is not a decoder, "
            "or has neither a tokenizer nor trained weights",
            fix='pass --calibrate FILE with text like what the model will see, or set algorithm = "mse"',
            code="E521",
        )


def _rows(interface: Interface, size: int) -> Tensor:
    """Positions of a call whose logits are asked for, evenly spaced up to the last: as many as the graph gives."""
    counts = [dim for tensor in interface.inputs if tensor.name == "logit_index" for dim in tensor.shape]
    most = min([size, *(dim.high if isinstance(dim, Dynamic) else dim for dim in counts)])
    return torch.linspace(size - 1, 0, most).long().flip(0)
