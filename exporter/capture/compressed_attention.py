"""Queries, keys and values of ZAYA's compressed convolutional attention (arXiv 2510.04476), by edgec's operators.

    x -> q, k -> pad -> conv1d by channel -> conv1d by head -> + means of q and k        queries and keys
    x -> v now, v before                                                                 halves of each value
        ==>
    x -> q, k -> causal_conv -> matrices by head, of this token and the ones before -> +
    x -> v now, causal_conv with the filter 1, 0

The first convolution's bias reaches every place that the second one reads, before the text as within it. So it goes
into the sum at the end, and the convolution begins with zeros, as ``edgec::causal_conv`` does.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import linear, pad

from edgec.exporter.capture.attention import positions_of
from edgec.ir.recurrence import CAUSAL_CONV


def compressed_projection(module: Any, hidden_states: Tensor, *_: object, **__: object) -> tuple[Tensor, ...]:
    """ZAYA's ``ZayaCCAProjection`` over a whole text.

    Args:
        module: the projection.
        hidden_states: [B, S, C].

    Returns:
        Queries [B, S, H, D], keys and values [B, S, H of keys, D].
    """
    heads, width = (*hidden_states.shape[:2], -1, module.head_dim), module.head_dim
    q, k = module.q_proj(hidden_states), module.k_proj(hidden_states)
    convolved = _by_head(module, _by_channel(module, torch.cat([q, k], -1)))
    mean = (q.view(heads) + k.view(heads).repeat_interleave(module.num_key_value_groups, 2)) * 0.5
    query = convolved[..., : q.shape[-1]].view(heads) + mean
    key = convolved[..., q.shape[-1] :].view(heads)
    key = key + mean.unflatten(2, (-1, module.num_key_value_groups)).mean(3)
    before = _delayed(linear(hidden_states, module.v_proj_delayed.weight), 1)
    if module.v_proj_delayed.bias is not None:
        before = before + module.v_proj_delayed.bias
    return query, key, torch.cat([module.v_proj_current(hidden_states), before], -1).view(*heads[:3], width)


def _by_channel(module: Any, x: Tensor) -> Tensor:
    result: Tensor = CAUSAL_CONV(
        x.float(), module.conv_qk_depthwise.weight.squeeze(1), None, positions_of(x.shape[1]), False
    )
    return result


def _by_head(module: Any, x: Tensor) -> Tensor:
    """The second convolution of what the first one gives [B, S, C]: a matrix for each head and each place."""
    first, second = module.conv_qk_depthwise, module.conv_qk_grouped
    places = second.weight.shape[2]
    matrices = second.weight.unflatten(0, (second.groups, -1))  # [heads, D, D, places]
    out = second.bias + (matrices.sum(-1) @ first.bias.view(second.groups, -1, 1)).flatten()
    for place in range(places):
        read = _delayed(x, places - 1 - place).unflatten(-1, (second.groups, 1, -1))
        out = out + (read @ matrices[..., place].transpose(1, 2)).flatten(2)
    result: Tensor = out
    return result


def _delayed(x: Tensor, places: int) -> Tensor:
    """Each token's value is that of the token so many places before it: a shift that ``recurrences.py`` recognises."""
    return pad(x, (0, 0, places, -places)) if places else x
