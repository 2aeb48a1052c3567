"""Capture a multi-token predictor: a model of one layer that goes on from another model's hidden states.

tokens [1,S], each the one after the hidden state's, positions [S], hidden [1,S,H] -> logits [1,S,V]
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.fx import GraphModule

from edgec.exporter.capture import attention
from edgec.exporter.capture.chosen_keys import attend_to_every_key
from edgec.exporter.capture.decoder import Skeleton, TensorSource, bind, trace_module
from edgec.exporter.capture.mixed_rotations import refuse_mixed_rotations
from edgec.exporter.capture.own_attention import use_operator
from edgec.exporter.capture.untraceable import refuse_special_sizes
from edgec.exporter.sources.decoders.positions import first_place, follow_positions
from edgec.ir.attention import OPERATOR
from edgec.ir.program import Dynamic, Interface, Program, TensorType
from edgec.ir.reexport import export_any_size
from edgec.ir.spec import ModelSpec
from edgec.passes.contract import nodes_of
from edgec.passes.draft.hidden_output import HIDDEN

# The place of the layer's number among the arguments of attention.
_LAYER = 5


class JoinedInputs(nn.Module):
    """A model of one layer whose ``join`` makes its input of two (exporter/sources/drafts).

    One with ``continues`` also returns the hidden states that its next guess goes on from; of others these are what its
    lm_head reads.
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.decoder = model
        self.first = first_place(model)

    def forward(self, tokens: Tensor, positions: Tensor, hidden: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        """Logits [1, S, V] after each token, and where the model has them hidden states [1, S, H]."""
        model: Any = self.decoder
        joined = model.join(model.get_input_embeddings()(tokens), hidden)
        places = (positions + self.first if self.first else positions).unsqueeze(0)
        with attention.query_positions(positions):
            if not getattr(model, "continues", False):
                logits: Tensor = model(inputs_embeds=joined, position_ids=places, use_cache=False).logits
                return logits
            output = model.get_decoder()(inputs_embeds=joined, position_ids=places, use_cache=False)
        return model.lm_head(output.last_hidden_state), output.last_hidden_state


def capture_predictor(skeleton: Skeleton, spec: ModelSpec, weights: TensorSource, max_tokens: int) -> Program:
    """Trace a predictor and bind its weights.

    Args:
        skeleton: the model of one layer without weights.
        spec: the whole model's shape, whose last layer is the predictor's.
        weights: by the one-layer model's own parameter names.
        max_tokens: the longest sequence of one call.

    Returns:
        A Program with inputs tokens int64 [1, S], positions int64 [S] and hidden float32 [1, S, H], output logits
        float32 [1, S, V].

    Raises:
        InputError: as ``capture_decoder``.
    """
    size, width = Dynamic("S", 1, max_tokens), spec.hidden_size
    interface = Interface(
        inputs=(
            TensorType("tokens", torch.int64, (1, size)),
            TensorType("positions", torch.int64, (size,)),
            TensorType(HIDDEN, torch.float32, (1, size, width)),
        ),
        outputs=(TensorType("logits", torch.float32, (1, size, spec.vocab_size)),),
    )
    graph, name = _trace(skeleton.model, max_tokens, width), type(skeleton.model).__name__
    follow_positions(graph)
    use_operator(graph)
    bind(graph, skeleton.aliases, weights)
    refuse_mixed_rotations(graph, max_tokens, name)
    for node in nodes_of(graph, OPERATOR):
        # Its states lie beside those of the model's layers, under names of their own.
        node.update_arg(_LAYER, spec.layers[-1].index)
    return Program(graph=graph, interface=interface, spec=spec)


def _trace(model: nn.Module, max_tokens: int, width: int) -> GraphModule:
    attend_to_every_key(model, max_tokens)
    example = min(8, max_tokens)
    size = torch.export.Dim("S", min=2, max=max_tokens)
    shapes = {"tokens": {1: size}, "positions": {0: size}, HIDDEN: {1: size}}
    inputs = (torch.zeros(1, example, dtype=torch.long), torch.arange(example), torch.zeros(1, example, width))
    graph = trace_module(JoinedInputs(model), model, inputs, shapes, export_any_size)
    refuse_special_sizes(graph, max_tokens, type(model).__name__)
    return graph
