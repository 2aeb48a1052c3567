"""Swift 6 on Linux: Debian's compiler in a separate folder, and stand-ins for what only Apple's systems have.

The folder is made once by debootstrap (about 3.3 GB) and kept: `build/swift`, or what `EDGEC_SWIFT_ROOT` names. Every
call mounts what it needs in its own mount namespace, so that nothing stays mounted, whatever happens to it.
"""

from __future__ import annotations

import fcntl
import json
import os
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(os.environ.get("EDGEC_SWIFT_ROOT") or Path(__file__).parents[2] / "build" / "swift")
STAND_INS = Path(__file__).parent / "swift_stand_ins"
_MAKE = """
set -e
debootstrap --variant=minbase trixie {folder}
mount -t proc proc {folder}/proc
chroot {folder} apt-get install -qq -y --no-install-recommends \\
    swiftlang libc6-dev libstdc++-14-dev gcc binutils libcurl4-openssl-dev libxml2-dev
chroot {folder} apt-get clean
"""
# A module comes after those that it imports.
_MODULES = (
    "Darwin",
    "System",
    "Hub",
    "Tokenizers",
    "ExecuTorch",
    "CoreML",
    "CoreAI",
    "CryptoKit",
    "os",
    "BackgroundAssets",
    "FoundationModels",
    "UniformTypeIdentifiers",
    "SwiftUI",
    "PhotosUI",
    "AVFAudio",
    "UIKit",
    "CoreGraphics",
    "ImageIO",
    "Accelerate",
)
WORK = "/mnt"
"""Where the compiler's own root shows the caller's folder."""
# /proc is where the compiler finds itself; the caller's folder comes with the disks that are mounted below it.
_ENTER = f"""
mount -t proc proc "$1/proc" && mount --bind /dev "$1/dev" && mount --rbind "$2" "$1{WORK}" || exit 125
root=$1; shift 2; exec chroot "$root" /usr/bin/env -C {WORK} "$@"
"""


@dataclass(frozen=True)
class Swift:
    """The compiler; ``work`` is the folder that it sees as ``WORK``, with the stand-ins' modules in ``modules``."""

    work: Path

    def run(self, line: Sequence[str]) -> subprocess.CompletedProcess[str]:
        """Run a command over ``work``; paths are relative to it."""
        return _inside(self.work, line)

    def compile(self, module: str, sources: Sequence[Path], headers: Sequence[Path] = ()) -> str:
        """The compiler's messages about sources in language mode 6; empty where all is well.

        Args:
            module: the name of what is compiled.
            sources: inside ``work``.
            headers: folders with modules in C.
        """
        line = [*_compiler(module, "6"), "-Xfrontend", "-import-module", "-Xfrontend", "Darwin"]
        line += [word for folder in headers for word in ("-I", str(folder.relative_to(self.work)))]
        done = self.run([*line, *(str(path.relative_to(self.work)) for path in sources)])
        return done.stdout + done.stderr or ("" if done.returncode == 0 else f"exit code {done.returncode}")

    def wrote(self, folder: str, modules: Sequence[str], file: str, seconds: int, *options: str) -> Any:
        """The JSON that a program of compiled modules wrote; it is linked, and runs, in a folder of ``work``.

        Args:
            folder: its name; the program's home is in it.
            modules: that were compiled.
            file: that the program writes.
            seconds: that it may run.
            options: of the linker.
        """
        # Only SwiftPM makes `Bundle.module`: here it is the program's own folder.
        for facts in (self.work / folder).glob("kit/Sources/*/Resources/facts.json"):
            shutil.copy(facts, self.work / folder)
        linked = self.run(["swiftc", *(f"modules/{name}.o" for name in modules), *options, "-o", f"{folder}/run"])
        assert linked.returncode == 0, linked.stderr
        done = self.run(["env", "-C", folder, f"HOME={WORK}/{folder}/home", "timeout", str(seconds), "./run"])
        assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
        return json.loads((self.work / folder / file).read_text())


def _compiler(module: str, mode: str) -> list[str]:
    """The compiler's command line, to object code and a module, since isolation is checked long after types."""
    line = [
        "swiftc",
        "-c",
        "-wmo",
        "-parse-as-library",
        "-I",
        "modules",
        "-swift-version",
        mode,
        "-module-name",
        module,
    ]
    return [*line, "-emit-module", "-emit-module-path", f"modules/{module}.swiftmodule", "-o", f"modules/{module}.o"]


def stand_in_modules(work: Path) -> Swift:
    """Compile the stand-ins into ``work``, in mode 5 like libraries that are not made for mode 6."""
    shutil.copytree(STAND_INS, work / "stand_ins")
    (work / "modules").mkdir()
    swift = Swift(work)
    for module in _MODULES:
        done = swift.run([*_compiler(module, "5"), f"stand_ins/{module}.swift"])
        assert done.returncode == 0, done.stderr
    return swift


def inside(work: Path, line: Sequence[str]) -> list[str]:
    """The command that runs a line in the compiler's root, which sees ``work`` as ``WORK``."""
    return ["unshare", "--mount", "sh", "-c", _ENTER, "enter", str(ROOT), str(work), *line]


def _inside(work: Path, line: Sequence[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(inside(work, line), capture_output=True, text=True, check=False)


@cache
def missing() -> str | None:
    """Install the compiler where possible; why there is none on this machine, or None where it runs."""
    if os.geteuid() != 0:
        return "chroot needs root"
    absent = [tool for tool in ("unshare", "chroot") if shutil.which(tool) is None]
    if absent:
        return f"{absent[0]} is not installed"
    ROOT.parent.mkdir(parents=True, exist_ok=True)
    with (ROOT.parent / f"{ROOT.name}.lock").open("w") as lock:
        # Several test processes may want it at once; one makes it.
        fcntl.flock(lock, fcntl.LOCK_EX)
        return (None if ROOT.is_dir() else _make()) or _unable()


def _unable() -> str | None:
    done = _inside(STAND_INS, ["swiftc", "--version"])
    return None if done.returncode == 0 else f"no compiler runs in {ROOT}: {_last(done)}"


def _last(done: subprocess.CompletedProcess[str]) -> str:
    return ((done.stdout + done.stderr).strip().splitlines() or ["no word"])[-1]


def _make() -> str | None:
    if shutil.which("debootstrap") is None:
        return "debootstrap is not installed"
    fresh = ROOT.with_name(f"{ROOT.name}.partial")
    shutil.rmtree(fresh, ignore_errors=True)
    script = _MAKE.format(folder=shlex.quote(str(fresh)))
    done = subprocess.run(["unshare", "--mount", "sh", "-c", script], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return f"debootstrap fails: {_last(done)}"
    fresh.rename(ROOT)
    return None
