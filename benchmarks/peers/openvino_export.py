"""OpenVINO's own export of a language model: optimum-intel traces it, NNCF rounds every matrix to 4 bits.

Runs in the peer's environment. A job has ``folder`` (config.json, model.safetensors) and ``out`` (the .xml). Run it
alone: its process's CPU time and peak memory are figures of the benchmark.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.harness.jobs import serve_export

# A float16 scale for each group.
BITS, GROUP = 4, 32
ROWS = "rows"
_TO_THE_END = 2**31 - 1


def export(folder: Path, out: Path) -> None:
    """Export the model in ``folder`` to ``out``; embedding and lm_head get the bits of the other matrices."""
    import openvino  # type: ignore[import-not-found]
    import torch
    from optimum.intel import OVModelForCausalLM, OVWeightQuantizationConfig

    torch.set_num_threads(1)
    bits = OVWeightQuantizationConfig(bits=BITS, sym=True, group_size=GROUP, ratio=1.0, all_layers=True)
    made = OVModelForCausalLM.from_pretrained(
        folder, export=True, compile=False, quantization_config=bits, local_files_only=True
    )
    slice_rows(made.model)
    openvino.save_model(made.model, out, compress_to_fp16=False)


def slice_rows(model: Any) -> None:
    """Compute logits of the last rows only, as many as the input ``rows`` says below zero.

    openvino_genai edits the graph alike for its pipelines, always to one row.
    """
    import numpy as np
    from openvino import opset13 as ops

    lm_head = model.output("logits").get_node().input_value(0).get_node()
    while lm_head.get_type_name() != "MatMul":
        lm_head = lm_head.input_value(0).get_node()
    rows = ops.parameter([1], np.int64, name=ROWS)
    rows.output(0).get_tensor().set_names({ROWS})
    stop, step, axis = (ops.constant(np.array([value], np.int64)) for value in (_TO_THE_END, 1, 1))
    hidden = lm_head.input_value(0)
    lm_head.input(0).replace_source_output(ops.slice(hidden, rows, stop, step, axis).output(0))
    model.add_parameters([rows])
    model.validate_nodes_and_infer_types()


if __name__ == "__main__":
    serve_export(export, "model.bin")
