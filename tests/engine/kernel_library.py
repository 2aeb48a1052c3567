"""The C++ kernels over plain memory, for tests: compiled once per instruction set, called with torch's tensors."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import c_float, c_int64, c_void_p
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from edgec.engine.compile.abi import NATIVE
from tests.engine.compiled import compiled

ACTIVATIONS = ("none", "silu", "gelu", "gelu_tanh", "sigmoid", "tanh", "relu")
KINDS = {torch.float32: 0, torch.float16: 1, torch.int8: 2, torch.uint8: 3}


class Stored(ctypes.Structure):
    """``PlainStored`` of kernel_entry.cpp."""

    _fields_ = (
        ("data", c_void_p),
        ("grid", c_void_p),
        *((name, c_int64) for name in ("kind", "heads", "width", "group")),
    )

    @classmethod
    def of(cls, cache: Tensor, grid: Tensor | None) -> Stored:
        width = cache.shape[-1] * (2 if cache.dtype == torch.uint8 else 1)
        group = width if grid is None else width // (grid.shape[-1] // 2)
        return cls(cache.data_ptr(), _address(grid), KINDS[cache.dtype], cache.shape[2], width, group)


class Geometry(ctypes.Structure):
    """``PlainGeometry`` of kernel_entry.cpp."""

    _fields_ = tuple((name, c_int64) for name in ("ring", "sink", "window", "last"))


def _address(tensor: Tensor | None) -> int:
    if tensor is None:
        return 0
    assert tensor.is_contiguous()
    return tensor.data_ptr()


def _pointer(tensor: Tensor | None) -> c_void_p:
    return c_void_p(_address(tensor))


@dataclass
class Held:
    """What a sequence leaves behind: its state and log, and how many tokens are replayed and taken in."""

    state: Tensor
    log: Tensor
    progress: Tensor

    @property
    def pointers(self) -> tuple[c_void_p, ...]:
        return _pointer(self.state), _pointer(self.log), _pointer(self.progress)


@dataclass(frozen=True)
class Kernels:
    """The kernels as functions of tensors, with the operators' arguments."""

    library: ctypes.CDLL

    def use_threads(self, threads: int) -> None:
        """Let so many threads of ExecuTorch's pool share the work."""
        self.library.test_use_threads(c_int64(threads))

    def cache_write(
        self, value: Tensor, positions: Tensor, cache: Tensor, grid: Tensor | None, ring: int, sink: int
    ) -> None:
        geometry = Geometry(ring, sink, 0, 0)
        into = Stored.of(cache, grid)
        tokens = c_int64(positions.numel())
        self.library.test_write(
            _pointer(value), _pointer(positions), tokens, ctypes.byref(into), ctypes.byref(geometry)
        )

    def cached_attention(
        self,
        q: Tensor,
        positions: Tensor,
        written: Tensor,
        keys: Tensor,
        values: Tensor,
        key_grid: Tensor | None,
        value_grid: Tensor | None,
        scale: float,
        window: int,
        ring: int,
        sink: int,
        softcap: float,
        sink_logits: Tensor | None,
    ) -> Tensor:
        k, v = Stored.of(keys, key_grid), Stored.of(values, value_grid)
        out = q.new_full((*q.shape[:3], v.width), float("nan"))
        self.library.test_attend(
            *(_pointer(q), _pointer(positions), c_int64(q.shape[1]), c_int64(q.shape[2])),
            *(ctypes.byref(k), ctypes.byref(v), ctypes.byref(Geometry(ring, sink, window, int(written[-1])))),
            *(c_float(scale), c_float(softcap), _pointer(sink_logits), _pointer(out)),
        )
        return out

    def rms_norm(self, x: Tensor, weight: Tensor | None, eps: float) -> Tensor:
        out, width = torch.empty_like(x), x.shape[-1]
        sizes = c_int64(x.numel() // width), c_int64(width)
        self.library.test_rms_norm(_pointer(x), _pointer(weight), c_float(eps), *sizes, _pointer(out))
        return out

    def activate(self, name: str, x: Tensor) -> Tensor:
        out = x.clone()
        self.library.test_activate(c_int64(ACTIVATIONS.index(name)), _pointer(out), c_int64(out.numel()))
        return out

    def rope(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        out = torch.empty_like(x)
        sizes = (c_int64(size) for size in (*x.shape[1:], cos.shape[-1]))
        self.library.test_rope(_pointer(x), _pointer(cos), _pointer(sin), *sizes, _pointer(out))
        return out

    def state(
        self,
        which: int,
        sizes: Sequence[int],
        scale: float,
        operands: Sequence[Tensor | None],
        held: Held,
        out: Tensor,
    ) -> None:
        """One of the kernels over states, by ``test_state``'s numbers; writes ``held`` and ``out``."""
        numbers = (c_int64 * len(sizes))(*sizes)
        given = (c_void_p * len(operands))(*map(_address, operands))
        self.library.test_state(c_int64(which), numbers, c_float(scale), given, *held.pointers, _pointer(out))

    def experts(self, x: Tensor, index: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        out = x.new_full((*index.shape, weight.shape[1]), float("nan"))
        sizes = torch.tensor([*index.shape, x.shape[1], *weight.shape])
        self.library.test_experts(*map(_pointer, (x, index, weight, bias, sizes, out)))
        return out

    def recurrent(
        self,
        gated: bool,
        given: Tensor,
        hidden: Tensor,
        second: Tensor | None,
        weight: Tensor,
        scale: Tensor | None,
        backwards: bool,
    ) -> Tensor:
        """A GRU (``gated``) or an LSTM; ``second``: the GRU's bias, the LSTM's cell state."""
        out = given.new_full((len(given), given.shape[1] + (not gated), hidden.shape[1]), float("nan"))
        sizes = torch.tensor([gated, *given.shape, hidden.shape[1], backwards])
        self.library.test_recurrent(*map(_pointer, (sizes, given, hidden, second, weight, scale, out)))
        return out


def kernels(architecture: str = "native") -> Kernels:
    """The kernels compiled for an instruction set."""
    return Kernels(ctypes.CDLL(str(compiled("kernels", replace(NATIVE, flags=(f"-march={architecture}",))))))
