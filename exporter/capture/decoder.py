"""Capture a decoder as a Program: torch.export over fake weights, without allocation; real ones are bound afterwards.

The model is built with transformers' own code for its family. Large parameters never exist while it is built
(``torch.empty`` gives a meta tensor above a size), small tensors are real, so that rotary tables and embedding scales
keep their values. Nothing here is model-specific: attention goes through ``edgec::attention``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.export import ExportedProgram
from torch.fx import GraphModule
from torch.overrides import TorchFunctionMode

from edgec.exporter.capture import attention
from edgec.exporter.capture.chosen_keys import attend_to_every_key
from edgec.exporter.capture.complex_pairs import complex_as_pairs
from edgec.exporter.capture.mixed_rotations import refuse_mixed_rotations
from edgec.exporter.capture.own_attention import plain_flags, use_operator
from edgec.exporter.capture.recurrences import call_recurrences, recognise_convolutions
from edgec.exporter.capture.untraceable import (
    refuse_special_sizes,
    refuse_unheld_layers,
    refuse_unknown_sizes,
    untraceable,
)
from edgec.exporter.sources.decoders.positions import first_place, follow_positions
from edgec.exporter.sources.model_build import tie, tied_parameters
from edgec.ir.attributes import attribute, remove, set_parameter, set_transposed
from edgec.ir.experts import EXPERTS, ExpertsCall
from edgec.ir.program import Dynamic, Interface, Program, TensorType
from edgec.ir.reexport import export_any_size, export_proved
from edgec.ir.spec import ModelSpec
from edgec.passes.contract import nodes_of

_SMALL = 1 << 16
_WRAPPED = "decoder."
# A module, its inputs, and torch.export's description of their varying dimensions -> the program.
Export = Callable[[nn.Module, tuple[Tensor, ...], Any], ExportedProgram]


class TensorSource(Protocol):
    """Where weights come from; ``tensor`` may return a memory-mapped tensor of any float dtype."""

    def tensor(self, name: str) -> Tensor:
        """The weight called ``name`` in the model's own state dict."""
        ...


class _LargeOnMeta(TorchFunctionMode):
    """Make ``torch.empty`` return a meta tensor above a size, so that layers are built without memory."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if func is torch.empty and _numel(args) > _SMALL:
            kwargs["device"] = "meta"
        return func(*args, **kwargs)


def _numel(args: tuple[Any, ...]) -> int:
    shape = args[0] if args and isinstance(args[0], (tuple, list, torch.Size)) else args
    return prod(int(size) for size in shape)


class _Decoder(nn.Module):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.decoder = model
        self.first = first_place(model)

    def forward(self, tokens: Tensor, positions: Tensor) -> Tensor:
        places = positions + self.first if self.first else positions
        with attention.query_positions(positions):
            output = self.decoder(input_ids=tokens, position_ids=places.unsqueeze(0), use_cache=False)
        logits: Tensor = output.logits
        return logits


@dataclass(frozen=True)
class Skeleton:
    """A model without weights.

    Attributes:
        model: as transformers builds it.
        aliases: every parameter's and stored float buffer's name -> the name under which a checkpoint holds the tensor.
    """

    model: nn.Module
    aliases: Mapping[str, str]

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of each distinct parameter and persistent buffer, by name."""
        tensors = {**dict(self.model.named_parameters()), **persistent_buffers(self.model)}
        return {name: tuple(t.shape) for name, t in tensors.items()}


def persistent_buffers(model: nn.Module) -> dict[str, Tensor]:
    """The buffers of a model that a checkpoint holds."""
    names = set(model.state_dict().keys())
    return {name: buffer for name, buffer in model.named_buffers() if name in names}


def build_skeleton(build: Callable[[], nn.Module]) -> Skeleton:
    """Build a model without allocating its large parameters."""
    attention.register()
    with _LargeOnMeta(), torch.no_grad():
        model = build().eval().requires_grad_(False).float()
        if hasattr(model, "tie_weights"):
            tie(model)
    first: dict[int, str] = {}
    named = model.named_parameters(remove_duplicate=False)
    aliases = {name: first.setdefault(id(parameter), name) for name, parameter in named}
    # A checkpoint holds a tied weight under its owner's name, which need not be the first.
    owners = tied_parameters(model)
    aliases = {name: owners.get(one, one) for name, one in aliases.items()}
    floats = (name for name, buffer in persistent_buffers(model).items() if buffer.is_floating_point())
    return Skeleton(model, {**{name: name for name in floats}, **aliases})


def capture_decoder(
    skeleton: Skeleton, spec: ModelSpec, weights: TensorSource, max_tokens: int, max_batch: int = 1
) -> Program:
    """Trace a decoder and bind its weights.

    Args:
        skeleton: the model without weights.
        spec: its shape.
        weights: by the model's own parameter names; kept in their stored dtype and cast in the graph.
        max_tokens: the longest sequence of one call.
        max_batch: the most sequences of one call, all at the same positions; above 1 (for training) B is dynamic.

    Returns:
        A Program with inputs tokens int64 [1, S] (or [B, S]) and positions int64 [S], output logits float32 [1, S, V].

    Raises:
        InputError: E109, the architecture cannot be traced; E740, its layers choose among the keys of such a text;
            E743, its rotations mix positions.
    """
    size = Dynamic("S", 1, max_tokens)
    batch = Dynamic("B", 1, max_batch) if max_batch > 1 else 1
    interface = Interface(
        inputs=(TensorType("tokens", torch.int64, (batch, size)), TensorType("positions", torch.int64, (size,))),
        outputs=(TensorType("logits", torch.float32, (batch, size, spec.vocab_size)),),
    )
    graph = _trace(skeleton.model, max_tokens, max_batch)
    follow_positions(graph)
    use_operator(graph)
    bind(graph, skeleton.aliases, weights)
    refuse_mixed_rotations(graph, max_tokens, type(skeleton.model).__name__)
    recognise_convolutions(graph)
    return Program(graph=graph, interface=interface, spec=spec)


def _trace(model: nn.Module, max_tokens: int, max_batch: int) -> GraphModule:
    attend_to_every_key(model, max_tokens)
    example = min(8, max_tokens)
    size = torch.export.Dim("S", min=2, max=max_tokens)
    batch = {0: torch.export.Dim("B", min=2, max=max_batch)} if max_batch > 1 else {}
    shapes = {"tokens": {**batch, 1: size}, "positions": {0: size}}
    inputs = (torch.zeros(min(2, max_batch), example, dtype=torch.long), torch.arange(example))
    graph = trace_module(_Decoder(model), model, inputs, shapes, export_any_size)
    refuse_special_sizes(graph, max_tokens, type(model).__name__)
    return graph


def trace_module(
    module: nn.Module, model: nn.Module, inputs: tuple[Tensor, ...], shapes: Any, export: Export = export_proved
) -> GraphModule:
    """Trace a module around a model of transformers, whose attention is edgec's operator.

    Args:
        module: holds the model as ``decoder``, and is called with the inputs.
        model: as ``build_skeleton`` made it; it can be traced once.
        inputs: examples of the smallest kind; their values do not matter.
        shapes: torch.export's description of the varying dimensions.
        export: one that leaves assertions about sizes in the graph asks the caller to try them.

    Raises:
        InputError: E109.
    """
    from torch._subclasses import FakeTensorMode
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    refuse_unheld_layers(model)
    fake = FakeTensorMode(allow_non_fake_inputs=True, shape_env=ShapeEnv())
    _fake_parameters(model, fake)
    try:
        with (
            fake,
            torch.no_grad(),
            attention.masks_left_out(model),
            plain_flags(),
            complex_as_pairs(),
            call_recurrences(model),
        ):
            made = export(module, inputs, shapes).module(check_guards=False)
    except Exception as error:
        raise untraceable(model, error) from error
    # torch.export's module class refuses the inputs that passes add.
    graph = GraphModule(made, made.graph)
    refuse_unknown_sizes(graph, type(model).__name__)
    return graph


def _fake_parameters(model: nn.Module, fake: Any) -> None:
    """Replace meta parameters by fake CPU ones: torch.export wants all tensors on one device."""
    twins: dict[int, nn.Parameter] = {}
    for module in model.modules():
        for name, parameter in list(module._parameters.items()):
            if parameter is None or parameter.device.type != "meta":
                continue
            if id(parameter) not in twins:
                with fake:
                    twins[id(parameter)] = nn.Parameter(torch.empty(parameter.shape), requires_grad=False)
            module._parameters[name] = twins[id(parameter)]


def bind(graph: GraphModule, aliases: Mapping[str, str], weights: TensorSource) -> None:
    """Give the graph's attributes their real tensors, one per tied group, with casts where the dtype differs."""
    held: dict[str, Tensor] = {}
    for target in sorted({str(node.target) for node in graph.graph.nodes if node.op == "get_attr"}):
        name = target.removeprefix(_WRAPPED)
        if name in aliases or name in _persistent_names(graph, target):
            canonical = aliases.get(name, name)
            value = held.setdefault(canonical, _stored(weights, canonical, attribute(graph, target)))
            set_parameter(graph, target, nn.Parameter(value, requires_grad=False))
    _transpose_experts(graph)
    _drop_unused(graph)
    _insert_casts(graph)
    graph.recompile()


def _stored(weights: TensorSource, name: str, built: Any) -> Tensor:
    """A tensor of the checkpoint; random weights leave buffers as the model was built with them."""
    try:
        return weights.tensor(name)
    except KeyError:
        if isinstance(built, nn.Parameter) or not isinstance(built, Tensor) or _is_fake(built):
            raise
        return built


def _transpose_experts(graph: GraphModule) -> None:
    """Let experts that are stored transposed be read as a view, so that no graph transposes them and none is copied."""
    for node in nodes_of(graph, EXPERTS):
        turned = ExpertsCall.of(node).weight
        if turned.target is torch.ops.aten.transpose.int and len(turned.all_input_nodes[0].users) == 1:
            stored = turned.all_input_nodes[0]
            value = attribute(graph, str(stored.target)).transpose(1, 2)
            set_transposed(graph, str(stored.target), value)
            stored.meta = dict(turned.meta)
            turned.replace_all_uses_with(stored)
            graph.graph.erase_node(turned)


def _persistent_names(graph: GraphModule, target: str) -> set[str]:
    """The attribute's name if it is a fake buffer, which only a checkpoint can fill; else nothing."""
    return {target.removeprefix(_WRAPPED)} if _is_fake(attribute(graph, target)) else set()


def _is_fake(value: object) -> bool:
    from torch._subclasses.fake_tensor import FakeTensor

    return isinstance(value, FakeTensor)


def _drop_unused(graph: GraphModule) -> None:
    used = {str(node.target) for node in graph.graph.nodes if node.op == "get_attr"}
    tensors = (*graph.named_parameters(remove_duplicate=False), *graph.named_buffers(remove_duplicate=False))
    for name in [name for name, _ in tensors if name not in used]:
        remove(graph, name)


def _insert_casts(graph: GraphModule) -> None:
    """Cast weights that are not float32 where the graph reads them; they stay in their stored dtype."""
    for node in [n for n in graph.graph.nodes if n.op == "get_attr"]:
        value = attribute(graph, str(node.target))
        if isinstance(value, Tensor) and value.is_floating_point() and value.dtype != torch.float32:
            with graph.graph.inserting_after(node):
                cast = graph.graph.call_function(torch.ops.aten.to.dtype, (node, torch.float32))
            cast.meta = dict(node.meta)
            node.replace_all_uses_with(cast, delete_user_cb=lambda user, keep=cast: user is not keep)
