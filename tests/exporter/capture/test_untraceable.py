"""Decoders whose sizes depend on what comes, or fit some numbers of tokens only."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.fx import GraphModule

from edgec.errors import InputError
from edgec.exporter.capture.untraceable import (
    refuse_special_sizes,
    refuse_unheld_layers,
    refuse_unknown_sizes,
    untraceable,
)
from edgec.ir.reexport import export_any_size

MOST = 64


def graph_of(module: nn.Module) -> GraphModule:
    size = torch.export.Dim("S", min=2, max=MOST)
    inputs = (torch.zeros(1, 8, dtype=torch.long), torch.arange(8))
    made = export_any_size(module, inputs, {"tokens": {1: size}, "positions": {0: size}}).module(check_guards=False)
    return GraphModule(made, made.graph)


class KeyIndexer(nn.Module):
    pass


class LSHSelfAttention(nn.Module):
    pass


class OwnExperts(nn.Module):
    pass


class Chosen(nn.Module):
    def forward(self, tokens: Tensor, positions: Tensor) -> Tensor:
        return positions[(tokens[0] > 3).nonzero().flatten()]


class Even(nn.Module):
    def forward(self, tokens: Tensor, positions: Tensor) -> Tensor:
        return positions.view(-1, 2).flip(1)


def test_a_size_that_tokens_decide_is_refused() -> None:
    with pytest.raises(InputError, match="depends on the tokens, as when experts sort them") as raised:
        refuse_unknown_sizes(graph_of(Chosen()), "a model")
    assert raised.value.code == "E109"


def test_sizes_for_even_numbers_of_tokens_are_refused() -> None:
    with pytest.raises(InputError, match="some numbers of tokens") as raised:
        refuse_special_sizes(graph_of(Even()), MOST, "a model")
    assert raised.value.code == "E109"


def test_a_module_that_chooses_keys_is_refused_by_name() -> None:
    with pytest.raises(InputError, match=r"0\.1 \(KeyIndexer\) chooses which keys") as raised:
        refuse_unheld_layers(nn.Sequential(nn.Sequential(nn.Identity(), KeyIndexer())))
    assert raised.value.code == "E109"


def test_a_layer_that_attends_within_padded_chunks_is_refused_by_name() -> None:
    with pytest.raises(InputError, match=r"1 \(LSHSelfAttention\) cuts the text into chunks"):
        refuse_unheld_layers(nn.Sequential(nn.Identity(), LSHSelfAttention()))
    refuse_unheld_layers(nn.Sequential(nn.Identity(), OwnExperts()))


def test_the_reason_is_the_line_that_says_it() -> None:
    error = RuntimeError("Constraints violated (S)! For more information, run with LOGS\n  - S must be 8\n")
    assert untraceable(nn.Identity(), error).why == "S must be 8"


def test_a_loop_over_experts_is_named_where_values_decide_sizes() -> None:
    error = RuntimeError("Could not guard on data-dependent expression Eq(u0, 0)")
    assert "0 (OwnExperts)" in untraceable(nn.Sequential(OwnExperts()), error).why
    assert "data-dependent" in untraceable(nn.Sequential(nn.Identity()), error).why
