"""ONNX Runtime GenAI's own export of a language model: its model builder, 4 bits in blocks of 32, for the CPU.

Runs in the peer's environment. A job has ``folder`` (config.json, model.safetensors) and ``out`` (the .onnx). Run it
alone: its process's CPU time and peak memory are figures of the benchmark.
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

from benchmarks.harness.jobs import serve_export
from benchmarks.peers.tokenizer import folder_with_tokenizer

# accuracy_level 4: activations in 8 bits. The builder quantises embedding and lm_head, which tied models share, alike.
OPTIONS = {"block_size": "32", "accuracy_level": "4", "is_symmetric": "true"}
ROWS = "rows"
_BUILDER = "onnxruntime_genai.models.builder"
_TO_THE_END = 2**31 - 1


def export(folder: Path, out: Path) -> None:
    """Build the model in ``folder`` as ``out``, with weights next to it; logits only of the rows asked for."""
    source, built = folder_with_tokenizer(folder, out.parent / "source"), out.parent / "built"
    words = ["-i", source, "-o", built, "-p", "int4", "-e", "cpu", "-c", out.parent / "cache"]
    options = [f"{name}={value}" for name, value in OPTIONS.items()]
    sys.argv = [_BUILDER, *map(str, words), "--extra_options", *options]
    runpy.run_module(_BUILDER, run_name="__main__")
    slice_rows(built / "model.onnx", out)


def slice_rows(built: Path, out: Path) -> None:
    """Compute logits of the last rows only, as many as the input ``rows`` says below zero."""
    import onnx

    model = onnx.load(built, load_external_data=False)
    graph, helper = model.graph, onnx.helper
    head = next(node for node in graph.node if "logits" in node.output)
    limits = [helper.make_tensor(name, 7, [1], [v]) for name, v in (("to_end", _TO_THE_END), ("axis", 1))]
    sliced = helper.make_node("Slice", [head.input[0], ROWS, "to_end", "axis"], ["last_rows"], name="last_rows")
    head.input[0] = "last_rows"
    graph.initializer.extend(limits)
    graph.input.append(helper.make_tensor_value_info(ROWS, onnx.TensorProto.INT64, [1]))
    graph.node.insert(list(graph.node).index(head), sliced)
    data = built.with_name(f"{built.name}.data")
    data.rename(out.with_name(data.name))
    onnx.save(model, out)


if __name__ == "__main__":
    serve_export(export, "model.onnx.data")
