"""ONNX Runtime's forms of a model: torch's own exporter for float, then its dynamic quantisation for 8 bits.

Runs in the peer's environment. A job has ``folder`` (config.json, model.safetensors), ``sense`` and ``out`` (a folder,
which gets the folders ``float`` and ``int8``).
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from benchmarks.harness.jobs import status_bytes
from benchmarks.peers.onnx_graphs import GRAPHS, OnnxGraph

OPSET = 20
FLOAT, INT8 = "float", "int8"
# Convolutions stay in float: they cut patches or frames, and ConvInteger has no fast kernel.
QUANTISED = ["MatMul", "Gemm", "Gather"]


def export(folder: Path, sense: str, out: Path) -> None:
    """Write all graphs of a model in both forms."""
    torch.set_num_threads(1)
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    for form in (FLOAT, INT8):
        (out / form).mkdir(parents=True)
    for name, graph in GRAPHS[sense](folder).items():
        exported = out / FLOAT / f"{name}.onnx"
        write(graph, exported)
        quantise(exported, out / INT8 / exported.name)


def write(graph: OnnxGraph, path: Path) -> None:
    """Export a graph in float32."""
    names = [name for given in graph.inputs.items() for name in _names(*given)]
    shapes = {name: _shapes(value, graph.varying.get(name, {})) for name, value in graph.inputs.items()}
    with torch.no_grad():
        torch.onnx.export(
            graph.module,
            kwargs=dict(graph.inputs),
            f=path,
            dynamo=True,
            opset_version=OPSET,
            input_names=names,
            output_names=list(graph.outputs),
            dynamic_shapes=shapes,
            external_data=False,
            verbose=False,
        )
    _forget_shapes(path)


def _names(name: str, value: object) -> list[str]:
    return [f"{name}_{i}" for i in range(len(value))] if isinstance(value, tuple) else [name]


def _shapes(value: object, varying: Mapping[int, str]) -> Any:
    told = dict.fromkeys(varying, torch.export.Dim.DYNAMIC)
    return tuple(told for _ in value) if isinstance(value, tuple) else told


def _forget_shapes(path: Path) -> None:
    """Remove the shapes of values between nodes: of a matrix that is transposed then they stay, and are refused."""
    import onnx

    model = onnx.load(path)
    del model.graph.value_info[:]
    onnx.save(model, path)


def quantise(exported: Path, out: Path) -> None:
    """Matrices and embeddings in 8 bits, a scale for each output channel, activations rounded as they come.

    Without VNNI products of 8 by 8 bits overflow in ONNX Runtime's kernels; its guide says to use 7 bits there.
    """
    from onnxruntime.quantization import QuantType, quantize_dynamic
    from onnxruntime.quantization.shape_inference import quant_pre_process

    prepared = out.with_suffix(".prepared.onnx")
    quant_pre_process(exported, prepared, skip_symbolic_shape=True)
    _forget_shapes(prepared)
    quantize_dynamic(
        prepared,
        out,
        op_types_to_quantize=QUANTISED,
        per_channel=True,
        reduce_range=not _has_vnni(),
        weight_type=QuantType.QInt8,
    )
    prepared.unlink()


def _has_vnni() -> bool:
    info = Path("/proc/cpuinfo")
    return info.is_file() and "_vnni" in info.read_text()


if __name__ == "__main__":
    job = json.load(sys.stdin)
    target = Path(job["out"])
    export(Path(job["folder"]), job["sense"], target)
    size = sum(file.stat().st_size for file in target.rglob("*.onnx"))
    print("\n" + json.dumps({"file_bytes": size, "peak_bytes": status_bytes("VmHWM")}))
