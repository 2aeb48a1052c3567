"""ExecuTorch's own Python binding in this process: its kernels, its threads, its loaded methods.

``executorch.runtime`` and ``portable_lib`` import the whole exporter (4 s here). This module takes the same extension,
``executorch.extension.pybindings._C``, directly; the dependency is pinned to one version, so the name is stable.
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

from edgec.errors import ToolError

KERNEL_LIBRARIES = ("kernels/quantized/*quantized_ops_aot_lib.*", "extension/llm/custom_ops/*custom_ops_aot_lib.*")


@dataclass
class Binding:
    """ExecuTorch's binding in this process: its methods run one at a time, and not while the pool changes.

    Attributes:
        turn: held while a method runs or the pool changes.
        pools: how many pools were replaced before this one.
    """

    turn: threading.RLock = field(default_factory=threading.RLock)
    pools: int = 0


binding = Binding()


@contextmanager
def captured_stderr() -> Iterator[Callable[[], str]]:
    """Hold back what native code writes to file descriptor 2; the yielded function reads it.

    The runtime logs CPU probing there on every start, which is noise, and the reason of a failure, which is not.
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
    result: ModuleType = _C
    return result


def _no_runtime(why: str) -> ToolError:
    return ToolError(
        "The ExecuTorch runtime is not available.",
        where="executorch",
        why=why,
        fix="run 'edgec doctor'; install with: pip install executorch==1.5.1",
        code="E301",
    )
