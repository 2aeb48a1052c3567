"""The linear kernels for tests: this machine's through ctypes, those of arm64 under qemu."""

from __future__ import annotations

import ctypes
import struct
import subprocess
from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor

from edgec.backends.edgec_linear.layout import BlockRows, PackedMatrix
from edgec.backends.edgec_linear.scale_forms import ScaleForm
from edgec.devices.qemu.emulator import find_emulator
from edgec.engine.compile.abi import ARM64
from tests.engine.compiled import compiled

# These kernels alone call nothing of ExecuTorch, so its headers for this machine do.
BARE = replace(ARM64, wheel_platform=None)


class LinearKernels(Protocol):
    """Kernels by name."""

    @property
    def names(self) -> tuple[str, ...]:
        """The kernels that the processor can execute, best first."""

    def multiply(
        self, isa: str, shape: PackedMatrix, data: Tensor, x: Tensor, part: int, *, in_float: bool = False
    ) -> Tensor:
        """Multiply float32 tokens [T, width], quantised unless ``in_float``, ``part`` at a time: float32 [T, rows]."""


def numbers_of(shape: PackedMatrix) -> tuple[int, ...]:
    """The fields of ``TestMatrix`` in linear_entry.cpp."""
    grid = shape.grid
    form = list(ScaleForm).index(shape.scale_form)
    return shape.rows, shape.width, shape.group, grid.bits, grid.step, grid.offset, form, int(shape.block_rows)


@dataclass(frozen=True)
class NativeKernels:
    """The kernels of this machine."""

    library: ctypes.CDLL

    @property
    def names(self) -> tuple[str, ...]:
        names = ctypes.create_string_buffer(128)
        self.library.test_names(names)
        return tuple(names.value.decode().split())

    def multiply(
        self, isa: str, shape: PackedMatrix, data: Tensor, x: Tensor, part: int, *, in_float: bool = False
    ) -> Tensor:
        padded = -(-shape.rows // shape.block_rows) * shape.block_rows
        out = torch.full((x.shape[0], padded), float("nan"))
        sizes = (ctypes.c_int64(number) for number in (in_float, x.shape[0], part))
        pointers = (ctypes.c_void_p(t.data_ptr()) for t in (data, x.contiguous()))
        call = self.library.test_multiply
        assert call(isa.encode(), _described(shape), *pointers, *sizes, ctypes.c_void_p(out.data_ptr())) == 0
        return out[:, : shape.rows]

    def bytes(self, shape: PackedMatrix) -> int:
        """The matrix's size as the kernels see it; -1 where they refuse its shape."""
        self.library.test_bytes.restype = ctypes.c_int64
        return int(self.library.test_bytes(_described(shape)))

    def relay(self, shape: PackedMatrix, data: Tensor, to: BlockRows, bytes: int) -> Tensor:
        """The matrix in another layout."""
        out = torch.full((bytes,), 77, dtype=torch.uint8)
        pointers = (ctypes.c_void_p(data.data_ptr()), ctypes.c_int64(int(to)), ctypes.c_void_p(out.data_ptr()))
        self.library.test_relay(_described(shape), *pointers)
        return out

    def read_row(self, shape: PackedMatrix, data: Tensor, row: int) -> Tensor:
        """A row's values."""
        out = torch.empty(shape.width)
        pointers = (ctypes.c_void_p(data.data_ptr()), ctypes.c_int64(row), ctypes.c_void_p(out.data_ptr()))
        self.library.test_read_row(_described(shape), *pointers)
        return out


@dataclass(frozen=True)
class EmulatedKernels:
    """The kernels of arm64 in a process under qemu."""

    server: subprocess.Popen[bytes]
    names: tuple[str, ...]

    def multiply(
        self, isa: str, shape: PackedMatrix, data: Tensor, x: Tensor, part: int, *, in_float: bool = False
    ) -> Tensor:
        pipe, results = self.server.stdin, self.server.stdout
        assert pipe is not None and results is not None
        call = struct.pack("<16s11q", isa.encode(), *numbers_of(shape), in_float, x.shape[0], part)
        pipe.write(call + data.numpy().tobytes() + x.contiguous().numpy().tobytes())
        pipe.flush()
        padded = -(-shape.rows // shape.block_rows) * shape.block_rows
        content = bytearray(results.read(x.shape[0] * padded * 4))
        return torch.frombuffer(content, dtype=torch.float32).reshape(-1, padded)[:, : shape.rows]

    def close(self) -> None:
        self.server.communicate()


def native_kernels() -> NativeKernels:
    """The kernels compiled for this machine."""
    return NativeKernels(ctypes.CDLL(str(compiled("linear"))))


def emulated_kernels(cpu: str) -> EmulatedKernels:
    """The kernels of arm64 on a processor that qemu emulates (``max``, ``cortex-a76``, ``cortex-a53``)."""
    line = [str(find_emulator()), "-cpu", cpu, str(compiled("linear_server", BARE))]
    server = subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert server.stdout is not None
    return EmulatedKernels(server, tuple(server.stdout.readline().decode().split()))


def _described(shape: PackedMatrix) -> ctypes.Array[ctypes.c_int64]:
    return (ctypes.c_int64 * 8)(*numbers_of(shape))
