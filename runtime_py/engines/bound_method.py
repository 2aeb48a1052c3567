"""The executor that needs no C++ compiler: a method loaded by ExecuTorch's Python binding."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from edgec.bundle.entry_points import called_method
from edgec.errors import InputError, ToolError
from edgec.runtime_py.engines.choice import missing_engine
from edgec.runtime_py.engines.executor import Array
from edgec.runtime_py.engines.executorch_binding import binding, captured_stderr, runtime
from edgec.runtime_py.engines.threads import set_threads


class BoundMethod:
    """A method loaded by ExecuTorch's Python binding, which needs no C++ compiler."""

    def __init__(self, artifact: Path, name: str = "") -> None:
        """Load ``name`` from ``artifact``, or what edgec calls of a decoder.

        Weights are packed for this CPU here, which dominates the load time.

        Raises:
            InputError: E157, the runtime refuses the artifact (corrupted, other version, or a missing kernel).
        """
        self.artifact = artifact
        module = runtime()
        set_threads(None)
        with binding.turn, captured_stderr() as log:
            self._pool = binding.pools
            try:
                self._program = module._load_program(str(artifact))
                self._method = self._program.load_method(name or _called(self._program))
            except (RuntimeError, UnicodeError) as cause:
                raise _refused("loaded", artifact, cause, _with_missing_engine(log())) from cause

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """Execute with arrays; outputs are fresh copies.

        Raises:
            InputError: E157, the runtime refuses the inputs or fails inside a kernel (its log goes to stderr).
            ToolError: E315, the thread pool was replaced after the method was loaded.
        """
        import torch

        arrays = [torch.from_numpy(np.ascontiguousarray(array)) for array in inputs]
        with binding.turn:
            if self._pool != binding.pools:
                raise _other_pool(self.artifact)
            try:
                outputs = self._method(arrays)
            except RuntimeError as cause:
                raise _refused("executed", self.artifact, cause, "") from cause
        return [output.numpy() for output in outputs]

    lend = run

    @property
    def state(self) -> None:
        """None: the binding gives no access to it."""
        return None


def _called(program: Any) -> str:
    names = {program.get_method_name(index) for index in range(program.num_methods())}
    return called_method(names)


def _with_missing_engine(log: str) -> str:
    missing = missing_engine()
    return f"{log}\nedgec's engine, which some artifacts need, is absent: {missing}" if missing else log


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
