"""edgec's own engine from Python: numpy in and out, no torch.

An engine model is an artifact with its packed weights; any number of sessions share it, each with its own state.
"""

from __future__ import annotations

import ctypes
import json
import os
import weakref
from collections.abc import Callable, Sequence
from ctypes import byref, c_int64, c_size_t
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgec.errors import InputError
from edgec.runtime_py.engines.engine_library import MAX_RANK, RawInfo, RawRun, RawTensor, library, told
from edgec.runtime_py.engines.executor import Array
from edgec.runtime_py.engines.instructions import require_known_isa

PACKED = ("in memory", "written", "mapped")
# ExecuTorch's ScalarType by numpy's name.
_DTYPES = {"uint8": 0, "int8": 1, "int16": 2, "int32": 3, "int64": 4, "float16": 5, "float32": 6, "bool": 11}
_NAMES = {code: np.dtype(name) for name, code in _DTYPES.items()}


def set_pool_threads(threads: int | None) -> int:
    """Set the size of ExecuTorch's thread pool (None leaves it); returns the size in force."""
    return int(library().edgec_threads(threads or 0))


@dataclass(frozen=True)
class EngineInfo:
    """The sizes and the load time of a model, all measured.

    Attributes:
        load_ms: program, packed weights and first session, wall.
        state_bytes: KV cache of one session, where the program keeps it separate.
        scratch_bytes: planned activations; shared by all sessions where the state is separate, else with the state.
        packed_bytes: size of the packed file, 0 without one.
        max_tokens: tokens per call of a decoder; 0 for other methods.
        max_rows: rows of logits per call of a decoder; 0 for other methods.
        packed: ``in memory``, ``written`` or ``mapped``.
        sessions: open now.
    """

    load_ms: float
    state_bytes: int
    scratch_bytes: int
    packed_bytes: int
    max_tokens: int
    max_rows: int
    packed: str
    sessions: int


@dataclass(frozen=True)
class Instruction:
    """One instruction of the program and the time it took: ``name`` is its operator, or ``delegate``."""

    chain: int
    index: int
    name: str
    calls: int
    total_ns: int


class EngineModel:
    """An artifact with its packed weights. Sessions may run in several threads; they take turns."""

    def __init__(self, artifact: Path, method: str = "", packed: Path | None = None) -> None:
        """Open an artifact.

        Args:
            artifact: the .pte file; it must not change while it is open.
            method: the entry point; empty: a decoder's forward_rows, or else forward.
            packed: file of packed weights, mapped when an earlier load left it, else written; with None, or where it
                cannot be written, weights are packed in memory.

        Raises:
            InputError: E157, the runtime refuses the artifact; E144, EDGEC_ISA names what this processor lacks.
            ToolError: see `library`.
        """
        require_known_isa()
        self.artifact = artifact
        arguments = (os.fsencode(artifact), method.encode(), os.fsencode(packed) if packed else None)
        self._handle = _checked(library().edgec_model_open, arguments, "loaded", artifact)
        self.close = weakref.finalize(self, library().edgec_model_close, self._handle)

    def session(self, profile: bool = False) -> EngineSession:
        """Open a new sequence with empty state; ``profile``: time every instruction.

        Raises:
            InputError: E157.
        """
        return EngineSession(self, profile)

    def step(self, sessions: Sequence[EngineSession], inputs: Sequence[Sequence[Array]]) -> list[Array]:
        """Execute a decoder's method for several of its sessions in one call (``edgec_model_step`` of engine.h).

        Args:
            sessions: different ones of this model.
            inputs: of each session int64 tokens [S], positions [S] and rows [K]; K may be 0, but not for all.

        Returns:
            The outputs of all, rows of one session after the other's, as copies.

        Raises:
            InputError: E157, the inputs do not fit, a kernel failed, or the program serves one session at a time.
        """
        counts = [RawRun(one._handle, each[0].size, each[2].size) for one, each in zip(sessions, inputs, strict=True)]
        runs = (RawRun * len(sessions))(*counts)
        flat = [np.concatenate(each).astype(np.int64, copy=False) for each in zip(*inputs, strict=True)]
        addresses = [each.ctypes.data for each in flat]
        _complete(library().edgec_model_step, (self._handle, runs, len(runs), *addresses), "executed", self.artifact)
        return sessions[0].outputs()

    def open_adapter(self, changes: object, count: int) -> int:
        """The handle of an adapter for the model's sessions; ``engine_adapter.py`` makes the list of changes.

        Raises:
            InputError: E157.
        """
        return _checked(library().edgec_adapter_open, (self._handle, changes, count), "changed", self.artifact)

    @property
    def info(self) -> EngineInfo:
        """The model's sizes and load time."""
        raw = RawInfo()
        library().edgec_model_info(self._handle, byref(raw))
        fields = {name: getattr(raw, name) for name, *_ in RawInfo._fields_}
        load_ms = fields.pop("load_ns") / 1e6
        return EngineInfo(**fields | {"load_ms": load_ms, "packed": PACKED[raw.packed]})


class EngineSession:
    """One sequence on a model, for one thread at a time."""

    def __init__(self, model: EngineModel, profile: bool = False) -> None:
        self.model = model
        call = library().edgec_session_open
        self._handle = _checked(call, (model._handle, int(profile)), "loaded", model.artifact)
        # Holding the model keeps it open for as long as any session is.
        self.close = weakref.finalize(self, _close_session, self._handle, model)

    def use_adapter(self, handle: int | None) -> None:
        """Add an adapter's changes from the next run on; None: none.

        Raises:
            InputError: E157, it was opened for another model.
        """
        _complete(library().edgec_session_adapter, (self._handle, handle), "changed", self.model.artifact)

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """Execute the method.

        Args:
            inputs: one array per argument, of its dtype and shape.

        Returns:
            Its outputs, as copies.

        Raises:
            InputError: E157, the inputs do not fit, or a kernel failed.
        """
        self._execute(inputs)
        return self.outputs()

    def lend(self, inputs: Sequence[Array]) -> list[Array]:
        """Execute the method, as `run`; its outputs lie in the engine's memory, and change with the next call.

        They keep the session open; after `close` they must not be used.
        """
        self._execute(inputs)
        return self._lent()

    def _execute(self, inputs: Sequence[Array]) -> None:
        arrays = [np.ascontiguousarray(array) for array in inputs]
        tensors = (RawTensor * len(arrays))(*map(_tensor, arrays))
        _complete(library().edgec_session_run, (self._handle, tensors, len(arrays)), "executed", self.model.artifact)

    def outputs(self) -> list[Array]:
        """The outputs of the last call that this session executed, as copies."""
        return [output.copy() for output in self._lent()]

    def _lent(self) -> list[Array]:
        count = library().edgec_session_output_count(self._handle)
        return [self._output(index) for index in range(count)]

    def _output(self, index: int) -> Array:
        raw = RawTensor()
        library().edgec_session_output(self._handle, index, byref(raw))
        dtype, shape = _NAMES[raw.dtype], tuple(raw.sizes[: raw.rank])
        size = int(np.prod(shape)) * dtype.itemsize
        return _memory(raw.data, size, self).view(dtype).reshape(shape) if size else np.empty(shape, dtype)

    @property
    def state(self) -> NDArray[np.uint8] | None:
        """The session's state in place, uint8 [bytes], writable between runs; it must not be used after closing.

        None where the program does not keep it separate.
        """
        size = c_size_t()
        address = library().edgec_session_state(self._handle, byref(size))
        return _memory(address, size.value) if address else None

    def profile(self, reset: bool = False) -> tuple[Instruction, ...]:
        """Calls and nanoseconds (measured, wall) per instruction since the last reset; empty without ``profile``."""
        text = library().edgec_session_profile(self._handle)
        if reset:
            library().edgec_session_profile_reset(self._handle)
        rows = json.loads(text)["instructions"] if text else []
        return tuple(Instruction(**row) for row in rows)


def _memory(address: int, size: int, owner: object = None) -> NDArray[np.uint8]:
    """Memory as an array, which keeps its owner."""
    memory = (ctypes.c_uint8 * size).from_address(address)
    memory.owner = owner  # type: ignore[attr-defined]
    return np.ctypeslib.as_array(memory)


def _close_session(handle: int, model: EngineModel) -> None:
    del model
    library().edgec_session_close(handle)


def _tensor(array: Array) -> RawTensor:
    sizes = (c_int64 * MAX_RANK)(*array.shape)
    return RawTensor(array.ctypes.data, _DTYPES[array.dtype.name], array.ndim, sizes)


def _checked(call: Callable[..., int | None], arguments: tuple[Any, ...], verb: str, artifact: Path) -> int:
    handle, why = told(call, *arguments)
    if not handle:
        raise _refused(verb, artifact, why)
    return handle


def _complete(call: Callable[..., int], arguments: tuple[Any, ...], verb: str, artifact: Path) -> None:
    failed, why = told(call, *arguments)
    if failed:
        raise _refused(verb, artifact, why)


def _refused(verb: str, artifact: Path, why: str) -> InputError:
    return InputError(
        f"The artifact could not be {verb}.",
        where=str(artifact),
        why=why,
        fix="check the bundle with 'edgec verify' and this installation with 'edgec doctor'",
        code="E157",
    )
