"""ExecuTorch's own Python binding in this process: its kernels, its threads, its loaded methods.

``executorch.runtime`` and ``portable_lib`` import the whole exporter (4 s here). This module takes the same extension,
``executorch.extension.pybindings._C``, directly; the dependency is pinned to one version, so the name is stable.
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgec.errors import InputError, ToolError

Array = NDArray[Any]

MAX_THREADS = 1024
KERNEL_LIBRARIES = ("kernels/quantized/*quantized_ops_aot_lib.*", "extension/llm/custom_ops/*custom_ops_aot_lib.*")


@dataclass
class _Binding:
    """ExecuTorch's binding in this process: its methods run one at a time, and not while the pool changes.

    Attributes:
        turn: held by who runs a method or changes the pool.
        pools: how many pools there were before this one.
    """

    turn: threading.RLock = field(default_factory=threading.RLock)
    pools: int = 0


_binding = _Binding()


@contextmanager
def captured_stderr() -> Iterator[Callable[[], str]]:
    """Hold back what native code writes to file descriptor 2; the yielded function reads it.

    The runtime logs CPU probing there on every start and the reason of a failure: noise in one case, the cause in the
    other.
    """
    sys.stderr.flush()
    saved = os.dup(2)
    with tempfile.TemporaryFile() as log:
        os.dup2(log.fileno(), 2)
        try:
            yield lambda: os.pread(log.fileno(), 1 << 16, 0).decode(errors="replace").strip()
        finally:
            sys.stderr.flush()
            os.dup2(saved, 2)
            os.close(saved)


@lru_cache(maxsize=1)
def runtime() -> ModuleType:
    """The runtime's extension module with the quantised and the LLM kernels registered.

    Raises:
        ToolError: E301, ExecuTorch is not installed or cannot be loaded.
    """
    spec = find_spec("executorch")
    if spec is None or not spec.submodule_search_locations:
        raise _no_runtime("the package executorch is not installed")
    try:
        return _load(Path(next(iter(spec.submodule_search_locations))))
    except (ImportError, OSError) as cause:
        raise _no_runtime(str(cause)) from cause


def _load(package: Path) -> ModuleType:
    import torch
    from executorch.extension.pybindings import _C

    for pattern in KERNEL_LIBRARIES:
        for library in sorted(package.glob(pattern)):
            torch.ops.load_library(library)
    return _C


def _no_runtime(why: str) -> ToolError:
    return ToolError(
        "The ExecuTorch runtime is not available.",
        where="executorch",
        why=why,
        fix="run 'edgec doctor'; install with: pip install executorch==1.5.1",
        code="E301",
    )


def set_threads(threads: int | None) -> int:
    """Set the size of the process-wide thread pool (None leaves it); returns the size in force.

    Torch's own pool, where torch is loaded, gets the same size, also when a method is loaded: the wheel's attention
    kernel runs on both, and where they differ its barrier spins (on 2 busy cores a prefill of 128 tokens took 15 ms
    with 1 and 1 threads, 10 s with 1 and 2). Methods of edgec's engine follow a new pool, which comes as soon as none
    of them runs; those loaded by ExecuTorch's binding refuse to run afterwards.

    Raises:
        InputError: E156, ``threads`` is below 1 or above 1024.
    """
    if threads is not None and not 1 <= threads <= MAX_THREADS:
        raise InputError(
            f"{threads} threads were asked for.", where="--threads", fix=f"give 1 to {MAX_THREADS}", code="E156"
        )
    with _binding.turn:
        before, in_force = _pool_threads(None), _pool_threads(threads)
        _binding.pools += before != in_force
    if (torch := sys.modules.get("torch")) is not None:
        torch.set_num_threads(in_force)
    return in_force


def _pool_threads(threads: int | None) -> int:
    from edgec.runtime_py.executor import choose_engine

    if choose_engine(()) == "edgec":
        from edgec.runtime_py.engine import set_pool_threads

        return set_pool_threads(threads)
    with captured_stderr():
        if threads is not None:
            runtime()._unsafe_reset_threadpool(threads)
        return int(runtime()._threadpool_get_thread_count())


class BoundMethod:
    """A method loaded by ExecuTorch's Python binding: the way without a C++ compiler."""

    def __init__(self, artifact: Path, name: str = "forward") -> None:
        """Load ``name`` from ``artifact``; weights are packed for this CPU here, which dominates the load time.

        Raises:
            InputError: E157, the runtime refuses the artifact (corrupted, other version, or a missing kernel).
        """
        self.artifact = artifact
        module = runtime()
        set_threads(None)
        with _binding.turn, captured_stderr() as log:
            self._pool = _binding.pools
            try:
                self._program = module._load_program(str(artifact))
                self._method = self._program.load_method(name)
            except (RuntimeError, UnicodeError) as cause:
                raise _refused("loaded", artifact, cause, _with_missing_engine(log())) from cause

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """Execute with arrays; outputs are fresh copies.

        Raises:
            InputError: E157, the runtime refuses the inputs or fails inside a kernel (its log goes to stderr).
            ToolError: E315, the thread pool is another one than when the method was loaded.
        """
        import torch

        arrays = [torch.from_numpy(np.ascontiguousarray(array)) for array in inputs]
        with _binding.turn:
            if self._pool != _binding.pools:
                raise _other_pool(self.artifact)
            try:
                outputs = self._method(arrays)
            except RuntimeError as cause:
                raise _refused("executed", self.artifact, cause, "") from cause
        return [output.numpy() for output in outputs]

    @property
    def state(self) -> None:
        """Out of reach."""
        return None


def _with_missing_engine(log: str) -> str:
    from edgec.runtime_py.executor import missing_engine

    missing = missing_engine()
    return f"{log}\nedgec's engine, which some artifacts need, is absent: {missing}" if missing else log


class Method:
    """One loaded method of an artifact, called with torch tensors."""

    def __init__(self, artifact: Path, name: str = "forward") -> None:
        """Load ``name`` from ``artifact``, whatever operators it has; weights are packed in memory.

        Raises:
            InputError: E157, the runtime refuses the artifact (corrupted, other version, or a missing kernel).
        """
        from edgec.runtime_py.executor import choose_engine, open_executor

        runtime()
        engine = choose_engine(())
        set_threads(None)
        self._executor = open_executor(engine, artifact, name)

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        """Execute with torch tensors; outputs are fresh copies.

        Raises:
            InputError: E157, the runtime refuses the inputs or fails inside a kernel.
        """
        import torch

        outputs = self._executor.run([tensor.numpy() for tensor in inputs])
        return [torch.from_numpy(output) for output in outputs]


def _other_pool(artifact: Path) -> ToolError:
    return ToolError(
        "The thread pool was replaced after this artifact was loaded.",
        where=str(artifact),
        why="ExecuTorch's Python binding keeps the pool that it found; edgec's engine follows a new one",
        fix="load the bundle again, or install a C++ compiler for edgec's engine",
        code="E315",
    )


def _refused(verb: str, artifact: Path, cause: Exception, log: str) -> InputError:
    return InputError(
        f"The artifact could not be {verb}.",
        where=str(artifact),
        why="; ".join(part for part in (str(cause), *log.splitlines()[-2:]) if part),
        fix="check the bundle with 'edgec verify' and this installation with 'edgec doctor'",
        code="E157",
    )
