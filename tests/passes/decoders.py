"""Captured tiny decoders for the tests of passes and backends."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch

from edgec.exporter.capture.decoder import build_skeleton, capture_decoder
from edgec.exporter.sources.decoders.spec import model_spec
from edgec.ir.program import Program
from edgec.passes.cleanup.remove_noops import RemoveNoops
from edgec.passes.contract import run_pass
from edgec.passes.prefill.last_logits import LastLogits

CONTEXT, ROWS = 64, 8


class StateDict:
    """Weights of a model held in memory."""

    def __init__(self, model: torch.nn.Module) -> None:
        self.state = model.state_dict()

    def tensor(self, name: str) -> torch.Tensor:
        result: torch.Tensor = self.state[name]
        return result


@lru_cache(maxsize=4)
def tiny_model(family: str = "llama", **options: Any) -> Any:
    """A random model with weights large enough that attention matters."""
    from transformers import AutoConfig, AutoModelForCausalLM

    shape = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "vocab_size": 96, "head_dim": 16}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": CONTEXT}
    fixed = {"initializer_range": 0.3, "pad_token_id": 0}
    config = AutoConfig.for_model(family, **{**shape, **heads, **fixed, **options})
    torch.manual_seed(0)
    return AutoModelForCausalLM.from_config(config, attn_implementation="eager", dtype=torch.float32).eval()


@lru_cache(maxsize=4)
def captured(family: str = "llama", **options: Any) -> Program:
    """The model's program after remove_noops and last_logits, ready for a cache."""
    from transformers import AutoModelForCausalLM

    model = tiny_model(family, **options)
    seams = {"attn_implementation": "edgec", "experts_implementation": "edgec"}
    skeleton = build_skeleton(lambda: AutoModelForCausalLM.from_config(model.config, **seams))
    program = capture_decoder(skeleton, model_spec(model.config.to_dict()), StateDict(model), CONTEXT)
    return run_pass(run_pass(program, RemoveNoops()), LastLogits(rows=ROWS))


def tokens(length: int = 40, vocab: int = 96) -> list[int]:
    """Seeded token ids."""
    return torch.randint(0, vocab, (length,), generator=torch.Generator().manual_seed(1)).tolist()
