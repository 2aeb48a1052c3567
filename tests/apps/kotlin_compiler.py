"""The Kotlin compiler of kotlin-jupyter-kernel, where it is installed."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import pytest

STAND_INS = Path(__file__).parent / "kotlin_stand_ins"


def _jars() -> list[Path]:
    spec = find_spec("run_kotlin_kernel")
    return sorted(Path(next(iter(spec.submodule_search_locations or []))).glob("jars/*.jar")) if spec else []


WITH_KOTLIN = pytest.mark.skipif(
    not _jars() or shutil.which("java") is None, reason="needs kotlin-jupyter-kernel and java"
)


def compiled(sources: Sequence[Path], out: Path, real: str | None = None) -> str:
    """Compile to class files; returns the class path that runs them.

    Args:
        sources: Kotlin files.
        out: folder for the class files.
        real: ExecuTorch's own classes, in front of everything.
    """
    jars = os.pathsep.join(map(str, [*([real] if real else []), *_jars()]))
    line = ["java", "-XX:TieredStopAtLevel=1", "-Xmx1g", "-cp", jars, "org.jetbrains.kotlin.cli.jvm.K2JVMCompiler"]
    line += ["-no-stdlib", "-no-reflect", "-d", str(out), "-cp", jars, *map(str, sources)]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return os.pathsep.join([str(out), *_resources(sources), jars])


def _resources(sources: Sequence[Path]) -> list[str]:
    """The folders of resources beside those of Kotlin sources, as a module has them."""
    modules = {parent.parent for path in sources for parent in path.parents if parent.name == "kotlin"}
    return [str(module / "resources") for module in sorted(modules) if (module / "resources").is_dir()]
