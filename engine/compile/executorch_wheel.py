"""ExecuTorch's libraries and headers for another processor, taken from its wheel on the package index."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from contextlib import suppress
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory

from edgec.bundle.atomic import NameTaken, new_folder
from edgec.engine.compile.abi import Abi
from edgec.errors import ToolError

WANTED = (("executorch", "include"), ("executorch", "lib"))
PYTHON = "3.11"  # The libraries do not depend on Python; one wheel per version exists, and this one always does.


def unpack_wheel(abi: Abi, version: str, folder: Path, wheel: Path | None = None) -> Path:
    """The folder ``executorch`` of the wheel for ``abi``, unpacked under ``folder`` on first use.

    Args:
        abi: one with a ``wheel_platform``.
        version: ExecuTorch's version.
        folder: where unpacked wheels are kept.
        wheel: the wheel's file; None: downloaded with pip from the index that pip is set up for.

    Raises:
        ToolError: E571, the wheel cannot be downloaded, or the file is not of that version.
    """
    target = folder / f"executorch-{version}-{abi.wheel_platform}"
    if not target.exists():
        with TemporaryDirectory() as scratch, suppress(NameTaken), new_folder(target) as made:
            _unpack(wheel or _downloaded(abi, version, Path(scratch)), abi, version, made)
    return target / "executorch"


def _downloaded(abi: Abi, version: str, folder: Path) -> Path:
    line = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
    line += [f"--platform={abi.wheel_platform}", f"--python-version={PYTHON}", f"--dest={folder}"]
    done = subprocess.run([*line, f"executorch=={version}"], capture_output=True, text=True, check=False)
    wheel = next(folder.glob("executorch-*.whl"), None)
    if done.returncode != 0 or wheel is None:
        raise _unavailable(abi, f"executorch {version} for {abi.wheel_platform}", done.stderr.strip()[-400:])
    return wheel


def _unpack(wheel: Path, abi: Abi, version: str, folder: Path) -> None:
    platform = wheel.stem.rpartition("-")[2]
    fits = platform.endswith(abi.processor) and platform.startswith("macosx") == (abi.system == "Darwin")
    if not wheel.name.startswith(f"executorch-{version}-") or not fits:
        why = f"its name is not that of executorch {version} for {abi.system} on {abi.processor}"
        raise _unavailable(abi, str(wheel), why)
    try:
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder, [name for name in archive.namelist() if PurePosixPath(name).parts[:2] in WANTED])
    except (OSError, zipfile.BadZipFile) as error:
        raise _unavailable(abi, str(wheel), str(error)) from error


def _unavailable(abi: Abi, where: str, why: str) -> ToolError:
    return ToolError(
        f"ExecuTorch's libraries for {abi.name} are not available.",
        where=where,
        why=why or "pip found no such wheel",
        fix=f"go online once, or give the file with: edgec runner build --abi {abi.name} --wheel FILE.whl",
        code="E571",
    )
