"""The peers' Python environments: pinned, each under build/bench, made on first use, since their pins conflict.

``EDGEC_BENCH_PEERS``, ``EDGEC_BENCH_OPENVINO`` and so on name existing environments to use instead.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.harness.processes import run

_STAMP = "installed.txt"
_QUIET = {"PIP_DISABLE_PIP_VERSION_CHECK": "1"}


@dataclass(frozen=True)
class Environment:
    """What pip installs for a peer.

    Attributes:
        name: the folder under build/bench, and the end of the variable that names another one.
        requirements: pinned; the first ones are those that results files name.
        options: further options of ``pip install``.
        variables: variables of the environment of pip and of compilers.
        unwanted: packages that are removed again.
    """

    name: str
    requirements: tuple[str, ...]
    options: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    unwanted: tuple[str, ...] = ()

    @property
    def wanted(self) -> str:
        """The text that marks a finished environment."""
        return "\n".join(self.requirements)

    def versions(self) -> dict[str, str]:
        """The versions of the first two requirements, the runtime among them."""
        return dict(pin.split("==") for pin in self.requirements[:2])

    def python(self, build: Path) -> Path:
        """The environment's interpreter; on first use pip installs, for minutes.

        Raises:
            ProcessFailed: pip or a compiler failed.
        """
        given = os.environ.get(f"EDGEC_BENCH_{self.name.upper()}")
        folder = Path(given) if given else build / self.name
        python, stamp = folder / "bin" / "python", folder / _STAMP
        if given or (stamp.is_file() and stamp.read_text() == self.wanted):
            return python
        run([sys.executable, "-m", "venv", "--clear", folder])
        environment = {**_QUIET, **self.variables}
        wanted = [*self.options, *self.requirements]
        run([python, "-m", "pip", "install", "--quiet", *wanted], environment=environment)
        if self.unwanted:
            run([python, "-m", "pip", "uninstall", "--quiet", "--yes", *self.unwanted], environment=environment)
        stamp.write_text(self.wanted)
        return python


REQUIREMENTS = ("llama-cpp-python==0.3.36", "gguf==0.19.0", "numpy==2.4.6", "safetensors==0.8.0")
_NATIVE = {"CMAKE_ARGS": "-DGGML_NATIVE=ON", "CMAKE_BUILD_PARALLEL_LEVEL": str(os.cpu_count() or 1)}
_HELD = {**_NATIVE, "CMAKE_ARGS": "-DGGML_NATIVE=OFF -DGGML_AVX2=ON -DGGML_FMA=ON -DGGML_F16C=ON -DGGML_BMI2=ON"}
_TORCH = ("torch==2.13.0", "safetensors==0.8.0", "numpy==2.4.6")
LLAMA = Environment("peers", REQUIREMENTS, ("--no-binary", "llama-cpp-python"), _NATIVE)
# pip's cache does not know what a wheel was compiled for.
LLAMA_AVX2 = Environment("peers_avx2", REQUIREMENTS, ("--no-cache-dir", "--no-binary", "llama-cpp-python"), _HELD)
OPENVINO = Environment(
    "openvino",
    ("openvino==2026.4.1", "nncf==3.4.0", "optimum-intel==2.2.0", "transformers==5.5.4", *_TORCH),
    # Required by optimum-intel; the wheel refuses to load with a torch without CUDA, and no language model needs it.
    unwanted=("torchvision",),
)
ONNXRUNTIME = Environment(
    "onnxruntime",
    (
        "onnxruntime==1.32.0",
        "onnxruntime-genai==0.18.0",
        "onnx==1.23.2",
        "onnx-ir==1.1.0",
        "transformers==5.23.0",
        *_TORCH,
    ),
)
MNN = Environment(
    "mnn",
    (
        "MNN==3.6.1",
        "llmexport==0.0.5",
        "transformers==5.23.0",
        "onnx==1.23.2",
        "onnxruntime==1.32.0",
        "onnxslim==0.1.98",
        *_TORCH,
    ),
)
# For models that are not decoders alone: graphs by torch's exporter, without GenAI.
ONNX = Environment(
    "onnx",
    ("onnxruntime==1.32.0", "onnx==1.23.2", "onnxscript==0.7.2", "transformers==5.23.0", *_TORCH),
)
CTRANSLATE2 = Environment("ctranslate2", ("ctranslate2==4.8.5", "transformers==5.23.0", *_TORCH))
# By maker, and the instruction set that it is held to; other makers run in edgec's own environment.
ENVIRONMENTS = {
    "gguf": LLAMA,
    "gguf avx2": LLAMA_AVX2,
    "openvino": OPENVINO,
    "onnxruntime": ONNXRUNTIME,
    "mnn": MNN,
    "onnx": ONNX,
    "ctranslate2": CTRANSLATE2,
}


def peers_python(build: Path) -> Path:
    """The interpreter of llama.cpp's environment, which is compiled on first use."""
    return LLAMA.python(build)
