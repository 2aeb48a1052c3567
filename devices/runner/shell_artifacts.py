"""The artifacts that a program in a device's shell can execute; all others need an app."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgec.errors import InputError

if TYPE_CHECKING:
    from edgec.bundle.manifest import Manifest

SHELL_BACKENDS = frozenset({"XnnpackBackend"})
# By the beginning of a backend's name: why it cannot run there, and what to do instead.
_APP = "edgec embed BUNDLE --platform android writes an app with a bench activity that gives the same records"
_DRIVERS = "it needs {}, whose drivers a program in the phone's shell cannot load", _APP
_APPLE = "it needs {}, which only Apple's systems have", "measure it on an iPhone: --device ios:UDID"
_OTHER = "it needs {}, and the runner executes ExecuTorch programs for the CPU", _APP
_REASONS = {"qnn": _DRIVERS, "vulkan": _DRIVERS, "coreml": _APPLE, "coreai": _APPLE}


def check_shell_artifact(manifest: Manifest, where: str) -> None:
    """Refuse what the runner cannot execute.

    The runner is a program against glibc, so it cannot load a phone's GPU and NPU drivers, which are made for Android's
    own C library.

    Raises:
        InputError: E551, the artifact needs an app; E155, the model is not a decoder.
    """
    foreign = sorted(set(manifest.runtime.backends) - SHELL_BACKENDS)
    if foreign:
        why, fix = next((_REASONS[name] for name in _REASONS if foreign[0].lower().startswith(name)), _OTHER)
        what = f"{manifest.name} can only be measured in an app."
        raise InputError(what, where, why.format(", ".join(foreign)), fix, "E551")
    if manifest.limits is None:
        raise InputError(
            "Only decoders can be measured on a device.", where, fix="measure a language model's bundle", code="E155"
        )
