"""Which engine executes an artifact: edgec's own where it can be compiled, else ExecuTorch's Python binding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from edgec.errors import ToolError

if TYPE_CHECKING:
    from edgec.bundle.folder import Bundle
from edgec.runtime_py.engines.executor import EngineName

OWN, STANDARD = "edgec::", "llama::"
# Delegates that only a phone executes: the backend that says so.
_NOWHERE = {"VulkanBackend": "edgec.backends.vulkan.pte", "QnnBackend": "edgec.backends.qnn_delegate.pte"}


def engine_for(bundle: Bundle, wanted: EngineName | None = None) -> EngineName:
    """Decide what executes a bundle, and load its libraries. Raises as ``choose_engine``; E588 or E597: phones only."""
    from edgec.devices.simulators import simulator_of

    manifest = bundle.manifest
    nowhere = next((_NOWHERE[name] for name in manifest.runtime.backends if name in _NOWHERE), None)
    if nowhere is not None:
        from edgec.backends.static_artifact import backend_of

        backend_of(nowhere).execute(bundle.path)
    return "simulated" if simulator_of(manifest) else choose_engine(manifest.runtime.operators, wanted)


def choose_engine(operators: Sequence[str], wanted: EngineName | None = None) -> EngineName:
    """Decide which engine runs an artifact with these operators, and load its libraries (imports take a while).

    Args:
        operators: names as in the manifest, e.g. ``llama::custom_sdpa.out``.
        wanted: insist on one.

    Raises:
        ToolError: E311 or E312 when the engine is needed and cannot be compiled, E301 without ExecuTorch.
    """
    from edgec.runtime_py.engines.engine import library
    from edgec.runtime_py.engines.native import runtime

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
    from edgec.runtime_py.engines.engine import library

    try:
        library()
    except ToolError as error:
        return f"{error.what} {error.why}".strip()
    return ""
