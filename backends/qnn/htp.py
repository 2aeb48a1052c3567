"""Qualcomm's compiler and its emulation of the Hexagon processor, through ONNX Runtime's plug-in."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgec.errors import InputError, ToolError
from edgec.installation import install_command

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

PROVIDER = "QNNExecutionProvider"


@cache
def _devices() -> Any:
    try:
        import onnxruntime
        import onnxruntime_qnn
    except ImportError as error:
        raise ToolError(
            "Qualcomm's compiler for the Hexagon processor is not installed.",
            where="onnxruntime-qnn",
            why=str(error),
            fix=f"{install_command('qnn')} (Linux x86-64)",
            code="E592",
        ) from error
    onnxruntime.register_execution_provider_library(PROVIDER, onnxruntime_qnn.get_library_path())
    return [device for device in onnxruntime.get_ep_devices() if device.ep_name == PROVIDER][:1]


def _options(soc_model: int, entries: Mapping[str, str]) -> Any:
    import onnxruntime

    devices = _devices()
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    # Otherwise an operator that Hexagon lacks would silently run on the CPU.
    for name, value in {"session.disable_cpu_ep_fallback": "1", **entries}.items():
        options.add_session_config_entry(name, value)
    given = {"backend_type": "htp", "soc_model": str(soc_model), "offload_graph_io_quantization": "0"}
    options.add_provider_for_devices(devices, given)
    return options


def compile_contexts(models: Mapping[Path, Path], soc_model: int, *, shared: bool = True) -> list[InferenceSession]:
    """Compile models to context binaries that hold their common weights once, or each its own.

    Returns:
        The compiled models' sessions in the emulation, in order. A context of shared weights cannot be loaded into the
        emulation from its file: onnxruntime-qnn 2.7.0 ends with a segmentation fault; one without sharing can.

    Args:
        models: fixed-point model -> the ONNX wrapper to write, with the binary next to it.
        soc_model: Qualcomm's number of the chip.
        shared: off for contexts that the emulation can load.

    Raises:
        InputError: E593, the compiler refuses a model.
        ToolError: E592, it is not installed.
    """
    import onnxruntime

    sessions = []
    for index, (source, target) in enumerate(models.items()):
        entries = _entries(target, shared, index == len(models) - 1)
        options = _options(soc_model, entries)
        try:
            sessions.append(onnxruntime.InferenceSession(str(source), options))
        except Exception as error:  # ONNX Runtime's exceptions have no common class.
            raise _not_compiled(source, error) from error
    return sessions


def _entries(target: Path, shared: bool, last: bool) -> dict[str, str]:
    """The session's options of a context, the last of those that share weights or another."""
    written = {"enable": "1", "file_path": str(target), "embed_mode": "0"}
    entries = {f"ep.context_{name}": value for name, value in written.items()}
    shares = {"ep.share_ep_contexts": "1"} if shared else {}
    return {**entries, **shares, **({"ep.stop_share_ep_contexts": "1"} if shared and last else {})}


def _not_compiled(source: Path, error: Exception) -> InputError:
    return InputError(
        what="Qualcomm's compiler refuses the model",
        where=source.stem,
        why=" ".join(str(error).split())[:400],
        fix="export for the CPU (--target android-cpu), or report the model",
        code="E593",
    )
