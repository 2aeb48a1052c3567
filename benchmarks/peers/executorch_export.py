"""ExecuTorch's own export of a language model (``export_llama``): 8-bit activations, 4-bit weights, XNNPACK.

A job has ``folder`` (config.json, model.safetensors) and ``out``. Run it alone: its process's CPU time and peak memory
are figures of the benchmark.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.harness.jobs import serve_export

GROUP, EMBEDDING = 32, "8,0"
CONTEXT = 1024
_MODEL_CLASSES = {"qwen3": "qwen3_0_6b", "llama": "smollm2"}


def meta_parameters(config: Mapping[str, Any]) -> dict[str, Any]:
    """Translate a transformers config to the names of ExecuTorch's model."""
    names = {
        "dim": "hidden_size",
        "n_layers": "num_hidden_layers",
        "n_heads": "num_attention_heads",
        "n_kv_heads": "num_key_value_heads",
        "hidden_dim": "intermediate_size",
        "vocab_size": "vocab_size",
        "norm_eps": "rms_norm_eps",
        "rope_theta": "rope_theta",
    }
    shape = {name: config[source] for name, source in names.items()}
    shape |= {"use_scaled_rope": False, "use_hf_rope": True}
    if config["model_type"] != "qwen3":
        return shape
    norms = {"use_qk_norm": True, "qk_norm_before_rope": True, "attention_qkv_bias": False}
    return shape | norms | {"head_dim": config["head_dim"]}


def export(folder: Path, out: Path) -> None:
    """Export the model in ``folder`` to ``out`` with the settings that ExecuTorch documents for CPUs."""
    from executorch.examples.models.llama import export_llama_lib

    config = json.loads((folder / "config.json").read_text())
    parameters = out.with_suffix(".params.json")
    parameters.write_text(json.dumps(meta_parameters(config)))
    checkpoint = _checkpoint(folder, out.with_suffix(".pth"))
    logging.disable(logging.WARNING)
    export_llama_lib.export_llama(_settings(config, checkpoint, parameters, out))
    checkpoint.unlink()


def _checkpoint(folder: Path, path: Path) -> Path:
    """Write the weights under the names of ExecuTorch's model."""
    import torch
    from executorch.examples.models.qwen3.convert_weights import qwen_3_tune_to_meta
    from safetensors.torch import load_file

    torch.save(qwen_3_tune_to_meta(load_file(folder / "model.safetensors")), path)
    return path


def _settings(config: Mapping[str, Any], checkpoint: Path, parameters: Path, out: Path) -> Any:
    from executorch.extension.llm.export.config.llm_config import LlmConfig, ModelType

    chosen = LlmConfig()
    chosen.base.model_class = ModelType(_MODEL_CLASSES[config["model_type"]])
    chosen.base.checkpoint, chosen.base.params = str(checkpoint), str(parameters)
    chosen.base.metadata = '{"get_bos_id": 1, "get_eos_ids": [2]}'
    chosen.model.use_kv_cache = chosen.model.use_sdpa_with_kv_cache = True
    chosen.quantization.qmode, chosen.quantization.group_size = "8da4w", GROUP
    chosen.quantization.embedding_quantize = EMBEDDING
    chosen.export.max_seq_length = chosen.export.max_context_length = CONTEXT
    chosen.backend.xnnpack.enabled = chosen.backend.xnnpack.extended_ops = True
    chosen.export.output_name = str(out)
    return chosen


if __name__ == "__main__":
    serve_export(export)
