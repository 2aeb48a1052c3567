"""A graph run as if in float16 ends where float16 does, and layers are ranked by what it takes off them."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from edgec.exporter.bit_search.float_layers import patterns
from edgec.exporter.capture.module import capture_module
from edgec.exporter.parity.half_run import errors_in_half, named, outputs_in_half
from tests.exporter.float_layers import difference, loud


def test_numbers_end_in_the_layer_that_overflows_until_it_is_kept() -> None:
    module, inputs = loud()
    graph = capture_module(module, inputs).graph
    outputs, ended = outputs_in_half(graph, inputs, named(()))
    assert ended == "power:sum" and not bool(outputs[0].isfinite().all())
    # What comes out of a kept sum is rounded again where another layer reads it.
    assert outputs_in_half(graph, inputs, named(["power:sum"]))[1] == "power:mul"
    (got,), ended = outputs_in_half(graph, inputs, named(["power:sum", "power:mul"]))
    with torch.no_grad():
        wanted = module(*inputs)
    assert ended == "" and float((got - wanted).abs().max() / wanted.abs().max()) < 5e-3


def test_a_mean_ends_where_its_sum_does() -> None:
    class Mean(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.mean((2, 3))

    graph = capture_module(Mean(), (x := torch.full((1, 1, 64, 64), 20.0),)).graph
    assert outputs_in_half(graph, (x,), named(()))[1] == ":mean"
    assert outputs_in_half(graph, (0.1 * x,), named(()))[1] == ""


def test_what_a_difference_loses_is_blamed_on_those_that_round_its_terms() -> None:
    module, inputs = difference()
    errors = errors_in_half(capture_module(module, inputs).graph, [inputs])
    assert min(errors["large:linear"], errors[":sub"], errors[":mean"]) > 0.1 > 100 * errors["last:linear"]


def test_a_module_is_named_where_all_of_it_is_kept() -> None:
    known = ["a:mul", "a:sum", "b:sum", "b.c:mul", ":add"]
    assert patterns(["a:sum", "a:mul"], known) == ("a",)
    assert patterns(["b:sum", ":add"], known) == ("b:sum", ":add")
    assert patterns(["b:sum", "b.c:mul"], known) == ("b", "b.c")
