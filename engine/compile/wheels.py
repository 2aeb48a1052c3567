"""``python -m edgec.engine.compile.wheels``: edgec's wheel for each system, with the engine compiled inside.

The wheel that pip makes of the sources runs everywhere and compiles the engine on first use. Each of these is that
wheel with the engine in ``edgec/engine/built``, under a tag that says which system it is for. All are made on Linux.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from edgec.engine.compile.abi import LINUX_ARM64, LINUX_X86_64_V3, MACOS_ARM64, Abi
from edgec.engine.compile.build import build_runner, find_toolchain
from edgec.engine.compile.shipped import BUILT
from edgec.engine.compile.wheel_check import check_wheel
from edgec.errors import EdgecError, InputError, ToolError
from edgec.installation import install_command

ROOT: Final = Path(__file__).resolve().parents[2]
_INSIDE: Final = Path("edgec", "engine", BUILT)


@dataclass(frozen=True)
class WheelKind:
    """One of edgec's wheels.

    Attributes:
        name: as given to the command.
        platform: the platform tag.
        abis: the engines inside, one for each class of processors.
    """

    name: str
    platform: str
    abis: tuple[Abi, ...]


KINDS: Final = (
    WheelKind("macos-arm64", "macosx_14_0_arm64", (MACOS_ARM64,)),
    WheelKind("linux-arm64", "manylinux_2_35_aarch64", (LINUX_ARM64,)),
    WheelKind("linux-x86-64", "manylinux_2_35_x86_64", (LINUX_X86_64_V3,)),
)


def make_wheels(kinds: Sequence[WheelKind], out: Path, say: Callable[[str], None] = print) -> list[Path]:
    """Make and check the wheels of ``kinds``, each in ``out``.

    Raises:
        ToolError: E311, E312, E571, the engine cannot be compiled; E886, the plain wheel cannot be made.
        InputError: E887, a wheel would not run on its system.
    """
    out.mkdir(parents=True, exist_ok=True)
    made = []
    with TemporaryDirectory() as scratch:
        plain = _plain_wheel(Path(scratch))
        for kind in kinds:
            engines = {abi: build_runner(abi=abi, announce=say).folder for abi in kind.abis}
            wheel = pack_engines(plain, kind.platform, {abi.name: folder for abi, folder in engines.items()}, out)
            for abi in kind.abis:
                check_wheel(wheel, abi, find_toolchain(abi).executorch)
            say(f"{wheel} ({wheel.stat().st_size:,} bytes)")
            made.append(wheel)
    return made


def pack_engines(plain: Path, platform: str, engines: dict[str, Path], out: Path) -> Path:
    """A copy of the wheel ``plain`` with compiled engines inside, named for a platform.

    Args:
        plain: the wheel for every system.
        platform: its tag.
        engines: folders of compiled engines, by ABI.
        out: the folder to write to.
    """
    with TemporaryDirectory() as scratch:
        _wheel("unpack", str(plain), "--dest", scratch)
        (tree,) = Path(scratch).iterdir()
        for name, folder in engines.items():
            shutil.copytree(folder, tree / _INSIDE / name)
        (facts,) = tree.glob("*.dist-info/WHEEL")
        text = re.sub(r"^Root-Is-Purelib: .*$", "Root-Is-Purelib: false", facts.read_text(), flags=re.MULTILINE)
        facts.write_text(re.sub(r"^Tag: .*$", f"Tag: py3-none-{platform}", text, flags=re.MULTILINE))
        _wheel("pack", str(tree), "--dest-dir", str(out))
    return next(out.glob(f"{plain.name.partition('-py3-')[0]}-py3-none-{platform}.whl"))


def _plain_wheel(folder: Path) -> Path:
    # setuptools would pack what it copied there for an earlier wheel, deleted sources among it.
    shutil.rmtree(ROOT / "build" / "lib", ignore_errors=True)
    line = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", str(folder)]
    done = subprocess.run([*line, str(ROOT)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise _unmade(done.stderr)
    return next(folder.glob("edgec-*.whl"))


def _wheel(*words: str) -> None:
    done = subprocess.run([sys.executable, "-m", "wheel", *words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise _unmade(done.stderr)


def _unmade(said: str) -> ToolError:
    return ToolError(
        "edgec's wheel cannot be made.",
        where=str(ROOT),
        why=said.strip()[-400:],
        fix=f"call it from a checkout of edgec, after {install_command('wheels')}",
        code="E886",
    )


def main(words: Sequence[str] | None = None) -> int:
    """Make the wheels that the command line names; the exit status is the error's."""
    parser = argparse.ArgumentParser(prog="python -m edgec.engine.compile.wheels", description=__doc__)
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"{', '.join(each.name for each in KINDS)}; all")
    parser.add_argument("--out", type=Path, default=Path("build", "wheels"))
    given = parser.parse_args(words)
    try:
        make_wheels(kinds_named(given.kinds), given.out)
    except EdgecError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


def kinds_named(names: Sequence[str]) -> list[WheelKind]:
    """Look up kinds of wheels; no name stands for all.

    Raises:
        InputError: E888, there is no such kind.
    """
    known = {kind.name: kind for kind in KINDS}
    if unknown := [name for name in names if name not in known]:
        raise InputError(
            f"There is no wheel for {unknown[0]!r}.",
            where="KIND",
            why="ExecuTorch has wheels for these systems alone, and Windows' has no libraries to link with",
            fix=f"use one of: {', '.join(known)}",
            code="E888",
        )
    return [known[name] for name in names] or list(KINDS)


if __name__ == "__main__":
    sys.exit(main())
