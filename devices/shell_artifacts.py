"""Which artifacts a program of its own can execute on a device; the others need an app."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgec.errors import InputError

if TYPE_CHECKING:
    from edgec.exporter.bundle.manifest import Manifest

SHELL_BACKENDS = frozenset({"XnnpackBackend"})


def check_shell_artifact(manifest: Manifest, where: str) -> None:
    """Refuse what the runner cannot execute.

    The runner is a program against glibc, so it cannot load a phone's GPU and NPU drivers, which are made for Android's
    own C library.

    Raises:
        InputError: E551, the artifact needs an app; E155, the model is no decoder.
    """
    foreign = sorted(set(manifest.runtime.backends) - SHELL_BACKENDS)
    if foreign:
        raise InputError(
            f"{manifest.name} can only be measured in an app.",
            where=where,
            why=f"it needs {', '.join(foreign)}, whose drivers a program in the phone's shell cannot load",
            fix="edgec embed BUNDLE --platform android writes an app with a bench activity that gives the same records",
            code="E551",
        )
    if manifest.limits is None:
        raise InputError(
            "Only decoders can be measured on a device.", where, fix="measure a language model's bundle", code="E155"
        )
