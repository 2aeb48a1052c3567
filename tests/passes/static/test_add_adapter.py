"""Low-rank changes beside the matrices: PEFT's numbers, the base's own tensors, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from benchmarks.coverage_parts.tiny import tiny_config
from benchmarks.coverage_parts.tiny import tiny_model as seeded
from edgec.errors import InputError
from edgec.ir.attributes import attribute
from edgec.ir.program import Program
from edgec.passes.cleanup.remove_noops import RemoveNoops
from edgec.passes.compress.quantize import Quantize
from edgec.passes.contract import run_pass
from edgec.passes.fuse.matmul_to_linear import MatmulToLinear
from edgec.passes.prefill.last_logits import LastLogits
from edgec.passes.static.add_adapter import AddAdapter, LowRankChange, LowRankChanges, is_added
from edgec.passes.static.split_linear import LIMIT
from tests.passes.decoders import ROWS, captured, tiny_model, tokens
from tests.passes.static.test_other_decoders import captured as gpt2

# Float32 sums in another order: 1e-6 of the largest logit was measured.
TOLERANCE = 1e-5
SCALE = 1.5
MODULES = ("model.layers.0.self_attn.q_proj", "model.layers.1.self_attn.v_proj", "model.layers.1.mlp.down_proj")


def changes(model: Any, names: tuple[str, ...] = MODULES, rank: int = 3) -> LowRankChanges:
    """Random changes of a model's linear layers, large enough to be seen."""
    generator, made = torch.Generator().manual_seed(5), dict[str, LowRankChange]()
    for name in names:
        rows, width = model.get_submodule(name).weight.shape
        a, b = (torch.randn(size, generator=generator) * 0.3 for size in ((rank, width), (rows, rank)))
        made[name] = LowRankChange(a, b, SCALE)
    return LowRankChanges(made)


def logits(program: Program, length: int = 20) -> Tensor:
    """Of every position of some tokens, float32 [S, V]; the graph gives at most eight rows a call."""
    ids, positions = torch.tensor([tokens()[:length]]), torch.arange(length)
    rows = [program.graph(ids, positions, part)[0] for part in torch.arange(length).split(8)]
    return torch.cat(rows)


@torch.no_grad()
def wanted(model: Any, added: LowRankChanges, length: int = 20) -> Tensor:
    """The same of transformers' model with the changes added to the outputs of its modules."""

    def hook(change: LowRankChange) -> Callable[..., Tensor]:
        return lambda module, given, out: out + change.scale * (given[0] @ change.a.T) @ change.b.T

    handles = [model.get_submodule(name).register_forward_hook(hook(each)) for name, each in added.of.items()]
    try:
        result: Tensor = model(torch.tensor([tokens()[:length]])).logits[0]
        return result
    finally:
        for handle in handles:
            handle.remove()


def relative(got: Tensor, right: Tensor) -> float:
    return float((got - right).abs().max() / right.abs().max())


@pytest.mark.long
@pytest.mark.parametrize(("family", "options"), [("llama", {}), ("llama", {"tie_word_embeddings": True})])
def test_the_numbers_are_those_of_the_model_with_the_changes(family: str, options: dict[str, Any]) -> None:
    model = tiny_model(family, **options)
    added = changes(model, (*MODULES, "lm_head"))
    after = run_pass(captured(family, **options), AddAdapter("pirate", added, LIMIT))
    right = wanted(model, added)
    assert relative(logits(after), right) < TOLERANCE
    assert relative(logits(captured(family, **options)), right) > 0.1


@pytest.mark.long
def test_gpt2s_matrices_which_lie_the_other_way_round() -> None:
    program, model = gpt2("gpt2"), seeded(tiny_config("gpt2")).eval()
    name, generator = "transformer.h.1.mlp.c_fc", torch.Generator().manual_seed(1)
    width, rows = model.get_submodule(name).weight.shape
    a, b = (torch.randn(size, generator=generator) * 0.3 for size in ((2, width), (rows, 2)))
    added = LowRankChanges({name: LowRankChange(a, b, SCALE)})
    for each in (RemoveNoops(), LastLogits(ROWS), MatmulToLinear(), AddAdapter("pirate", added, LIMIT)):
        program = run_pass(program, each)
    assert relative(logits(program), wanted(model, added)) < TOLERANCE
    assert relative(logits(program), wanted(model, LowRankChanges({}))) > 0.01


@pytest.mark.long
def test_rounded_matrices_keep_their_integers_and_share_them() -> None:
    base = run_pass(captured(), Quantize())
    after = run_pass(base, AddAdapter("poet", changes(tiny_model()), LIMIT))
    names = {str(node.target) for node in base.graph.graph.nodes if node.op == "get_attr"}
    for name in names:
        assert attribute(after.graph, name).data_ptr() == attribute(base.graph, name).data_ptr()
    added = {str(node.target) for node in after.graph.graph.nodes if node.op == "get_attr"} - names
    assert len(added) == 2 * len(MODULES) and all(map(is_added, added)) and not any(map(is_added, names))
    assert relative(logits(base), logits(after)) > 0.01


def test_an_adapter_that_changes_nothing_leaves_the_numbers() -> None:
    nothing = LowRankChanges(
        {
            name: LowRankChange(each.a, torch.zeros_like(each.b), SCALE)
            for name, each in changes(tiny_model()).of.items()
        }
    )
    after = run_pass(captured(), AddAdapter("none", nothing, LIMIT))
    assert torch.equal(logits(after), logits(captured()))


def test_a_module_that_the_graph_lacks_is_refused_by_name() -> None:
    known = changes(tiny_model()).of
    added = LowRankChanges({**known, "model.layers.7.self_attn.q_proj": known[MODULES[0]]})
    with pytest.raises(InputError, match=r"model\.layers\.7\.self_attn\.q_proj.*E693"):
        run_pass(captured(), AddAdapter("pirate", added, LIMIT))


def test_an_lm_head_that_will_be_cut_is_refused() -> None:
    added = changes(tiny_model(), ("lm_head",))
    with pytest.raises(InputError, match="E693") as caught:
        run_pass(captured(), AddAdapter("pirate", added, most_logits=95))
    assert "96 logits" in caught.value.why


def test_its_option_in_a_history_is_short() -> None:
    after = run_pass(captured(), AddAdapter("pirate", changes(tiny_model()), LIMIT))
    options = after.history[-1].options
    assert options["adapter"] == "pirate" and len(str(options)) < 400
