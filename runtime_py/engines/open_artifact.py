"""Loads an artifact into an engine; artifacts that are open already are shared."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from edgec.runtime_py.engines.bound_method import BoundMethod
from edgec.runtime_py.engines.engine import EngineModel
from edgec.runtime_py.engines.executor import EngineName, Executor
from edgec.runtime_py.engines.packed_cache import mark_used, packed_file
from edgec.runtime_py.engines.simulated import open_simulated

if TYPE_CHECKING:
    from edgec.bundle.folder import Bundle


def open_artifact(bundle: Bundle, engine: EngineName, method: str = "forward") -> Executor:
    """Load a bundle's artifact. Raises as ``open_executor`` and ``open_simulated``."""
    if engine == "simulated":
        return open_simulated(bundle)
    return open_executor(engine, bundle.artifact_path, method, artifact_digest(bundle))


def open_executor(
    engine: EngineName, artifact: Path, method: str = "forward", digest: str | None = None, profile: bool = False
) -> Executor:
    """Load a method; artifacts that are open already are shared, so that program and weights exist once.

    Args:
        engine: see `choose_engine`.
        artifact: the .pte file.
        method: the entry point.
        digest: sha256 of the artifact, under which packed weights are kept; None: packed in memory.
        profile: time every instruction (edgec's engine only).

    Raises:
        InputError: E157, the runtime refuses the artifact.
    """
    if engine == "edgec":
        return _shared_model(artifact, method, digest).session(profile)
    return BoundMethod(artifact, method)


def artifact_digest(bundle: Bundle) -> str:
    """The sha256 (hex) of a bundle's artifact, from its manifest."""
    return next(file.sha256 for file in bundle.manifest.files if file.path == bundle.manifest.artifact)


_open_models: WeakValueDictionary[tuple[object, ...], EngineModel] = WeakValueDictionary()


def _shared_model(artifact: Path, method: str, digest: str | None) -> EngineModel:
    key = (*_identity(artifact), method, digest)
    model = _open_models.get(key)
    if model is None:
        packed = packed_file(digest) if digest else None
        model = _open_models[key] = EngineModel(artifact, method, packed)
        if packed is not None and model.info.packed_bytes:
            mark_used(packed)
    return model


def _identity(artifact: Path) -> tuple[object, ...]:
    try:
        status = artifact.stat()
    except OSError:
        return (artifact,)
    return (artifact.resolve(), status.st_ino, status.st_size, status.st_mtime_ns)
