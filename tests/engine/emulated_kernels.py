"""The C++ kernels compiled for arm64 (NEON) and executed by qemu, called like those of kernel_library.py."""

from __future__ import annotations

import struct
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from edgec.devices.qemu.emulator import CPU, find_emulator
from edgec.engine.compile.abi import ARM64, LOADER
from edgec.engine.compile.build import build_runner
from tests.engine.compiled import compiled
from tests.engine.kernel_library import Held, Stored


@dataclass(frozen=True)
class EmulatedKernels:
    """The kernels in a process under the emulator."""

    server: subprocess.Popen[bytes]

    def cache_write(
        self, value: Tensor, positions: Tensor, cache: Tensor, grid: Tensor | None, ring: int, sink: int
    ) -> None:
        geometry = (ring, sink, 0, 0)
        answer = self._call(b"w", (positions.numel(), *_numbers(cache, grid), *geometry), value, positions, cache, grid)
        _fill(cache, answer[: cache.nbytes])
        if grid is not None:
            _fill(grid, answer[cache.nbytes :])

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
        stored = (*_numbers(keys, key_grid), *_numbers(values, value_grid))
        numbers = (*q.shape[1:3], *stored, ring, sink, window, int(written[-1]), scale, softcap)
        out = q.new_empty((*q.shape[:3], _numbers(values, value_grid)[2]))
        _fill(out, self._call(b"a", numbers, q, positions, keys, key_grid, values, value_grid, sink_logits))
        return out

    def rms_norm(self, x: Tensor, weight: Tensor | None, eps: float) -> Tensor:
        width = x.shape[-1]
        return _like(x, self._call(b"n", (x.numel() // width, width, eps), x, weight))

    def rope(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        return _like(x, self._call(b"r", (*x.shape[1:], cos.shape[-1]), x, cos, sin))

    def state(
        self,
        which: int,
        sizes: Sequence[int],
        scale: float,
        operands: Sequence[Tensor | None],
        held: Held,
        out: Tensor,
    ) -> None:
        numbers = (which, *sizes, *[0] * (7 - len(sizes)), float(scale), out.numel(), *held.progress.tolist())
        blobs = (*operands, *[None] * (6 - len(operands)), held.state, held.log)
        answer = self._call(b"s", numbers, *blobs)
        for part in (out, held.state, held.log):
            _fill(part, answer[: part.nbytes])
            answer = answer[part.nbytes :]

    def experts(self, x: Tensor, index: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        sizes = (*index.shape, x.shape[1], *weight.shape)
        out = x.new_empty((*index.shape, weight.shape[1]))
        _fill(out, self._call(b"e", sizes, x, index, weight, bias))
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
        out = given.new_empty((len(given), given.shape[1] + (not gated), hidden.shape[1]))
        sizes = (int(gated), *given.shape, hidden.shape[1], int(backwards))
        _fill(out, self._call(b"l", sizes, given, hidden, second, weight, scale))
        return out

    def _call(self, verb: bytes, numbers: tuple[float, ...], *blobs: Tensor | None) -> bytes:
        pipe, results = self.server.stdin, self.server.stdout
        assert pipe is not None and results is not None
        packed = (struct.pack("<d" if isinstance(number, float) else "<q", number) for number in numbers)
        pipe.write(verb + b"".join(packed) + b"".join(map(_blob, blobs)))
        pipe.flush()
        return results.read(_answer_bytes(verb, numbers, blobs))

    def close(self) -> None:
        self.server.communicate()


def _answer_bytes(verb: bytes, numbers: tuple[float, ...], blobs: tuple[Tensor | None, ...]) -> int:
    if verb == b"a":
        return int(numbers[0] * numbers[1] * numbers[8]) * 4
    if verb == b"e":
        return int(numbers[0] * numbers[1] * numbers[4]) * 4
    if verb == b"l":
        return int(numbers[1] * (numbers[2] + (numbers[0] == 0)) * numbers[4]) * 4
    if verb == b"s":
        assert blobs[6] is not None and blobs[7] is not None
        return int(numbers[9]) * 4 + blobs[6].nbytes + blobs[7].nbytes
    written = blobs[2:] if verb == b"w" else blobs[:1]
    return sum(blob.nbytes for blob in written if blob is not None)


def _numbers(cache: Tensor, grid: Tensor | None) -> tuple[int, int, int, int]:
    stored = Stored.of(cache, grid)
    return stored.kind, stored.heads, stored.width, stored.group


def _blob(tensor: Tensor | None) -> bytes:
    if tensor is None:
        return struct.pack("<q", -1)
    return struct.pack("<q", tensor.nbytes) + tensor.contiguous().view(torch.uint8).numpy().tobytes()


def _like(x: Tensor, content: bytes) -> Tensor:
    out = torch.empty_like(x)
    _fill(out, content)
    return out


def _fill(tensor: Tensor, content: bytes) -> None:
    if tensor.numel() == 0:
        return
    tensor.copy_(torch.frombuffer(bytearray(content), dtype=tensor.dtype).reshape(tensor.shape))


def emulated_kernels() -> EmulatedKernels:
    """Start them."""
    runtime, program = build_runner(abi=ARM64).folder, compiled("kernel_server", ARM64)
    line = [str(find_emulator()), "-cpu", CPU, str(runtime / LOADER), "--library-path", str(runtime), str(program)]
    return EmulatedKernels(subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE))
