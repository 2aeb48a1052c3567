"""Loads an artifact into an engine; artifacts that are open already are shared."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from edgec.bundle.entry_points import FORWARD
from edgec.runtime_py.engines.bound_method import BoundMethod
from edgec.runtime_py.engines.choice import choose_engine
from edgec.runtime_py.engines.engine import EngineModel
from edgec.runtime_py.engines.executor import BY_METHODS, EngineName, Executor
from edgec.runtime_py.engines.executorch_binding import runtime
from edgec.runtime_py.engines.packed_cache import mark_used, packed_file
from edgec.runtime_py.engines.simulated import open_simulated
from edgec.runtime_py.engines.threads import set_threads

if TYPE_CHECKING:
    from edgec.bundle.folder import Bundle


def open_artifact(bundle: Bundle, engine: EngineName, method: str = "") -> Executor:
    """Load a bundle's artifact. Raises as ``open_executor`` and ``open_simulated``."""
    if engine in BY_METHODS:
        return open_simulated(bundle, method, on_mac=engine == "apple")
    return open_executor(engine, bundle.artifact_path, method, artifact_digest(bundle))


def open_executor(
    engine: EngineName, artifact: Path, method: str = "", digest: str | None = None, profile: bool = False
) -> Executor:
    """Load a method; artifacts that are open already are shared, so that program and weights exist once.

    Args:
        engine: see `choose_engine`.
        artifact: the .pte file.
        method: the entry point; empty: a decoder's forward_rows, or else forward.
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
        packed = packed_file(_packed_digest(digest, method)) if digest else None
        model = _open_models[key] = EngineModel(artifact, method, packed)
        if packed is not None and model.info.packed_bytes:
            mark_used(packed)
    return model


def _packed_digest(digest: str, method: str) -> str:
    """The name of a method's packed weights: the artifact's sha256, or for a further method one made from it."""
    return digest if method in ("", FORWARD) else sha256(f"{digest} {method}".encode()).hexdigest()


def _identity(artifact: Path) -> tuple[object, ...]:
    try:
        status = artifact.stat()
    except OSError:
        return (artifact,)
    return (artifact.resolve(), status.st_ino, status.st_size, status.st_mtime_ns)


class TorchMethod:
    """One loaded method of an artifact, called with torch tensors."""

    def __init__(self, artifact: Path, name: str = "") -> None:
        """Load ``name`` from ``artifact``, or what edgec calls; weights are packed in memory.

        Raises:
            InputError: E157, the runtime refuses the artifact (corrupted, other version, or a missing kernel).
        """
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
