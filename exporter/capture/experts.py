"""Capture the experts of transformers' models as ``edgec::experts``, without family-specific code."""

from __future__ import annotations

from torch import Tensor, nn

from edgec.ir.experts import EXPERTS

NAME = "edgec"


def register() -> None:
    """Offer the operator to transformers as ``experts_implementation="edgec"``."""
    from transformers.integrations.moe import ALL_EXPERTS_FUNCTIONS

    ALL_EXPERTS_FUNCTIONS.register(NAME, _from_transformers)


def _from_transformers(
    module: nn.Module, hidden_states: Tensor, top_k_index: Tensor, top_k_weights: Tensor, **_: object
) -> Tensor:
    """What the decorated experts of a model do: up, gate or function, down, and the sum weighted by the router."""
    name = "gate_up_proj" if module.has_gate else "up_proj"
    inner = _multiply(module, name, hidden_states.unsqueeze(1), top_k_index)
    gated: Tensor = module._apply_gate(inner) if module.has_gate else module.act_fn(inner)  # type: ignore[operator]
    out = _multiply(module, "down_proj", gated, top_k_index)
    if module.has_post_expert_norm:
        out = module.post_expert_norm(out)  # type: ignore[operator]
    weighted = out * top_k_weights.unsqueeze(2)
    return weighted.sum(1).to(hidden_states.dtype)


def _multiply(module: nn.Module, name: str, x: Tensor, index: Tensor) -> Tensor:
    weight: Tensor = getattr(module, name)
    bias: Tensor | None = getattr(module, f"{name}_bias") if module.has_bias else None
    out: Tensor = EXPERTS(x, index, weight.transpose(1, 2) if module.is_transposed else weight, bias)
    return out
