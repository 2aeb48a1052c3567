"""A CMake project configured and compiled with Ninja, file by file."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from edgec.errors import ToolError

JOBS = 2
_STATUS = re.compile(r"\[(\d+)/\d+\] ")
_OBJECT = re.compile(r"FAILED: (?:\[code=\d+\] )?\S*?\.dir/(\S+)\.o\b")
_LOG_LINES = 12
# Of a shell's CXXFLAGS, LDFLAGS and the like nothing gets into a build that is kept under a key.
_CLEAN = ("CMAKE_BUILD_TYPE", "CMAKE_CXX_FLAGS", "CMAKE_SHARED_LINKER_FLAGS", "CMAKE_EXE_LINKER_FLAGS")


def find_tool(name: str) -> Path:
    """The path of ``cmake`` or ``ninja``: of this Python environment, which installs them with edgec, else on the path.

    Raises:
        ToolError: E311, there is none.
    """
    own = str(Path(sys.executable).parent)
    found = shutil.which(name, path=os.pathsep.join((own, os.environ.get("PATH", os.defpath))))
    if found is not None:
        return Path(found)
    raise ToolError(
        f"{name} is not installed.",
        where="PATH",
        why=f"looked for {name} in {own} and on the path; edgec's engine is compiled on this machine",
        fix=f"install it: pip install {name}",
        code="E311",
    )


@dataclass(frozen=True)
class CMakeProject:
    """A project and the folder that it is compiled in.

    Attributes:
        source: the folder of its ``CMakeLists.txt``.
        folder: where CMake writes.
        definitions: the values of its variables.
    """

    source: Path
    folder: Path
    definitions: Mapping[str, str]

    def configure(self) -> None:
        """Write the build's rules.

        Raises:
            ToolError: E311 CMake or Ninja is missing, E312 it failed.
        """
        values = {"CMAKE_MAKE_PROGRAM": str(find_tool("ninja")), **dict.fromkeys(_CLEAN, ""), **self.definitions}
        words = [f"-D{name}={value}" for name, value in values.items()]
        self._cmake("-G", "Ninja", "-S", str(self.source), "-B", str(self.folder), *words)

    def compile(self, compiled: Callable[[int, int], None], *targets: str) -> None:
        """Compile some targets, or all.

        Args:
            compiled: called before the first and after each source file, with how many are compiled and how many there
                are.
            targets: their names; none: all.

        Raises:
            ToolError: E312, the compiler failed.
        """
        files = len(json.loads((self.folder / "compile_commands.json").read_bytes()))
        line = [str(word) for word in (find_tool("ninja"), "-C", self.folder, f"-j{JOBS}", *targets)]
        environment = {**os.environ, "NINJA_STATUS": "[%f/%t] "}
        compiled(0, files)
        said: list[str] = []
        with subprocess.Popen(
            line, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", env=environment
        ) as process:
            assert process.stdout is not None
            for text in process.stdout:
                said.append(text)
                if (status := _STATUS.match(text)) is not None:
                    # Ninja counts the linker's calls as well.
                    compiled(min(int(status[1]), files), files)
        if process.returncode != 0:
            raise self._failure(said)

    def install(self, folder: Path) -> None:
        """Copy the libraries and programs into a folder.

        Raises:
            ToolError: E312, it failed.
        """
        self._cmake("--install", str(self.folder), "--prefix", str(folder))

    def _cmake(self, *words: str) -> None:
        done = subprocess.run([find_tool("cmake"), *words], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise failed(self.source, done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])

    def _failure(self, said: Sequence[str]) -> ToolError:
        """What the compiler said of the first file that failed: Ninja writes its name, the command and what it said."""
        first = next((at for at, text in enumerate(said) if text.startswith("FAILED: ")), None)
        if first is None:
            return failed(self.source, [text.rstrip() for text in said[-_LOG_LINES:]])
        found = _OBJECT.match(said[first])
        words = [text.rstrip() for text in said[first + 2 :] if not text.startswith(("ninja: ", "["))]
        return failed(self.source / found[1] if found else self.source, words)


def failed(where: Path, words: Sequence[str]) -> ToolError:
    """E312: what was compiled and what the compiler said."""
    return ToolError(
        "The engine could not be compiled.",
        where=str(where),
        why="\n".join(words[:_LOG_LINES]),
        fix="report it with the compiler's version; until then export with --kernels standard",
        code="E312",
    )
