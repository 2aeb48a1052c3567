"""Results of linear layers in the last run of a model, for a next run that brings the same inputs to the same weights.

Capturing a model, moving its nodes or folding constants leaves most inputs as they were, bit for bit. The result is
then that of the last run, which made exactly this product; where a bit differs, the layer is computed. In the ladder of
a 4-bit export of Qwen3-0.6B four of seven runs find nearly all of their products.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from edgec.ir.row_tensor import RowTensor


@dataclass(frozen=True)
class LinearWeights:
    """What a linear layer reads besides its inputs.

    Attributes:
        forms: how weight and bias are computed from tensors, which are named ``#1``, ``#2``; all products are made in
            float32, a cast to which is left out.
        read: these tensors, in order.
    """

    forms: tuple[str, ...]
    read: tuple[Tensor, ...]

    @classmethod
    def plain(cls, *tensors: Tensor | None) -> LinearWeights:
        """A weight, and perhaps a bias, as they are stored."""
        given = tuple(tensor for tensor in tensors if tensor is not None)
        return cls(tuple(f"#{number}" for number in range(1, len(given) + 1)), given)

    @property
    def key(self) -> tuple[Any, ...]:
        """Equal for the same computation from the same memory."""
        return (self.forms, *((memory_of(t), tuple(t.shape), t.stride(), t.dtype) for t in self.read))


def memory_of(tensor: Tensor) -> int:
    """Where a tensor lies; of one without memory, where what makes its rows lies."""
    return id(tensor.load) if isinstance(tensor, RowTensor) else tensor.data_ptr()


@dataclass(frozen=True)
class _Known:
    """A layer's result [P, N], the digest of its inputs, the tensors that it read, and the versions of all of these.

    As long as these are held, no other tensor can lie where they do.
    """

    read: Sequence[Tensor]
    digest: bytes
    result: Tensor
    versions: tuple[int, ...]

    def serves(self, digest: bytes) -> bool:
        """Whether the result is of these inputs, and nothing was written in place to it or to weights."""
        return self.digest == digest and _versions(self.result, *self.read) == self.versions


@dataclass
class LinearMemo:
    """The last result of each linear layer: 4 bytes for each token and output channel.

    Attributes:
        keeps: whether a run leaves its results, and the weights that they were made with, for the next one.
    """

    keeps: bool = True
    _last: dict[tuple[Any, ...], _Known] = field(default_factory=dict, repr=False, compare=False)
    _present: dict[tuple[Any, ...], _Known] = field(default_factory=dict, repr=False, compare=False)

    @contextmanager
    def run(self) -> Iterator[None]:
        """One run of a model, which may take what the last run left; the rest of that is let go at its end."""
        try:
            yield
            self._last, self._present = self._present, {}
        except BaseException:
            self._last, self._present = {}, {}
            raise

    def result(self, weights: LinearWeights, inputs: Tensor, compute: Callable[[], Tensor]) -> Tensor:
        """What a layer makes of its inputs, in a run.

        Args:
            weights: what it reads besides.
            inputs: float32 [P, K].
            compute: computes the result [P, N].
        """
        key, digest = weights.key, _digest(inputs)
        known = self._last.pop(key, None)
        if known is None or not known.serves(digest):
            known = None  # frees the old result before the new one is computed
            value = compute()
            read = [tensor.detach() for tensor in weights.read]
            known = _Known(read, digest, value, _versions(value, *read))
        if self.keeps:
            self._present[key] = known
        return known.result


def _versions(*tensors: Tensor) -> tuple[int, ...]:
    return tuple(tensor._version for tensor in tensors)


def _digest(value: Tensor) -> bytes:
    hashed = hashlib.sha256(str(tuple(value.shape)).encode())
    hashed.update(value.contiguous().view(torch.uint8).numpy().data)
    return hashed.digest()
