"""Whole configs of a few families, which the fuzz tests damage."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.exporter.tiny_sources import ENCODER, LLAMA, VISION

_ROTARY = {"rope_theta": 10_000.0, "rope_scaling": {"rope_type": "linear", "factor": 2.0}}
_TEXT = {"head_dim": 16, "layer_types": ["sliding_attention", "full_attention"], "sliding_window": 16}

CONFIGS: Mapping[str, Mapping[str, Any]] = {
    "llama": {**LLAMA, **_ROTARY, "head_dim": 8, "torch_dtype": "float32", "rms_norm_eps": 1e-5, "hidden_act": "silu"},
    "qwen3": {
        **LLAMA,
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        **_TEXT,
        "use_sliding_window": True,
    },
    "gpt2": {
        "architectures": ["GPT2LMHeadModel"],
        "model_type": "gpt2",
        "n_layer": 2,
        "n_embd": 32,
        "n_head": 4,
        "n_positions": 64,
        "n_inner": None,
        "vocab_size": 128,
    },
    "gemma3": {
        "architectures": ["Gemma3ForConditionalGeneration"],
        "model_type": "gemma3",
        "text_config": {**LLAMA, "model_type": "gemma3_text", **_TEXT, "query_pre_attn_scalar": 16},
        "vision_config": {**VISION, "model_type": "siglip_vision_model"},
        "image_token_id": 99,
    },
    "gemma3n": {
        **LLAMA,
        "architectures": ["Gemma3nForCausalLM"],
        "model_type": "gemma3n_text",
        **_TEXT,
        "num_kv_shared_layers": 0,
        "laurel_rank": 8,
        "hidden_size_per_layer_input": 8,
        "vocab_size_per_layer_input": 128,
        "intermediate_size": [64, 64],
    },
    "mixtral": {
        **LLAMA,
        "architectures": ["MixtralForCausalLM"],
        "model_type": "mixtral",
        "num_local_experts": 4,
        "num_experts_per_tok": 2,
    },
    "bert": {**ENCODER, "architectures": ["BertModel"], "model_type": "bert", "type_vocab_size": 2},
    "vit": {**VISION, "architectures": ["ViTForImageClassification"], "model_type": "vit", "num_labels": 3},
}

TOKENIZER_CONFIG: Mapping[str, Any] = {
    "tokenizer_class": "PreTrainedTokenizerFast",
    "bos_token": "<s>",
    "eos_token": {"content": "</s>", "lstrip": False, "__type": "AddedToken", "special": True},
    "unk_token": "<unk>",
    "add_bos_token": False,
    "model_max_length": 64,
    "chat_template": "{% for message in messages %}{{ message['content'] }}{% endfor %}",
    "added_tokens_decoder": {"1": {"content": "<s>", "special": True}, "2": {"content": "</s>", "special": True}},
    "extra_special_tokens": {},
    "clean_up_tokenization_spaces": False,
}
INDEX: Mapping[str, Any] = {
    "metadata": {"total_size": 1_000},
    "weight_map": {
        "model.embed_tokens.weight": "model-00001-of-00002.safetensors",
        "b": "model-00002-of-00002.safetensors",
    },
}
RECIPE = """
description = "damaged"
algorithm = "mse"
prepare = ["rotate"]
kernels = "edgec"
early_exit = 1
[weights]
bits = 4
group_size = 32
kind = "int"
group_rows = 0
sparsity = 0.0
sparse_block = 0
levels = 0
symmetric = true
activation_bits = 8
scale_bits = 16
[lm_head]
bits = 8
group_size = 0
[embedding]
bits = 8
group_size = 0
[cache]
dtype = "float16"
sink_tokens = 0
[shared_kv]
mode = "reuse"
boundary = 0.5
max_kl = 0.1
[limits]
context = 64
prefill_chunk = 16
logit_rows = 4
[budgets]
kl_mean = 0.2
kl_max = 1.0
top1_agreement = 0.7
[[rules]]
parameters = "model.layers.0.*"
bits = 8
group_size = 0
[on.coreml.weights]
kind = "lut"
bits = 4
group_rows = 8
""".strip().splitlines()
PROJECT = """
model = "examples/tiny-stories"
target = "host"
targets = ["host", "iphone"]
recipe = "4bit"
out = "bundle.edgec"
[budgets]
kl_mean = 0.1
""".strip().splitlines()
SWEEP = """
models = ["examples/tiny-stories"]
recipes = ["4bit", "float"]
targets = ["host"]
devices = ["host"]
[export]
context = 256
[bench]
prompt-tokens = 64
""".strip().splitlines()
