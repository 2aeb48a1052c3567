"""MNN's own export of a language model (llmexport): symmetric 4 bits in blocks of 32, lm_head and embedding too.

Runs in the peer's environment. A job has ``folder`` (config.json, model.safetensors) and ``out`` (the config.json that
MNN opens). Run it alone: its process's CPU time and peak memory are figures of the benchmark.
"""

from __future__ import annotations

import os
import runpy
import sys
from importlib.util import find_spec
from pathlib import Path

from benchmarks.harness.jobs import serve_export
from benchmarks.peers.tokenizer import folder_with_tokenizer

_BITS = {"quant_bit": 4, "quant_block": 32, "lm_quant_bit": 4, "lm_quant_block": 32}
_BESIDE = ("llm.mnn", "llm.mnn.weight", "llm_config.json")


def export(folder: Path, out: Path) -> None:
    """Export the model in ``folder`` to the folder of ``out``."""
    package = find_spec("llmexport")
    assert package is not None and package.origin is not None
    scripts = Path(package.origin).parent
    # The package imports its parts as if they were installed next to it.
    sys.path.insert(0, str(scripts))
    # MNN's logger installs a package and reports the machine's identity to a server; the converter works without it.
    sys.modules["MNN.tools.utils.log"] = None  # type: ignore[assignment]
    source = folder_with_tokenizer(folder, out.parent / "source")
    options = [word for name, value in _BITS.items() for word in (f"--{name}", str(value))]
    words = ["--path", str(source), "--export", "mnn", "--dst_path", str(out.parent), "--sym", *options]
    # The converter overwrites the arguments, so that runpy cannot put them back.
    sys.argv = ["llmexport", *words]
    # It writes a log where it runs.
    os.chdir(out.parent)
    try:
        runpy.run_path(str(scripts / "llmexport.py"), run_name="__main__")
    except IndexError:
        if not out.is_file():
            raise


if __name__ == "__main__":
    serve_export(export, *_BESIDE)
