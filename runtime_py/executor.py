"""Which engine executes an artifact: edgec's own where it can be compiled, else ExecuTorch's Python binding.

Both run the same ExecuTorch with the same kernels. edgec's maps packed weights, keeps several sequences on one model,
gives access to their state and needs no torch; the binding needs no compiler. An artifact with operators of edgec's
(``edgec::...``) needs the engine's library either way; one with operators of ExecuTorch's LLM library (``llama::...``)
needs that library, and with it torch. Bundles for units that this machine lacks are simulated (docs/interpreter.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from edgec.errors import ToolError

if TYPE_CHECKING:
    from edgec.exporter.bundle.folder import Bundle
    from edgec.runtime_py.engine import EngineModel

Array = NDArray[Any]
EngineName = Literal["edgec", "executorch", "simulated"]
OWN, STANDARD = "edgec::", "llama::"
# Delegates that only a phone executes: the backend that says so.
_NOWHERE = {"VulkanBackend": "edgec.backends.vulkan.pte", "QnnBackend": "edgec.backends.qnn_delegate.pte"}


class Executor(Protocol):
    """One loaded method with its state."""

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """Execute with arrays; the outputs are the caller's."""

    @property
    def state(self) -> NDArray[np.uint8] | None:
        """The state in place, uint8 [bytes]; None where it is out of reach."""


def engine_for(bundle: Bundle, wanted: EngineName | None = None) -> EngineName:
    """Decide what executes a bundle, and load its libraries. Raises as ``choose_engine``; E588 or E597: phones only."""
    from edgec.runtime_py.simulated import simulator_of

    manifest = bundle.manifest
    nowhere = next((_NOWHERE[name] for name in manifest.runtime.backends if name in _NOWHERE), None)
    if nowhere is not None:
        from edgec.backends.static_artifact import backend_of

        backend_of(nowhere).execute(bundle.path)
    return "simulated" if simulator_of(manifest) else choose_engine(manifest.runtime.operators, wanted)


def open_artifact(bundle: Bundle, engine: EngineName, method: str = "forward") -> Executor:
    """Load a bundle's artifact. Raises as ``open_executor`` and ``open_simulated``."""
    if engine == "simulated":
        from edgec.runtime_py.simulated import open_simulated

        return open_simulated(bundle)
    return open_executor(engine, bundle.artifact_path, method, artifact_digest(bundle))


def use_threads(engine: EngineName, threads: int | None) -> int:
    """Set the threads that compute (None leaves them); returns how many there are.

    Raises:
        InputError: E156, ``threads`` is below 1.
    """
    from edgec.runtime_py.native import set_threads
    from edgec.runtime_py.simulated import simulator_threads

    return simulator_threads(threads) if engine == "simulated" else set_threads(threads)


def choose_engine(operators: Sequence[str], wanted: EngineName | None = None) -> EngineName:
    """Decide which engine runs an artifact with these operators, and load its libraries (imports take a while).

    Args:
        operators: names as in the manifest, e.g. ``llama::custom_sdpa.out``.
        wanted: insist on one.

    Raises:
        ToolError: E311 or E312 when the engine is needed and cannot be compiled, E301 without ExecuTorch.
    """
    from edgec.runtime_py.engine import library
    from edgec.runtime_py.native import runtime

    own = any(name.startswith(OWN) for name in operators)
    if wanted == "executorch" or any(name.startswith(STANDARD) for name in operators):
        runtime()
    if wanted == "executorch" and not own:
        return "executorch"
    try:
        library()
    except ToolError:
        if own or wanted == "edgec":
            raise
        runtime()
        return "executorch"
    return wanted or "edgec"


def missing_engine() -> str:
    """Why edgec's engine cannot be had; empty where it can."""
    from edgec.runtime_py.engine import library

    try:
        library()
    except ToolError as error:
        return f"{error.what} {error.why}".strip()
    return ""


def open_executor(
    engine: EngineName, artifact: Path, method: str = "forward", digest: str | None = None, profile: bool = False
) -> Executor:
    """Load a method. Artifacts that are open already are shared: program and weights exist once.

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
    from edgec.runtime_py.native import BoundMethod

    return BoundMethod(artifact, method)


def artifact_digest(bundle: Bundle) -> str:
    """The sha256 (hex) of a bundle's artifact, from its manifest."""
    return next(file.sha256 for file in bundle.manifest.files if file.path == bundle.manifest.artifact)


_open_models: WeakValueDictionary[tuple[object, ...], EngineModel] = WeakValueDictionary()


def _shared_model(artifact: Path, method: str, digest: str | None) -> EngineModel:
    from edgec.runtime_py.engine import EngineModel
    from edgec.runtime_py.packed_cache import mark_used, packed_file

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
