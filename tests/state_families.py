"""Tiny random models with recurrences and short convolutions, one for every operator and kind of hybrid."""

from __future__ import annotations

from tests.families import Family

LINEAR, FULL = "linear_attention", "full_attention"
_MAMBA2 = {"mamba_n_heads": 8, "mamba_d_head": 16, "mamba_d_state": 12, "mamba_chunk_size": 16, "mamba_n_groups": 2}
_DELTA = {
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 16,
    "linear_value_head_dim": 24,
}
# Fields of attention, for families that have none.
_ATTENTION = ("num_attention_heads", "num_key_value_heads", "head_dim")

STATE_FAMILIES = (
    Family("lfm2", {"full_attn_idxs": [1], "block_ff_dim": 96}),
    Family("qwen3_5_text", {**_DELTA, "layer_types": [LINEAR, FULL, LINEAR]}),
    Family(
        "qwen3_next",
        {**_DELTA, "layer_types": [LINEAR, FULL, LINEAR], "num_experts": 0, "mlp_only_layers": [0, 1, 2]},
    ),
    Family("olmo_hybrid", {**_DELTA, "layer_types": [LINEAR, FULL, LINEAR], "linear_num_value_heads": 2}),
    Family("lfm3", {"layer_types": ["conv", FULL, "conv"]}),
    Family("mamba2", {"num_heads": 8, "head_dim": 16, "expand": 2, "n_groups": 2, "state_size": 12, "chunk_size": 16}),
    Family("granitemoehybrid", {**_MAMBA2, "layer_types": ["mamba", "attention", "mamba"], "num_local_experts": 0}),
    Family("falcon_h1", {**_MAMBA2, "mamba_d_ssm": 128}),
    Family("bamba", {**_MAMBA2, "attn_layer_indices": [1]}),
    Family("mamba", {"state_size": 8, "time_step_rank": 6, "intermediate_size": 96}),
    Family("falcon_mamba", {"state_size": 8, "time_step_rank": 6, "intermediate_size": 96}),
    Family("recurrent_gemma", {"lru_width": 64, "attention_window_size": 8}),
    Family("rwkv", absent=_ATTENTION),
    Family(
        "minimax",
        {"layer_types": [LINEAR, FULL, LINEAR], "block_size": 16, "num_local_experts": 4, "num_experts_per_tok": 2},
    ),
    Family("xlstm", {"hidden_size": 128, "num_heads": 4, "chunk_size": 16}, absent=_ATTENTION),
)
# Mixtures of experts in layers beside convolutions, Mamba 1 and Mamba 2.
EXPERT_FAMILIES = (
    Family(
        "lfm2_moe",
        {
            "layer_types": ["conv", FULL, "conv"],
            "num_dense_layers": 1,
            "num_experts": 8,
            "num_experts_per_tok": 2,
            "moe_intermediate_size": 32,
        },
    ),
    Family(
        "jamba",
        {
            **{"attn_layer_period": 2, "attn_layer_offset": 1, "expert_layer_period": 2, "expert_layer_offset": 0},
            **{"num_experts": 4, "num_experts_per_tok": 2, "mamba_d_state": 8, "mamba_dt_rank": 6},
            "use_mamba_kernels": False,
        },
        absent=("head_dim",),
    ),
    Family(
        "granitemoehybrid",
        {
            **_MAMBA2,
            "layer_types": ["mamba", "attention", "mamba"],
            **{"num_local_experts": 4, "num_experts_per_tok": 2, "shared_intermediate_size": 32},
        },
    ),
)
# One for each operator.
QUICK = ("lfm2", "qwen3_5_text", "mamba2", "mamba", "recurrent_gemma", "rwkv")
