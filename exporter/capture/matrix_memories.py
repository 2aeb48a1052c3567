"""Linear attention whose code is one loop over tokens, without a name to call it by: as ``edgec::ssd``, by its class.

Both hold a matrix for each head, M = decay M + k v, and read q M; they differ in what decays and in what is divided.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import softplus

from edgec.exporter.capture.attention import positions_of
from edgec.ir.recurrence import SSD

# Sums of exp(gate), divided by how much a token lets decay, stay in the range of float32.
_WIDEST_GATE = 40.0
_LARGEST_EPS = 1e-5


def require_fresh(state: object) -> None:
    """Refuse a recurrence that does not begin with an empty state.

    Raises:
        ValueError: the model gave a state.
    """
    if state is not None:
        raise ValueError("the model starts a recurrence from its own initial state, which edgec cannot export")


def lightning_attention(module: Any, hidden_states: Tensor, *_: object, **__: object) -> tuple[Tensor, None]:
    """MiniMax's: each head's matrix keeps the same share of itself at every token.

    Args:
        module: the attention layer.
        hidden_states: [B, S, C].

    Returns:
        [B, S, C], and no state.
    """
    heads, width = module.num_attention_heads, module.head_dim
    projected = module.act_fn(module.qkv_proj(hidden_states)).unflatten(-1, (heads, 3 * width))
    q, k, v = projected.float().split(width, -1)
    step, decay = v.new_ones(v.shape[:3]), -module.slope_rate.flatten().float()
    read = SSD(v, step, decay, k, q, None, positions_of(v.shape[1])).flatten(2)
    gate = module.output_gate(hidden_states).sigmoid()
    return module.out_proj(gate * module.norm(read.to(hidden_states.dtype))), None


def gated_memory(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    igate: Tensor,
    fgate: Tensor,
    c_initial: Tensor | None = None,
    **_: object,
) -> tuple[Tensor, None]:
    """The mLSTM of xLSTM (arXiv 2405.04517): q M / max(|q n|, 1), where n sums the keys as M sums keys and values.

    transformers keeps M and n divided by exp(m), the greatest exponent so far. That cancels out but for ``eps``, added
    to a divisor that is never 0, and left out here. n is one more value of each token, 1, and what a token writes is
    divided by the step that ``edgec::ssd`` multiplies it with.

    Args:
        module: the backend, with its config.
        query: [B, H, S, N].
        key: as query.
        value: [B, H, S, P].
        igate: before its exponential, [B, H, S].
        fgate: before its sigmoid, [B, H, S].
        c_initial: must be None.

    Returns:
        [B, H, S, P], and no state.
    """
    require_fresh(c_initial)
    _refuse_gates(module.config)
    q, k, v, opened, kept = (part.transpose(1, 2).float() for part in (query, key, value, igate, fgate))
    step = softplus(-kept)
    written = torch.cat([v, torch.ones_like(v[..., :1])], -1) * (opened.exp() / step).unsqueeze(-1)
    scaled = q * q.shape[-1] ** -0.5
    read = SSD(written, step, -step.new_ones(step.shape[2]), k, scaled, None, positions_of(v.shape[1]))
    sums, divisor = read.split((v.shape[-1], 1), -1)
    return (sums / divisor.abs().clamp_min(1.0)).transpose(1, 2).to(query.dtype), None


def _refuse_gates(config: Any) -> None:
    if config.gate_soft_cap > _WIDEST_GATE or config.eps > _LARGEST_EPS:
        raise ValueError(
            f"gate_soft_cap is {config.gate_soft_cap}, eps {config.eps}: edgec's sums in float32 hold exponentials of "
            f"gates up to {_WIDEST_GATE:.0f}, and leave out an eps up to {_LARGEST_EPS}"
        )
