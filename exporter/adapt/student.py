"""The graphs that training runs: the rewritten one that learns (student), and the original that teaches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.fx import GraphModule, Node
from torch.fx.graph import CodeGen
from torch.fx.node import map_aggregate

from edgec.errors import InputError
from edgec.exporter.adapt.settings import Settings
from edgec.exporter.adapt.training_graph import fuse_attention
from edgec.exporter.capture.decoder import build_skeleton, capture_decoder
from edgec.exporter.recipes.adapt_record import as_recorded, recorded_grids
from edgec.exporter.recipes.passes import passes_for
from edgec.exporter.recipes.recipe import Recipe
from edgec.exporter.sources.decoders.spec import model_spec
from edgec.ir.attention import layer_of
from edgec.ir.attributes import attribute, owner_of, transposed
from edgec.ir.program import Program
from edgec.passes.cleanup.remove_noops import RemoveNoops
from edgec.passes.compress.quantize import Quantize
from edgec.passes.compress.quantize_embedding import QuantizeEmbedding
from edgec.passes.compress.rounding.learned_grids import record_grids
from edgec.passes.compress.rounding.weight_grid import GPTQ
from edgec.passes.contract import Pass, run_passes
from edgec.passes.fuse.matmul_to_linear import MatmulToLinear
from edgec.passes.kv.shared_kv import SharedKv
from edgec.passes.train.fake_quantize import FakeQuantize
from edgec.passes.train.low_rank import LowRank
from edgec.passes.train.train_adapter import TrainAdapter

if TYPE_CHECKING:
    from edgec.exporter.sources.model_source import ModelSource

MAX_BATCH = 1024


@dataclass(frozen=True)
class Traced:
    """A captured decoder.

    Attributes:
        program: inputs tokens int64 [B, S] and positions int64 [S]; logits float32 [B, S, V].
        names: the graph's parameters -> the model's.
    """

    program: Program
    names: dict[str, str]


def build_student(source: ModelSource, recipe: Recipe, settings: Settings) -> Traced:
    """Build the rewritten graph, with weights or an adapter that can be trained.

    Args:
        source: a decoder.
        recipe: resolved for its backend.
        settings: for the length of sequences and the rank of adapters.

    Raises:
        InputError: E500 or E509, the recipe asks for what cannot be trained; E698, it leaves an adapter nothing to
            change; a pass is not legal on the model.
    """
    traced = capture_for_training(source, settings)
    recipe = as_recorded(recipe, source.config)
    program = run_passes(traced.program, reshaping_passes(recipe))
    products = transposed(program.graph) - transposed(traced.program.graph)
    _refuse_products(program, traced.names, bool(products) and settings.adapter)
    if settings.adapter:
        record_grids(program.graph, recorded_grids(source))
        program = run_passes(program, adapter_passes(recipe, settings.low_rank), in_place=True)
        fuse_attention(program.graph)
        return Traced(program, traced.names)
    make_trainable(program.graph)
    if settings.low_rank:
        for parameter in program.graph.parameters():  # adapters stand for the matrices; norms and biases still learn
            parameter.requires_grad_(parameter.dim() == 1)
    program = run_passes(program, rounding_passes(recipe, settings.low_rank))
    fuse_attention(program.graph)
    return Traced(program, traced.names)


def _refuse_products(program: Program, names: Mapping[str, str], beside_adapter: bool) -> None:
    """Refuse layers written as products, as GPT-2's, beside an adapter, and any whose matrix something else reads.

    Raises:
        InputError: E509.
    """
    unnamed = {str(node.target) for node in program.graph.graph.nodes if node.op == "get_attr"} - set(names)
    copies = [name for name in unnamed if isinstance(attribute(program.graph, name), nn.Parameter)]
    if copies or beside_adapter:
        raise InputError(
            what="layers of this model cannot be trained" if copies else "no adapter can be trained for this model",
            where=program.spec.family if program.spec else "the model",
            why=f"its layers are products with a transposed matrix, {_OF_COPIES if copies else _OF_ADAPTERS}",
            fix="export it without training"
            if copies
            else "train the model itself: add --merge, or leave --low-rank out",
            code="E509",
        )


_OF_COPIES = "which another layer reads as it is stored"
_OF_ADAPTERS = "beside which PEFT holds an adapter otherwise"


def build_teacher(source: ModelSource, settings: Settings) -> Program:
    """Build the graph of the original model, with keys and values shared as its training left them."""
    traced = capture_for_training(source, settings)
    shared = as_recorded(Recipe("teacher"), source.config)
    program = run_passes(traced.program, reshaping_passes(shared))
    fuse_attention(program.graph)
    return program


def reshaping_passes(recipe: Recipe) -> list[Pass]:
    """The passes that change what a graph computes, after those that write it in linear layers."""
    return [
        RemoveNoops(),
        MatmulToLinear(),
        *([SharedKv(recipe.boundary, recipe.shared_kv)] if recipe.shared_kv else []),
    ]


def rounding_passes(recipe: Recipe, low_rank: int = 0) -> list[Pass]:
    """The passes that round what a trainable graph computes, and the one that adds low-rank corrections.

    Raises:
        InputError: E509, the recipe has look-up tables of free values.
    """
    wanted = _integer_passes(recipe)
    weights = next((each for each in wanted if isinstance(each, Quantize)), None)
    embedding = next((each for each in wanted if isinstance(each, QuantizeEmbedding)), None)
    rounded = weights or embedding or recipe.kv_dtype != "float32"
    return [
        *([LowRank(low_rank)] if low_rank else []),
        *([FakeQuantize(weights, embedding, recipe.kv_dtype)] if rounded else []),
    ]


def adapter_passes(recipe: Recipe, rank: int) -> list[Pass]:
    """The passes that round a graph as an export does, for good, and the one that puts an adapter beside its integers.

    Raises:
        InputError: E509, the recipe has look-up tables, or fits its integers to a calibration text.
    """
    if recipe.algorithm == GPTQ:
        why = "its integers depend on the text that an export is calibrated on, and the adapter fits them alone"
        fix = 'use algorithm = "mse" or "hqq", for the bundle too'
        raise InputError(f"no adapter can be trained for {recipe.name}", "--recipe", why, fix, "E509")
    cache = [FakeQuantize(cache=recipe.kv_dtype)] if recipe.kv_dtype != "float32" else []
    return [*_integer_passes(recipe), *cache, TrainAdapter(rank)]


def _integer_passes(recipe: Recipe) -> list[Pass]:
    wanted = passes_for(recipe)
    if not all(isinstance(each, Quantize | QuantizeEmbedding) for each in wanted):
        raise InputError(
            what=f"the recipe {recipe.name} cannot be trained",
            where="--recipe",
            why="look-up tables of free values are not learned yet; integers and the balanced set are",
            fix='use kind = "int" or kind = "balanced" (balanced2), or train for --target host',
            code="E509",
        )
    return wanted


def capture_for_training(source: ModelSource, settings: Settings) -> Traced:
    """A captured decoder with its weights, for batches of up to ``MAX_BATCH`` sequences."""
    spec = model_spec(source.config)
    assert source.weights is not None
    read = replace(source, longest=settings.length)
    skeleton = build_skeleton(lambda: read.build_on(None, attn_implementation="edgec"))
    program = capture_decoder(skeleton, spec, source.weights, max(settings.length, 8), MAX_BATCH)
    targets = {str(node.target) for node in program.graph.graph.nodes if node.op == "get_attr"}
    plain = {target: target.removeprefix("decoder.") for target in targets}
    names = {target: skeleton.aliases.get(name, name) for target, name in plain.items()}
    return Traced(program, names)


def make_trainable(graph: GraphModule) -> None:
    """Give a graph its own float32 parameters with gradients; tied ones stay tied, casts to float32 are removed."""
    read = [node for node in graph.graph.nodes if node.op == "get_attr"]
    stored = {str(node.target): attribute(graph, str(node.target)) for node in read}
    owned: dict[tuple[int, torch.Size], nn.Parameter] = {}
    for target, value in stored.items():
        if isinstance(value, nn.Parameter) and value.is_floating_point():
            key = (value.data_ptr(), value.shape)
            owned.setdefault(key, nn.Parameter(value.detach().float().clone()))
            setattr(*owner_of(graph, target), owned[key])
    for node in read:
        if isinstance(stored[str(node.target)], nn.Parameter):
            _drop_casts(graph, node)
    graph.recompile()


def _drop_casts(graph: GraphModule, parameter: Node) -> None:
    for user in list(parameter.users):
        if user.target is torch.ops.aten.to.dtype and user.args[1] is torch.float32:
            user.replace_all_uses_with(parameter)
            graph.graph.erase_node(user)


def move_constants(graph: GraphModule, device: torch.device) -> None:
    """Make a graph create and keep its tensors on ``device``; captured graphs name the CPU, as rotary tables do."""

    def moved(argument: Any) -> Any:
        return device if isinstance(argument, torch.device) else argument

    for node in graph.graph.nodes:
        node.args, node.kwargs = map_aggregate(node.args, moved), map_aggregate(node.kwargs, moved)
    graph.recompile()


class TrainableDecoder(nn.Module):
    """A program's graph as a module that training calls.

    Args:
        program: a captured decoder.
        layers: also return every layer's attention output.
    """

    def __init__(self, program: Program, layers: bool = False) -> None:
        super().__init__()
        self.graph: nn.Module = program.graph
        self.layers = _expose_layers(program.graph) if layers else ()

    def forward(self, tokens: Tensor) -> tuple[Tensor, dict[int, Tensor]]:
        """Logits [B, S, V] and, if ``layers`` was set, attention outputs [B, S, H, D] by layer."""
        output: Any = self.graph(tokens, torch.arange(tokens.shape[1], device=tokens.device))
        values = output if isinstance(output, (tuple, list)) else (output,)
        return values[0], dict(zip(self.layers, values[1:], strict=True))


def _expose_layers(graph: GraphModule) -> tuple[int, ...]:
    # The captured signature fixes the number of outputs; a plain CodeGen does not.
    graph.graph.set_codegen(CodeGen())
    output = next(node for node in reversed(graph.graph.nodes) if node.op == "output")
    attentions = [(layer, node) for node in graph.graph.nodes if (layer := layer_of(node)) is not None]
    values = output.args[0]
    first = values[0] if isinstance(values, (tuple, list)) else values
    output.args = ((first, *(node for _, node in attentions)),)
    graph.recompile()
    return tuple(layer for layer, _ in attentions)
