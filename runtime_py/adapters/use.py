"""Give a session an adapter: opened, held against its bundle, and copied into the engine once for all sessions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from edgec.errors import InputError, ToolError
from edgec.runtime_py.adapters.adapter_file import Adapter, read_adapter
from edgec.runtime_py.engines.engine import EngineModel, EngineSession
from edgec.runtime_py.engines.engine_adapter import EngineAdapter
from edgec.runtime_py.engines.executor import Executor
from edgec.runtime_py.engines.open_artifact import artifact_digest

if TYPE_CHECKING:
    from edgec.bundle.folder import Bundle

# Kept as long as the adapter itself: switching back copies nothing.
_in_engine: WeakKeyDictionary[Adapter, EngineAdapter] = WeakKeyDictionary()


def opened_adapter(adapter: Adapter | Path | str, bundle: Bundle) -> Adapter:
    """Open an adapter given as a path, and refuse one of another bundle.

    Raises:
        InputError: E695, its file is damaged; E696, it was made for another artifact.
    """
    made = adapter if isinstance(adapter, Adapter) else read_adapter(Path(adapter))
    if made.base != artifact_digest(bundle):
        raise InputError(
            "The adapter belongs to another bundle.",
            where=repr(made) if isinstance(adapter, Adapter) else str(adapter),
            why=f"it was made for the artifact {made.base[:12]}, that of {bundle.path.name} is "
            f"{artifact_digest(bundle)[:12]}",
            fix="make one for this bundle: edgec adapter BUNDLE PEFT_FOLDER",
            code="E696",
        )
    return made


def use_adapter(executor: Executor, adapter: Adapter | None) -> None:
    """Let a session's executor add an adapter from its next run on; None: none.

    Raises:
        ToolError: E697, the executor is not edgec's engine.
        InputError: E157, the artifact lacks a matrix that the adapter changes.
    """
    if not isinstance(executor, EngineSession):
        raise ToolError(
            "Adapters need edgec's engine.",
            where=type(executor).__name__,
            why="only its kernels add low-rank changes to matrices",
            fix="install a C++ compiler; edgec doctor says what is missing",
            code="E697",
        )
    executor.use_adapter(None if adapter is None else _engine_adapter(executor.model, adapter).handle)


def _engine_adapter(model: EngineModel, adapter: Adapter) -> EngineAdapter:
    """The engine's copy for all sessions that have this adapter, also where each opened the file by itself."""
    copies = (copy for one, copy in list(_in_engine.items()) if one.digest == adapter.digest and copy.model is model)
    known = next(copies, None) or EngineAdapter(model, adapter.changes)
    _in_engine[adapter] = known
    return known
