"""The one method of any length: the numbers of the captured program, and what is refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from edgec.errors import InputError
from edgec.ir.program import Dynamic
from edgec.ir.stateful_call import CALL_POSITIONS, STACKED_ROWS, STATEFUL, StatefulGraph, stateful_names
from edgec.passes.contract import nodes_of, run_pass
from edgec.passes.prefill.last_logits import LastLogits
from edgec.passes.static.stacked_cache import StackedCache, refuse_unstackable
from edgec.passes.static.stateful_method import StatefulMethod
from tests.passes.stateful_methods import LAYOUTS, cached, executed, graph_logits, stateful, wanted
from tests.passes.static_methods import CONTEXT, captured

FAMILIES = ("short llama", "qwen3", "gemma2", "gemma3_text", "gemma3n_text", "mistral")
# Float32 sums in another order.
TOLERANCE = 1e-4
APPLE = STATEFUL["swift-transformers"]


@pytest.mark.sweep(4)
@pytest.mark.long
@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_method_keeps_the_numbers(name: str, layout: str) -> None:
    reference, got = wanted(name), graph_logits(stateful(name, layout), layout)
    assert float((got - reference).abs().max() / reference.abs().max()) < TOLERANCE


@pytest.mark.long
def test_inputs_states_and_output_have_the_names_that_swift_transformers_reads() -> None:
    interface = stateful("qwen3", "swift-transformers").interface
    assert [(each.name, each.dtype, each.shape) for each in interface.inputs] == [
        ("inputIds", torch.int32, (1, Dynamic("S", 1, CONTEXT))),
        ("causalMask", torch.float16, (1, 1, 1, Dynamic("E", 2, CONTEXT + 1))),
    ]
    assert [(state.buffer, state.shape, state.slots) for state in interface.states] == [
        ("keyCache", (3, 1, 2, CONTEXT, 16), CONTEXT),
        ("valueCache", (3, 1, 2, CONTEXT, 16), CONTEXT),
    ]
    assert [each.name for each in interface.outputs] == ["logits"]


@pytest.mark.long
def test_inputs_and_states_have_the_names_and_the_order_of_apples_engines() -> None:
    interface = stateful("qwen3", "coreai-models").interface
    assert [(each.name, each.shape[-1]) for each in interface.inputs] == [
        ("input_ids", Dynamic("S", 1, CONTEXT)),
        ("position_ids", Dynamic("E", 1, CONTEXT)),
    ]
    assert [state.buffer for state in interface.states] == ["keyCache", "valueCache"]


@pytest.mark.long
def test_each_layer_writes_both_stacks_once() -> None:
    written = [node.args[3] for node in nodes_of(stateful("qwen3", "coreai-models").graph, STACKED_ROWS)]
    assert written == [0, 0, 1, 1, 2, 2]


class Faulty(StatefulGraph):
    """A method whose call is spoilt."""

    spoil: Callable[[dict[str, Tensor], dict[str, Tensor]], None]

    def run(self, inputs: Mapping[str, Tensor], state: dict[str, Tensor]) -> dict[str, Tensor]:
        given = dict(inputs)
        type(self).spoil(given, state)
        return super().run(given, state)


def _swap(given: dict[str, Tensor], state: dict[str, Tensor]) -> None:
    state["keyCache"], state["valueCache"] = state["valueCache"], state["keyCache"]


def _one_less(given: dict[str, Tensor], state: dict[str, Tensor]) -> None:
    if given["inputIds"].shape[1] == 1:
        given["causalMask"] = given["causalMask"][..., :-1]


def _transpose(given: dict[str, Tensor], state: dict[str, Tensor]) -> None:
    state["keyCache"] = state["keyCache"].flip(2)


@pytest.mark.long
@pytest.mark.parametrize("spoil", [_swap, _one_less, _transpose])
def test_faults_of_a_caller_show_in_the_numbers(spoil: Callable[..., None]) -> None:
    class Spoilt(Faulty):
        pass

    Spoilt.spoil = staticmethod(spoil)
    reference = wanted("qwen3")
    got = executed(Spoilt(stateful("qwen3", "swift-transformers")), "swift-transformers")
    assert float((got - reference).abs().max() / reference.abs().max()) > 100 * TOLERANCE


def test_a_graph_with_chosen_rows_is_refused() -> None:
    with pytest.raises(InputError, match="E857"):
        run_pass(run_pass(captured("qwen3"), LastLogits(1)), StatefulMethod(APPLE, CONTEXT))


def test_a_context_that_the_reader_does_not_open_is_refused() -> None:
    with pytest.raises(InputError, match="E857"):
        run_pass(cached("qwen3"), StatefulMethod(APPLE, 3))
    assert run_pass(cached("qwen3"), StatefulMethod(APPLE, 4)).interface.inputs


@pytest.mark.long
def test_caches_of_different_widths_are_refused_before_and_after_they_are_caches() -> None:
    program = cached("qwen3")
    first, *others = program.interface.states
    odd = replace(first, shape=(*first.shape[:-1], first.shape[-1] * 2))
    changed = replace(program, interface=replace(program.interface, states=(odd, *others)))
    with pytest.raises(InputError, match="E858"):
        run_pass(run_pass(changed, StatefulMethod(APPLE, CONTEXT)), StackedCache(APPLE))
    refuse_unstackable(captured("qwen3"))
    with pytest.raises(InputError, match="E858"):
        refuse_unstackable(captured("gemma4_text"))


def test_a_function_is_told_by_its_inputs() -> None:
    assert stateful_names(["causalMask", "inputIds"]) is APPLE
    assert stateful_names(["input_ids", "position_ids"]) is STATEFUL["coreai-models"]
    assert stateful_names(["tokens", "start", "last"]) is None


def test_positions_count_from_the_size_alone() -> None:
    ids = torch.zeros(1, 3, dtype=torch.int32)
    assert CALL_POSITIONS(ids, torch.full((1, 1, 1, 9), -1.0), 1).tolist() == [5, 6, 7]
    assert CALL_POSITIONS(ids, torch.zeros(1, 3), 0).tolist() == [0, 1, 2]
