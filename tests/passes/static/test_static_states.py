"""Recurrences as static methods: the numbers are those of the operators token by token, whatever the padding."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.fx import Graph, GraphModule, Node

from edgec.errors import InputError
from edgec.exporter.capture.decoder import build_skeleton, capture_decoder
from edgec.exporter.parity.execution import run_program
from edgec.exporter.sources.decoders.spec import model_spec
from edgec.exporter.sources.hf_config import plain_config
from edgec.ir import recurrence
from edgec.ir.program import Interface, Program, State, TensorType
from edgec.ir.state_operators import (
    CACHED_CONV,
    CACHED_DELTA_RULE,
    CACHED_RECURRENCE,
    CACHED_SCAN,
    CACHED_SSD,
    CACHED_WKV,
)
from edgec.ir.static_methods import GraphMethods
from edgec.passes.cleanup.fold_constants import FoldConstants
from edgec.passes.cleanup.remove_noops import RemoveNoops
from edgec.passes.contract import Pass, run_pass
from edgec.passes.fuse.fuse_rms_norm import FuseRmsNorm
from edgec.passes.fuse.matmul_to_linear import MatmulToLinear
from edgec.passes.kv.kv_cache import KvCache
from edgec.passes.prefill.last_logits import LastLogits
from edgec.passes.prefill.prefill_skip import PrefillSkip
from edgec.passes.static.finite_mask import FiniteMask
from edgec.passes.static.fp16_safe_norm import Fp16SafeNorm
from edgec.passes.static.linear_to_conv2d import LinearToConv2d
from edgec.passes.static.position_tables import PositionTables
from edgec.passes.static.split_linear import SplitLinear
from edgec.passes.static.static_cache import StaticCache
from edgec.passes.static.static_method import StaticMethod
from edgec.passes.static.static_states import StaticStates
from tests.exporter.capture.test_recurrences import Own
from tests.families import Family, build, empty_model
from tests.passes.static_methods import CHUNK, CONTEXT, PLAN, applied, methods, run, tokens
from tests.passes.static_methods import cached as cached_decoder
from tests.state_families import STATE_FAMILIES

# Float32 sums in another order: ten times what is measured (5e-6 of the largest logit).
TOLERANCE = 5e-5
# A short convolution, and a state that decays.
QUICK = ("lfm2", "mamba2")
NEURAL: Sequence[Pass] = (Fp16SafeNorm(), SplitLinear(48, 40), LinearToConv2d(), FiniteMask())


@pytest.fixture(
    scope="module",
    params=[f if f.name in QUICK else pytest.param(f, marks=pytest.mark.slow) for f in STATE_FAMILIES],
    ids=lambda family: family.name,
)
def cached(request: pytest.FixtureRequest) -> tuple[Program, Tensor]:
    """A family with full-length caches and states, and the logits of its program that has neither."""
    family: Family = request.param
    config, model = family.config(), build(family, "eager")
    spec = model_spec(plain_config(config))
    program = capture_decoder(build_skeleton(empty_model(config)), spec, Own.of(model), CONTEXT)
    cache = KvCache(CONTEXT, CHUNK, rings=False, revocable=1)
    passes = (RemoveNoops(), MatmulToLinear(), LastLogits(1), FuseRmsNorm(), cache, PrefillSkip(), FoldConstants())
    return applied(program, passes), run_program(program, tokens(), PLAN)


def relative(got: Tensor, wanted: Tensor) -> float:
    return float((got - wanted).abs().max() / wanted.abs().max())


@pytest.mark.long
def test_states_in_place_with_all_passes_for_the_neural_engine(cached: tuple[Program, Tensor]) -> None:
    program, wanted = cached
    programs = methods(program, [PositionTables(CONTEXT), StaticStates(), StaticCache(), *NEURAL])
    assert relative(run(programs), wanted) < TOLERANCE
    for method in programs.values():
        assert all(state.shape[-1] % 32 == 0 and len(state.shape) == 4 for state in method.interface.states)
        assert all(state.slots == 1 for state in method.interface.states if state.layout == "recurrent")


def test_states_that_the_caller_replaces(cached: tuple[Program, Tensor]) -> None:
    program, wanted = cached
    programs = methods(program, [PositionTables(CONTEXT), StaticStates(1, "caller"), StaticCache(1, "caller")])
    assert relative(run(programs), wanted) < TOLERANCE
    decode = programs["decode"].interface
    held = {state.buffer for state in decode.states if state.layout == "recurrent"}
    assert held <= {tensor.name for tensor in decode.inputs}
    assert {f"next_{name}" for name in held} <= {tensor.name for tensor in decode.outputs}


# Heads, groups of keys, keys, values, channels, taps of a filter.
H, G, N, P, W, K = 4, 2, 8, 6, 10, 3


@dataclass(frozen=True)
class Case:
    """One operator.

    Attributes:
        cached, plain: the operator over a state, and the meaning of the one without.
        state: the state's shape.
        tokens: shapes of what each token brings.
        weights: shapes of what all tokens share.
        numbers: the arguments after the state.
    """

    cached: Any
    plain: Callable[..., Tensor]
    state: tuple[int, ...]
    tokens: tuple[tuple[int, ...], ...]
    weights: tuple[tuple[int, ...], ...] = ()
    numbers: tuple[Any, ...] = ()

    def values(self, length: int) -> list[Tensor]:
        """What each token brings, [1, length, ...]; decays and steps are positive."""
        draw = torch.Generator().manual_seed(7)
        each = [torch.randn(1, length, *shape, generator=draw) for shape in self.tokens]
        return [change(value) for change, value in zip(_RANGES[self.cached], each, strict=True)]

    def shared(self) -> list[Tensor]:
        """What all tokens share; log decays are negative."""
        draw = torch.Generator().manual_seed(8)
        each = [torch.randn(*shape, generator=draw) for shape in self.weights]
        return each if self.cached is CACHED_CONV else [-value.exp() for value in each[:1]] + each[1:]

    def arguments(self, values: Sequence[Any], shared: Sequence[Any], *rest: Any) -> tuple[Any, ...]:
        """The operator's arguments: ssd and scan have A between their tokens' values, and D after them."""
        if self.cached in (CACHED_SSD, CACHED_SCAN):
            return (*values[:2], shared[0], *values[2:], shared[1], *rest, *self.numbers)
        return (*values, *shared, *rest, *self.numbers)


def _plain(value: Tensor) -> Tensor:
    return value


_RANGES: dict[Any, Sequence[Callable[[Tensor], Tensor]]] = {
    CACHED_CONV: [_plain],
    CACHED_DELTA_RULE: [_plain, _plain, _plain, lambda value: -value.exp(), torch.sigmoid],
    CACHED_SSD: [_plain, torch.exp, _plain, _plain],
    CACHED_SCAN: [_plain, torch.exp, _plain, _plain],
    CACHED_RECURRENCE: [_plain, torch.sigmoid],
    CACHED_WKV: [lambda value: 3 * value, _plain],
}
DELTA = Case(
    *(CACHED_DELTA_RULE, recurrence.delta_rule, (H, N, P), ((G, N), (G, N), (H, P), (H,), (H,))),
    numbers=(True, N**-0.5),
)
CASES = {
    "conv": Case(CACHED_CONV, recurrence.causal_conv, (K - 1, W), ((W,),), ((W, K), (W,)), numbers=(True,)),
    "delta rule": DELTA,
    "ssd": Case(CACHED_SSD, recurrence.ssd, (H, N, P), ((H, P), (H,), (G, N), (G, N)), ((H,), (H,))),
    "scan": Case(CACHED_SCAN, recurrence.selective_scan, (N, W), ((W,), (W,), (N,), (N,)), ((W, N), (W,))),
    "recurrence": Case(CACHED_RECURRENCE, recurrence.linear_recurrence, (W,), ((W,), (W,))),
    "wkv": Case(CACHED_WKV, recurrence.wkv, (3, W), ((W,), (W,)), ((W,), (W,))),
}


def reference(case: Case, values: Sequence[Tensor]) -> Tensor:
    """The operator over the whole sequence, token by token, in double precision."""
    wide = [[value.double() for value in part] for part in (values, case.shared())]
    return case.plain(*case.arguments(*wide, torch.arange(values[0].shape[1])))


def method(case: Case, size: int) -> Program:
    """A static method of one operator: its tokens' values are inputs, its result the output."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    mode, graph, module = FakeTensorMode(allow_non_fake_inputs=True), Graph(), nn.Module()

    def known(node: Node, value: Tensor) -> Node:
        node.meta["val"] = mode.from_tensor(value)
        return node

    def held(name: str, value: Tensor) -> Node:
        module.register_buffer(name, value)
        return known(graph.get_attr(name), value)

    one, values = torch.zeros(1, dtype=torch.int32), case.values(size)
    inputs = {"tokens": torch.zeros(1, size, dtype=torch.int32), "start": one, "last": one}
    inputs |= {f"value_{index}": value for index, value in enumerate(values)}
    given = [known(graph.placeholder(name), value) for name, value in inputs.items()]
    # The operators read filters and decays turned.
    turned = [weight.t().contiguous() if weight.dim() == 2 else weight for weight in case.shared()]
    shared = [held(f"weight_{index}", weight) for index, weight in enumerate(turned)]
    state = {"state": torch.zeros(1, 1, *case.state), "log": torch.zeros(1, 1, 1), "seen": one[None, None].long()}
    kept = [held(f"x_{role}", value) for role, value in state.items()]
    rest = (held("positions", torch.arange(size)), *kept)
    result = graph.call_function(case.cached, case.arguments(given[3:], shared, *rest))
    graph.output(known(result, reference(case, values).float()))
    types = tuple(TensorType(name, value.dtype, tuple(value.shape)) for name, value in inputs.items())
    interface = Interface(
        types,
        (TensorType("logits", torch.float32, tuple(result.meta["val"].shape)),),
        tuple(
            State(f"x_{role}", 0, f"recurrent_{role}", value.dtype, tuple(value.shape), "recurrent", 1)
            for role, value in state.items()
        ),
    )
    return run_pass(Program(GraphModule(module, graph), interface), StaticStates(multiple=4))


def fed(case: Case, values: Sequence[Tensor], calls: Sequence[int], size: int, programs: GraphMethods) -> Tensor:
    """The operator's results over calls of so many tokens, padded to ``size`` with large numbers; one is not padded."""
    rows, at = [], 0
    for count in calls:
        name, room = ("decode", 1) if count == 1 else ("prefill", size)
        whole = [torch.cat([v[:, at : at + count], 9.0 * torch.ones(1, room - count, *v.shape[2:])], 1) for v in values]
        numbers = {"start": at, "last": count - 1}
        inputs = {key: torch.tensor([number], dtype=torch.int32) for key, number in numbers.items()}
        inputs |= {"tokens": torch.zeros(1, room, dtype=torch.int32)}
        inputs |= {f"value_{index}": value for index, value in enumerate(whole)}
        rows.append(programs.outputs(name, inputs)["logits"][:, :count].clone())
        at += count
    return torch.cat(rows, 1)


def opened(case: Case, size: int) -> GraphMethods:
    return GraphMethods({"prefill": method(case, size), "decode": method(case, 1)})


# Whole chunks, parts of one, single tokens.
CALLS = (16, 16, 5, 1, 1, 11, 1)


@torch.no_grad()
@pytest.mark.parametrize("name", CASES)
def test_an_operator_over_padded_chunks_and_single_tokens_and_again_from_the_start(name: str) -> None:
    case = CASES[name]
    values, programs = case.values(sum(CALLS)), opened(case, 16)
    for _ in range(2):
        got = fed(case, values, CALLS, 16, programs)
        # Float32 in another order against float64: some hundred roundings of 6e-8.
        assert relative(got, reference(case, values)) < 2e-5


@torch.no_grad()
@pytest.mark.parametrize("size", [24, 64])
def test_the_delta_rule_of_similar_keys_that_hardly_decay(size: int) -> None:
    """The hardest system to solve: all rows depend on all earlier ones with weights near 1."""
    length = 2 * size
    q, k, v, g, beta = DELTA.values(length)
    values = [q, k[:, :1] + 0.02 * k, v, 0.001 * g, torch.ones_like(beta)]
    got = fed(DELTA, values, (size, size), size, opened(DELTA, size))
    # Each write is a small difference of large values, and later ones depend on it: digits of float32 cancel.
    assert relative(got, reference(DELTA, values)) < 1e-4


def test_a_decay_for_each_key_is_refused() -> None:
    kimi = replace(DELTA, tokens=(*DELTA.tokens[:3], (H, N), (H,)))
    with pytest.raises(InputError) as refused:
        method(kimi, 16)
    assert refused.value.code == "E513"


def test_without_recurrences_nothing_changes() -> None:
    program = applied(cached_decoder("llama"), [StaticMethod("decode", 1), PositionTables(CONTEXT)])
    after = run_pass(program, StaticStates())
    assert len(after.graph.graph.nodes) == len(program.graph.graph.nodes) and after.interface == program.interface
