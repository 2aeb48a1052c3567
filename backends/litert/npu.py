"""NPUs of Google Tensor and MediaTek: LiteRT reaches them through compilers that vendors' packages bring.

Nothing is compiled for them here: the packages download their compilers from the vendors while they are installed, no
emulator is known, and what the compilers take was never seen. An export says what is missing, or what was found.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from edgec.errors import EdgecError, InputError, ToolError

_ELSEWHERE: Final = "use --unit gpu or --unit cpu, which the same phone has"


@dataclass(frozen=True)
class NpuPackage:
    """The package that brings an NPU's compiler.

    Attributes:
        package: on PyPI; it is installed with the environment that ai-edge-litert is in.
        compiler: the folder of LiteRT's plug-in for it, under ``vendors`` of ai-edge-litert.
    """

    package: str
    compiler: str

    @property
    def module(self) -> str:
        """What is imported."""
        return self.package.replace("-", "_")


NPU_PACKAGES: Mapping[str, NpuPackage] = {
    "google": NpuPackage("ai-edge-litert-sdk-google-tensor", "google_tensor"),
    "mediatek": NpuPackage("ai-edge-litert-sdk-mediatek", "mediatek"),
}
"""By the chip's vendor."""


def npu_refusal(vendor: str, chip: str) -> EdgecError:
    """Why nothing is made for the NPU of a chip.

    Returns:
        ToolError E963, its package is not installed; E964, it lacks the compiler; InputError E965, all is there and
        edgec writes nothing for it.
    """
    needed = NPU_PACKAGES[vendor]
    if find_spec(needed.module) is None:
        return ToolError(
            f"{needed.package} is not installed, which has the compiler for the NPU of {chip}.",
            where="--unit npu",
            why="it downloads the compiler from its vendor while it is installed",
            fix=f"pip install {needed.package}, where its vendor can be reached; or {_ELSEWHERE}",
            code="E963",
        )
    lacking = _lacking(needed)
    if lacking:
        return ToolError(
            f"{needed.package} {_version(needed.package)} has no compiler for the NPU of {chip}.",
            where="--unit npu",
            why=lacking,
            fix=f"pip install --force-reinstall {needed.package}, where its vendor can be reached; or {_ELSEWHERE}",
            code="E964",
        )
    return InputError(
        f"edgec writes nothing for the NPU of {chip} yet.",
        where="--unit npu",
        why=f"{needed.package} {_version(needed.package)} is here; edgec never executed what its compiler makes",
        fix=f"compile a bundle's .tflite with ai_edge_litert.aot yourself; or {_ELSEWHERE}",
        code="E965",
    )


def _lacking(needed: NpuPackage) -> str:
    """Which part of the compiler is not there, in words; empty where none."""
    if find_spec("ai_edge_litert") is None:
        return "ai-edge-litert is not installed, whose plug-in calls it"
    plug_in = Path(str(import_module("ai_edge_litert").__file__)).parent / "vendors" / needed.compiler / "compiler"
    if not any(plug_in.glob("*.so")):
        return f"ai-edge-litert {_version('ai-edge-litert')} has no plug-in in {plug_in}"
    try:
        module: Any = import_module(needed.module)
        folder = Path(str(module.path_to_sdk_libs()))
    except Exception as error:  # a vendor's package does what it likes
        return f"it does not say where its libraries are: {error}"[:300]
    return "" if any(folder.glob("*.so*")) else f"there is no library in {folder}"


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "of an unknown version"
