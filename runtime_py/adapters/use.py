"""Give a session an adapter: opened, held against its bundle, and copied into the engine once for all sessions.

Artifacts of fixed shapes have functions of their own under each of their adapters, which are chosen by name.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable
from weakref import WeakKeyDictionary

from edgec.bundle.shipped_adapters import ShippedAdapter
from edgec.devices.simulators import simulator_elsewhere
from edgec.errors import InputError, ToolError
from edgec.runtime_py.adapters.adapter_file import Adapter, read_adapter
from edgec.runtime_py.engines.engine import EngineModel, EngineSession
from edgec.runtime_py.engines.engine_adapter import EngineAdapter
from edgec.runtime_py.engines.executor import Executor
from edgec.runtime_py.engines.open_artifact import artifact_digest

if TYPE_CHECKING:
    from edgec.bundle.folder import Bundle

UsedAdapter = Adapter | ShippedAdapter
"""What a session computes under: an adapter's file, or functions of the artifact."""


@runtime_checkable
class NamedFunctions(Protocol):
    """An executor whose artifact has functions under adapters."""

    def use_functions(self, adapter: str) -> None:
        """Execute the functions under an adapter from the next run on; empty: those of the model as it is."""


# Kept as long as the adapter itself: switching back copies nothing.
_in_engine: WeakKeyDictionary[Adapter, EngineAdapter] = WeakKeyDictionary()


def opened_adapter(adapter: UsedAdapter | Path | str, bundle: Bundle) -> UsedAdapter:
    """Open an adapter given as a path, or by its name in the artifact, and refuse one of another bundle.

    Raises:
        InputError: E695, its file is damaged; E696, it was made for another artifact; E767, the artifact has no
            functions under it, and takes no files.
    """
    if bundle.manifest.adapters or simulator_elsewhere(bundle.manifest):
        return _named(adapter, bundle)
    return _opened(adapter, bundle)


def _named(adapter: UsedAdapter | Path | str, bundle: Bundle) -> ShippedAdapter:
    known = {one.name: one for one in bundle.manifest.adapters}
    name = str(adapter) if isinstance(adapter, Path | str) else getattr(adapter, "name", repr(adapter))
    if name in known and (isinstance(adapter, Path | str) or adapter == known[name]):
        return known[name]
    names = ", ".join(known)
    raise InputError(
        f"The artifact has no functions under an adapter {name[:80]!r}.",
        where=str(bundle.path),
        why=f"it has them under {names}" if names else "it was exported without adapters, and takes no files of them",
        fix=f"use one of {names}" if names else "export it with --adapter NAME=PEFT_FOLDER",
        code="E767",
    )


def _opened(adapter: UsedAdapter | Path | str, bundle: Bundle) -> Adapter:
    if isinstance(adapter, ShippedAdapter):
        raise InputError(
            "The adapter belongs to another bundle.",
            where=repr(adapter),
            why=f"it is part of an artifact, and {bundle.path.name} has none",
            fix="make one for this bundle: edgec adapter BUNDLE PEFT_FOLDER",
            code="E696",
        )
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


def use_adapter(executor: Executor, adapter: UsedAdapter | None) -> None:
    """Let a session's executor add an adapter from its next run on; None: none.

    Raises:
        ToolError: E697, the executor is not edgec's engine.
        InputError: E157, the artifact lacks a matrix that the adapter changes.
    """
    if isinstance(executor, NamedFunctions):
        executor.use_functions(adapter.name if isinstance(adapter, ShippedAdapter) else "")
        return
    if not isinstance(executor, EngineSession):
        raise ToolError(
            "Adapters need edgec's engine.",
            where=type(executor).__name__,
            why="only its kernels add low-rank changes to matrices",
            fix="install a C++ compiler; edgec doctor says what is missing",
            code="E697",
        )
    assert not isinstance(adapter, ShippedAdapter)  # refused: this executor's artifact has none
    executor.use_adapter(None if adapter is None else _engine_adapter(executor.model, adapter).handle)


def _engine_adapter(model: EngineModel, adapter: Adapter) -> EngineAdapter:
    """The engine's copy for all sessions that have this adapter, also where each opened the file by itself."""
    copies = (copy for one, copy in list(_in_engine.items()) if one.digest == adapter.digest and copy.model is model)
    known = next(copies, None) or EngineAdapter(model, adapter.changes)
    _in_engine[adapter] = known
    return known
