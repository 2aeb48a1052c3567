"""What travels to a device, and which artifacts a program on it can execute; the others need an app."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgec.bundle.delegates import ON_CPUS
from edgec.devices.runner.job import ADAPTER
from edgec.devices.transport import Say
from edgec.errors import InputError

if TYPE_CHECKING:
    from edgec.bundle.folder import Bundle
    from edgec.bundle.manifest import Manifest


@dataclass(frozen=True)
class RunnerPackage:
    """A runner that runs wherever its files are copied.

    Attributes:
        files: paths on this machine, by name in the device's folder.
        command: the command that starts it with that folder as the working directory.
    """

    files: Mapping[str, Path]
    command: tuple[str, ...]


def arm64_runner(say: Say) -> RunnerPackage:
    """The arm64 runner, built on first use.

    Raises:
        ToolError: E301, E311, E312, E571: it cannot be built.
    """
    from edgec.engine.compile.abi import ARM64
    from edgec.engine.compile.build import build_runner, start_line

    build = build_runner(announce=say, abi=ARM64)
    files = {path.name: path for path in build.files}
    return RunnerPackage(files, start_line(".", ARM64))


def job_files(job: Mapping[str, Any], bundle: Bundle) -> dict[str, Path]:
    """The files that the runner reads for a job, by name: the bundle's manifest and artifact, and the job's adapter."""
    names = ("manifest.json", bundle.manifest.artifact)
    added = {ADAPTER: Path(job["adapter"])} if job.get("adapter") else {}
    return {**{name: bundle.path / name for name in names}, **added}


# By the beginning of a backend's name: why it cannot run there, and what to do instead.
_APP = "edgec embed BUNDLE --platform android writes an app with a bench activity that gives the same records"
_DRIVERS = "it needs {}, whose drivers a program in the phone's shell cannot load", _APP
_APPLE = "it needs {}, which only Apple's systems have", "measure it on an iPhone: --device ios:UDID"
_OTHER = "it needs {}, and the runner executes ExecuTorch programs for the CPU", _APP
_REASONS = {"qnn": _DRIVERS, "vulkan": _DRIVERS, "coreml": _APPLE, "coreai": _APPLE, "mlx": _APPLE}


def check_shell_artifact(manifest: Manifest, where: str) -> None:
    """Refuse what the runner cannot execute.

    The runner is a program against glibc, so it cannot load a phone's GPU and NPU drivers, which are made for Android's
    own C library.

    Raises:
        InputError: E551, the artifact needs an app; E155, the model is not a decoder.
    """
    foreign = sorted(set(manifest.runtime.backends) - ON_CPUS)
    if foreign:
        why, fix = next((_REASONS[name] for name in _REASONS if foreign[0].lower().startswith(name)), _OTHER)
        what = f"{manifest.name} can only be measured in an app."
        raise InputError(what, where, why.format(", ".join(foreign)), fix, "E551")
    if manifest.limits is None:
        raise InputError(
            "Only decoders can be measured on a device.", where, fix="measure a language model's bundle", code="E155"
        )
