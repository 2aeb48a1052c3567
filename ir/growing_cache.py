"""Decoders whose caller hands over all earlier keys and values, and gets them back longer by the tokens of the call.

    input_ids int64 [1,S], attention_mask int64 [1,P+S], position_ids int64 [1,S], past_key_values.N.key [1,G,P,D], ...
      -> logits float32 [1,1,V] of the last token, present.N.key [1,G,P+S,D], ...

The names are those of onnxruntime-genai. P is 0 in the first call; N counts the caches, which several layers may share.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from edgec.ir.attention import visible
from edgec.ir.operators import NAMESPACE

INPUT_IDS, MASK, POSITION_IDS, LOGITS = "input_ids", "attention_mask", "position_ids", "logits"
PAST, PRESENT = "past_key_values.%s.%s", "present.%s.%s"
_PAST, _PRESENT = PAST.partition(".")[0], PRESENT.partition(".")[0]
GrowingCall = Callable[[Mapping[str, Tensor]], Mapping[str, Tensor]]


def present_of(past: str) -> str:
    """The output that a cache's input becomes in the next call."""
    return past.replace(_PAST, _PRESENT, 1)


@dataclass
class GrowingMethods:
    """Such a decoder as ``Methods``: padding after the wanted row is left out, and ``start`` cuts what is held.

    Attributes:
        run: executes it, inputs and outputs by name.
        shapes: heads and width of each cache, by the name of its input.
        chunk: the most tokens of a call.
        held: the keys and values so far.
    """

    run: GrowingCall
    shapes: Mapping[str, tuple[int, int]]
    chunk: int
    held: dict[str, Tensor] = field(default_factory=dict)

    def call(self, method: str, inputs: Mapping[str, Tensor]) -> Tensor:
        """The logits of row ``last``, float32 [V]; the only method serves all."""
        start, count = int(inputs["start"]), int(inputs["last"]) + 1
        given = {
            INPUT_IDS: inputs["tokens"][:, :count].long(),
            MASK: torch.ones(1, start + count, dtype=torch.int64),
            POSITION_IDS: torch.arange(start, start + count).unsqueeze(0),
        }
        outputs = self.run({**given, **{name: self._past(name, start) for name in self.shapes}})
        self.held = {name: outputs[present_of(name)] for name in self.shapes}
        return outputs[LOGITS].reshape(-1).float()

    def _past(self, name: str, length: int) -> Tensor:
        if not length:
            heads, width = self.shapes[name]
            return torch.zeros(1, heads, 0, width)
        return self.held[name][:, :, :length]


def grouped_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    past_key: Tensor,
    past_value: Tensor,
    lengths: Tensor,
    total: Tensor,
    sink_logits: Tensor | None,
    heads: int,
    groups: int,
    scale: float,
    window: int,
    softcap: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """ONNX Runtime's GroupQueryAttention over a cache without padding.

    ``q`` [1, S, H * D], ``k`` and ``v`` [1, S, G * D], the past [1, G, P, D]; ``lengths`` int32 [1] is P + S - 1,
    ``total`` int32 [] is P + S; ``sink_logits`` [H]; a token sees ``window`` tokens, itself
    included, or with 0 all. Returns the result [1, S, H * D], then all keys and values [1, G, P + S, D].
    """
    keys = torch.cat([past_key, _split(k, groups)], 2)
    values = torch.cat([past_value, _split(v, groups)], 2)
    positions = torch.arange(keys.shape[2])
    seen = visible(positions[-q.shape[1] :], positions, True, window)
    scores = _split(q, heads) @ keys.repeat_interleave(heads // groups, 1).transpose(-1, -2) * scale
    scores = softcap * torch.tanh(scores / softcap) if softcap else scores
    scores = scores.masked_fill(~seen, -torch.inf)
    if sink_logits is not None:
        scores = torch.cat([scores, sink_logits.reshape(1, -1, 1, 1).expand(*scores.shape[:-1], 1)], -1)
    weights = torch.softmax(scores, -1)[..., : keys.shape[2]]
    out = weights @ values.repeat_interleave(heads // groups, 1)
    return out.transpose(1, 2).flatten(2), keys, values


def _split(rows: Tensor, heads: int) -> Tensor:
    """[1, S, H * D] as [1, H, S, D]."""
    split: Tensor = rows.unflatten(2, (heads, -1))
    return split.transpose(1, 2)


def _fake(q: Tensor, k: Tensor, v: Tensor, past_key: Tensor, past_value: Tensor, *_: object) -> tuple[Tensor, ...]:
    grown = [
        past.new_empty(1, past.shape[1], past.shape[2] + k.shape[1], past.shape[3]) for past in (past_key, past_value)
    ]
    return (q.new_empty(q.shape), *grown)


# Kept alive: a library that is collected takes its operators along.
_LIBRARY = torch.library.Library(NAMESPACE, "FRAGMENT")
_LIBRARY.define(
    "grouped_attention(Tensor q, Tensor k, Tensor v, Tensor past_key, Tensor past_value, Tensor lengths, Tensor total, "
    "Tensor? sink_logits, int heads, int groups, float scale, int window, float softcap) -> (Tensor, Tensor, Tensor)",
    tags=(torch.Tag.pt2_compliant_tag,),
)
_LIBRARY.impl("grouped_attention", grouped_attention, "CPU")
torch.library.register_fake(f"{NAMESPACE}::grouped_attention", _fake, lib=_LIBRARY)
GROUPED_ATTENTION = torch.ops.edgec.grouped_attention.default
