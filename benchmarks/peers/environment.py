"""The peers' Python environment: pinned, built from source for this CPU, kept under build/bench/peers.

``EDGEC_BENCH_PEERS`` names an existing environment to use instead.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from benchmarks.harness.processes import run

REQUIREMENTS = ("llama-cpp-python==0.3.36", "gguf==0.19.0", "numpy==2.4.6", "safetensors==0.8.0")
_NATIVE = {"CMAKE_ARGS": "-DGGML_NATIVE=ON", "CMAKE_BUILD_PARALLEL_LEVEL": str(os.cpu_count() or 1)}
_STAMP = "installed.txt"


def peers_python(build: Path) -> Path:
    """The interpreter of the peers' environment; made on first use, which compiles llama.cpp for minutes.

    Raises:
        ProcessFailed: pip or the compiler failed.
    """
    given = os.environ.get("EDGEC_BENCH_PEERS")
    folder = Path(given) if given else build / "peers"
    python = folder / "bin" / "python"
    wanted, stamp = "\n".join(REQUIREMENTS), folder / _STAMP
    if given or (stamp.is_file() and stamp.read_text() == wanted):
        return python
    run([sys.executable, "-m", "venv", "--clear", folder])
    source = ["--no-binary", "llama-cpp-python"]
    run([python, "-m", "pip", "install", "--quiet", *source, *REQUIREMENTS], environment=_NATIVE)
    stamp.write_text(wanted)
    return python
