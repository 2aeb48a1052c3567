"""Which engine executes an artifact: edgec's own where it can be compiled, else ExecuTorch's Python binding.

Both run the same ExecuTorch with the same kernels. edgec's maps packed weights, keeps several sequences on one model,
gives access to their state and needs no torch; the binding needs no compiler. An artifact with edgec's operators
(``edgec::...``) needs the engine's library either way; one with operators of ExecuTorch's LLM library (``llama::...``)
needs that library, and with it torch. What is made for Apple's chips a Mac executes itself; bundles for units that a
machine lacks are simulated (docs/iphone.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from edgec.devices.simulators import mac_runtime_of, simulator_of
from edgec.errors import ToolError
from edgec.runtime_py.engines.engine_library import library
from edgec.runtime_py.engines.executor import EngineName
from edgec.runtime_py.engines.executorch_binding import runtime

if TYPE_CHECKING:
    from edgec.bundle.folder import Bundle

OWN, STANDARD = "edgec::", "llama::"
# What only a phone or another program executes, and the backend whose ``execute`` says so.
_NOWHERE = {
    "VulkanBackend": "edgec.backends.vulkan.pte",
    "QnnBackend": "edgec.backends.qnn_delegate.pte",
    "llama.cpp": "edgec.backends.gguf.file",
}


def engine_for(bundle: Bundle, wanted: EngineName | None = None) -> EngineName:
    """Decide what executes a bundle, and load its libraries.

    Raises:
        ToolError: E588 or E597, only a phone executes it; E824, another program; else as ``choose_engine``.
    """
    manifest = bundle.manifest
    nowhere = next((_NOWHERE[name] for name in manifest.runtime.backends if name in _NOWHERE), None)
    if nowhere is not None:
        # Imports torch.
        from edgec.backends.static_artifact import backend_of

        backend_of(nowhere).execute(bundle.path)
    if mac_runtime_of(manifest):
        return "apple"
    return "simulated" if simulator_of(manifest) else choose_engine(manifest.runtime.operators, wanted)


def choose_engine(operators: Sequence[str], wanted: EngineName | None = None) -> EngineName:
    """Decide which engine runs an artifact with these operators, and load its libraries (imports take a while).

    Args:
        operators: names as in the manifest, e.g. ``llama::custom_sdpa.out``.
        wanted: insist on one.

    Raises:
        ToolError: E311 or E312 when the engine is needed and cannot be compiled, E301 without ExecuTorch.
    """
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
    """Why edgec's engine is not available; empty where it is."""
    error = engine_error()
    return f"{error.what} {error.why}".strip() if error else ""


def engine_error() -> ToolError | None:
    """The error with which edgec's engine refuses to be compiled or loaded; None where it is available."""
    try:
        library()
    except ToolError as error:
        return error
    return None
