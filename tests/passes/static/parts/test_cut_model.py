"""A static method in several parts computes what it computed in one."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

from edgec.errors import InputError
from edgec.ir.program import Program
from edgec.ir.static_methods import GraphMethods
from edgec.passes.contract import Pass, nodes_of
from edgec.passes.static.fp16_safe_norm import Fp16SafeNorm
from edgec.passes.static.linear_to_conv2d import LinearToConv2d
from edgec.passes.static.parts.cut_model import HIDDEN, cut_model, stored_sizes
from edgec.passes.static.position_tables import PositionTables
from edgec.passes.static.static_cache import StaticCache
from edgec.passes.static.static_method import StaticMethod
from tests.passes.static_methods import CHUNK, CONTEXT, PLAN, applied, cached, methods, reference, tokens


def prefill(name: str) -> Program:
    passes: list[Pass] = [PositionTables(CONTEXT), StaticCache(), Fp16SafeNorm(), LinearToConv2d()]
    return applied(cached(name), [StaticMethod("prefill", CHUNK), *passes])


def run(parts: list[Program]) -> Tensor:
    given = torch.tensor([tokens(CHUNK)], dtype=torch.int32)
    values = {"tokens": given, "start": torch.zeros(1, dtype=torch.int32), "last": torch.tensor([CHUNK - 1])}
    for part in parts:
        GraphMethods({"prefill": part})
        with torch.no_grad():
            result = part.graph(*(values[tensor.name] for tensor in part.interface.inputs))
        values[HIDDEN] = result[0] if isinstance(result, tuple) else result
    return values[HIDDEN]


@pytest.mark.long
@pytest.mark.parametrize("name", ["llama", "gemma3_text"])
def test_parts_one_after_the_other_are_the_whole(name: str) -> None:
    program = prefill(name)
    sizes = stored_sizes(program)
    parts = cut_model(program, sizes, sum(sizes.values()) // 2)
    assert len(parts) > 1
    assert torch.equal(run(parts), run([program]))


def test_every_part_is_below_the_limit_and_every_layer_is_in_one() -> None:
    program = prefill("llama")
    sizes = stored_sizes(program)
    limit = sum(sizes.values()) // 2
    parts = cut_model(program, sizes, limit)
    for part in parts:
        held = {str(n.target) for n in part.graph.graph.nodes if n.op == "get_attr"}
        weights = [sizes[each] for each in held if each in sizes and "table" not in each and "slot" not in each]
        assert sum(weights) <= limit
    softmaxes = [len(nodes_of(part.graph, torch.ops.aten.softmax.int)) for part in parts]
    assert sum(softmaxes) == 3
    states = [state.buffer for part in parts for state in part.interface.states]
    assert len(states) == len(set(states)) == 6


def test_a_small_model_stays_whole() -> None:
    program = prefill("llama")
    assert cut_model(program, stored_sizes(program), 1 << 40) == [program]


@pytest.mark.long
def test_a_layer_that_reads_an_earlier_cache_stays_with_it() -> None:
    program = prefill("gemma4_text")
    sizes = stored_sizes(program)
    with pytest.raises(InputError, match="E408"):
        cut_model(program, sizes, max(sizes.values()) - 1)


@pytest.mark.slow
def test_several_packages_compute_what_one_does(tmp_path: Path) -> None:
    from edgec.backends.coreml import mlpackage
    from edgec.ir.static_methods import run_static

    programs = methods_of("llama")
    whole = sum(stored_sizes(programs["prefill"]).values())
    mlpackage.lower(programs, tmp_path / "model.mlpackage", lambda step, done, total: None, part_bytes=whole // 2)
    assert len(mlpackage.packages(tmp_path / "model.mlpackage")) > 1
    got = run_static(mlpackage.execute(tmp_path / "model.mlpackage"), tokens(), PLAN)
    wanted = reference("llama")
    # float16 against float32: 7e-3 of the largest logit at most over five families.
    assert float((got - wanted).abs().max() / wanted.abs().max()) < 3e-2


def methods_of(name: str) -> dict[str, Program]:
    """Both methods after the passes that a package needs."""
    return methods(cached(name), [PositionTables(CONTEXT), StaticCache(), Fp16SafeNorm(), LinearToConv2d()])
