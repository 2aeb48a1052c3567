"""A decoder's Program to a .pte for ExecuTorch's CPU runtime.

captured graph -> regions of edgec's linear kernels -> delegates in their place (linear/delegate.py)
-> clusters of what is left -> one XNNPACK template per kind of region -> delegates in place of the clusters
-> torch.export -> to_edge -> convolutions to XNNPACK (convolutions.py) -> to_executorch -> bytes
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

import torch
from executorch.exir import EdgeCompileConfig, ExecutorchBackendConfig, ExecutorchProgramManager
from executorch.exir.passes import MemoryPlanningPass
from executorch.exir.passes.sym_shape_eval_pass import ConstraintBasedSymShapeEvalPass
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node

from edgec.backends.cpu.embedding import replace_embeddings
from edgec.backends.cpu.linear.delegate import linear_regions, replace_regions
from edgec.backends.cpu.linear.experts import experts_regions, put_experts_last, replace_experts
from edgec.backends.cpu.linear.float_inputs import refuse_float_inputs
from edgec.backends.cpu.linear.layout import BlockRows
from edgec.backends.cpu.multimodal_runner import with_text_decoder
from edgec.backends.cpu.regions.clusters import clusters, constants_of
from edgec.backends.cpu.regions.delegate import DelegateConstant, Template, instantiate, lower_template
from edgec.backends.cpu.regions.delegation import Work, delegation, works_of
from edgec.backends.cpu.regions.region import DelegateRegion, extract
from edgec.backends.cpu.regions.replace import replace_clusters
from edgec.backends.cpu.rewrites.convolutions import LoweredWorks, lowered_works, to_edge_with_convolutions
from edgec.backends.cpu.rewrites.divisions import write_out_divisions
from edgec.backends.cpu.rewrites.float_rows import write_out_float_rows
from edgec.backends.cpu.rewrites.norms import write_out_norms
from edgec.backends.cpu.rewrites.pixel_shuffle import write_out_pixel_shuffles
from edgec.backends.cpu.rewrites.recurrent_layers import read_recurrent_integers
from edgec.backends.cpu.rewrites.reduced_dimensions import keep_reduced_dimensions
from edgec.backends.cpu.rewrites.slopes import write_out_slopes
from edgec.backends.cpu.rewrites.static_ranges import write_out_channels
from edgec.backends.cpu.rewrites.tanh_gelu import write_out_tanh_gelus
from edgec.backends.cpu.speech_runner import with_speech_decoder
from edgec.backends.cpu.text_runner import RunnerFacts, with_last_logits
from edgec.backends.static_artifact import LoweringProgress
from edgec.bundle.findings import Delegation
from edgec.free_memory import return_free_memory
from edgec.ir.encoder_operators import BIASED_ATTENTION, ENCODER_ATTENTION
from edgec.ir.operators import CACHED_ATTENTION
from edgec.ir.program import Dynamic, Interface, Program
from edgec.ir.reexport import reexport
from edgec.ir.row_tensor import put_rows, stood_in
from edgec.ir.state_operators import CACHED_STATES
from edgec.passes.contract import nodes_of

METHOD = "forward"
_STATE_ARENA = 2
_OWN = (CACHED_ATTENTION, BIASED_ATTENTION, ENCODER_ATTENTION, *CACHED_STATES)


@dataclass(frozen=True)
class Lowered:
    """A lowered decoder, with what the manifest says about it.

    Attributes:
        write: writes the .pte file to a binary stream piece by piece, so that it is never in memory as a whole.
        delegation: where the arithmetic runs.
        operators: kernels that the runtime must have, by name.
        stored_by_method: constants inside each method's delegates.
        state_offsets: where each state lies in the arena of states, bytes, by name.
    """

    write: Callable[[BinaryIO], None]
    delegation: Delegation
    operators: tuple[str, ...]
    stored_by_method: Mapping[str, tuple[DelegateConstant, ...]]
    state_offsets: dict[str, int]

    @property
    def stored(self) -> tuple[DelegateConstant, ...]:
        """Constants inside the delegates of all methods."""
        return tuple(constant for stored in self.stored_by_method.values() for constant in stored)

    @property
    def artifact(self) -> bytes:
        """The .pte file's bytes."""
        stream = BytesIO()
        self.write(stream)
        return stream.getvalue()


@dataclass(frozen=True)
class Linear:
    """What was lowered to edgec's linear kernels."""

    delegates: int = 0
    work: tuple[Work, ...] = ()
    stored: tuple[DelegateConstant, ...] = ()


def lower(
    program: Program,
    progress: LoweringProgress = lambda stage, done, total: None,
    block_rows: BlockRows | None = None,
) -> Lowered:
    """Lower a program to delegates, and to ExecuTorch's and edgec's CPU kernels for the rest.

    Args:
        program: a decoder's.
        progress: told how far lowering is.
        block_rows: lower matrices of integers to edgec's linear kernels, laid out so; None: XNNPACK multiplies them.
    """
    return lower_methods({METHOD: program}, progress, block_rows)


def lower_methods(
    programs: Mapping[str, Program],
    progress: LoweringProgress = lambda stage, done, total: None,
    block_rows: BlockRows | None = None,
    shelf: Path | None = None,
    runner: RunnerFacts | None = None,
) -> Lowered:
    """Lower several programs to the methods of one artifact, which share equal constants.

    Args:
        programs: by the methods' names; one of them at most has states.
        progress: told how far lowering is.
        block_rows: as in `lower`.
        shelf: a folder where large matrices lie until the artifact is written (shelf.py); None: in memory.
        runner: what ExecuTorch's runners are told (text_runner.py and the like); None: they cannot run them.
    """
    # Registers the out variants of the quantised operators.
    import executorch.kernels.quantized  # noqa: F401

    # Programs with edgec's attention or recurrences need edgec's library anyway.
    own = block_rows is not None or any(nodes_of(program.graph, *_OWN) for program in programs.values())
    where = _Where(progress, block_rows, shelf)
    parts = {name: _with_delegates(program, own, where) for name, program in programs.items()}
    progress("emit", 0, 1)
    methods = {name: (part.graph, programs[name].interface) for name, part in parts.items()}
    methods = with_speech_decoder(with_text_decoder(with_last_logits(methods))) if runner else methods
    made, further = _emit(methods, runner.constants if runner else {})
    parts = {name: part.with_convolutions(further.get(name)) for name, part in parts.items()}
    emitted = {name: made.exported_program(name) for name in methods}
    operators = sorted({operator for one in emitted.values() for operator in _operators(one.graph_module)})
    offsets = {name: offset for method in parts for name, offset in _state_offsets(emitted[method]).items()}
    stored = {name: part.stored for name, part in parts.items()}
    return Lowered(made.write_to_file, _report(list(parts.values())), tuple(operators), stored, offsets)


@dataclass(frozen=True)
class _Part:
    """A method's graph with delegates in it.

    Attributes:
        graph: the graph.
        stored: constants inside its delegates.
        inside: the work of its delegates.
        outside: the work of all other nodes.
        own: how many delegates are edgec's.
        foreign: how many are XNNPACK's.
    """

    graph: GraphModule
    stored: tuple[DelegateConstant, ...]
    inside: tuple[Work, ...]
    outside: tuple[Work, ...]
    own: int
    foreign: int

    def with_convolutions(self, found: LoweredWorks | None) -> _Part:
        """This part after its convolutions were given to XNNPACK; None: it has none."""
        if found is None:
            return self
        inside = (*self.inside, *found.inside)
        return replace(self, inside=inside, outside=found.outside, foreign=self.foreign + found.delegates)


@dataclass(frozen=True)
class _Where:
    """What ``lower_methods`` is given besides programs, by the same names."""

    progress: LoweringProgress
    block_rows: BlockRows | None
    shelf: Path | None


def _with_delegates(program: Program, own: bool, where: _Where) -> _Part:
    block_rows, shelf = where.block_rows, where.shelf
    with stood_in(program.graph) as rows:
        exported = reexport(program.graph, program.interface)
        graph = exported.module(check_guards=False)
    put_rows(graph, rows)
    graph.graph.set_codegen(torch.fx.graph.CodeGen())
    largest = _largest_sizes(graph, program.interface)
    write_out_channels(graph)
    write_out_float_rows(graph)
    read_recurrent_integers(graph)
    tables = replace_embeddings(graph, block_rows, shelf) if own else ()
    slots = max((state.slots for state in program.interface.states), default=0)
    linear = _replace_linear(graph, block_rows, slots, shelf) if block_rows else Linear()
    if block_rows:
        refuse_float_inputs(graph)
    write_out_norms(graph)
    write_out_tanh_gelus(graph)
    write_out_slopes(graph)
    keep_reduced_dimensions(graph)
    write_out_divisions(graph)
    write_out_pixel_shuffles(graph)
    grouped, constants = clusters(graph.graph), constants_of(graph.graph)
    regions = [extract(graph, cluster, constants) for cluster in grouped]
    inside, outside = _works(graph, linear, grouped, slots)
    templates = _templates(regions, largest, where.progress)
    delegated = replace_clusters(graph, regions, "delegate", lambda r: instantiate(templates[r.signature], r), shelf)
    stored = (*tables, *linear.stored, *delegated)
    return _Part(graph, stored, inside, outside, linear.delegates, len(grouped))


def _replace_linear(graph: GraphModule, block_rows: BlockRows, slots: int, shelf: Path | None) -> Linear:
    experts = experts_regions(graph)
    # Replaced nodes forget their arguments.
    work = works_of((region.node for region in experts), slots)
    stored = replace_experts(graph, experts, block_rows, shelf)
    regions = linear_regions(graph)
    work += works_of((node for region in regions for node in region.nodes), slots)
    stored = (*stored, *replace_regions(graph, regions, block_rows, shelf))
    return Linear(len(regions) + len(experts), tuple(work), stored)


def _works(
    graph: GraphModule, linear: Linear, grouped: list[list[Node]], slots: int
) -> tuple[tuple[Work, ...], tuple[Work, ...]]:
    """The work inside delegates and outside."""
    taken = {node for cluster in grouped for node in cluster}
    counted = taken | constants_of(graph.graph)
    outside = [node for node in graph.graph.nodes if node not in counted and node.op == "call_function"]
    return (*linear.work, *works_of(taken, slots)), tuple(works_of(outside, slots))


def _report(parts: Sequence[_Part]) -> Delegation:
    own, foreign = sum(part.own for part in parts), sum(part.foreign for part in parts)
    backend = "xnnpack" if not own else "edgec_linear" if not foreign else "edgec_linear, xnnpack"
    inside, outside = [w for part in parts for w in part.inside], [w for part in parts for w in part.outside]
    return delegation(inside, outside, backend, own + foreign)


def _largest_sizes(graph: GraphModule, interface: Interface) -> dict[str, int]:
    """The largest size of each varying dimension, by the symbol that the new trace gave it."""
    placeholders = [node for node in graph.graph.nodes if node.op == "placeholder"]
    return {
        str(node.meta["val"].shape[i]): d.high
        for node, tensor in zip(placeholders, interface.inputs, strict=True)
        for i, d in enumerate(tensor.shape)
        if isinstance(d, Dynamic)
    }


def _templates(
    regions: list[DelegateRegion], largest: Mapping[str, int], progress: LoweringProgress
) -> dict[str, Template]:
    kinds = {region.signature: region for region in regions}
    templates = {}
    for index, (signature, region) in enumerate(kinds.items()):
        progress("lower", index, len(kinds))
        templates[signature] = lower_template(region, largest)
        return_free_memory()
    return templates


def _emit(
    methods: Mapping[str, tuple[GraphModule, Interface]], constants: Mapping[str, Any]
) -> tuple[ExecutorchProgramManager, Mapping[str, LoweredWorks]]:
    """Emit the program with states in a separate memory arena, which a runtime can save and restore as one block.

    Returns:
        The program, and where the work of those methods is done that have convolutions.
    """
    exported = {name: reexport(graph, interface) for name, (graph, interface) in methods.items()}
    config = EdgeCompileConfig(_check_ir_validity=False, _skip_dim_order=True)
    edge, convolving = to_edge_with_convolutions(exported, config, constants)
    works = {name: lowered_works(edge.exported_program(name).graph_module, 0) for name in convolving}
    put_experts_last(edge)
    emitted = edge.to_executorch(
        ExecutorchBackendConfig(
            do_quant_fusion_and_const_prop=True,
            memory_planning_pass=MemoryPlanningPass(alloc_graph_input=False, share_mutable_buffers=True),
            sym_shape_eval_pass=ConstraintBasedSymShapeEvalPass(),
        )
    )
    return emitted, works


def _state_offsets(emitted: ExportedProgram) -> dict[str, int]:
    placeholders = {node.name: node for node in emitted.graph.nodes if node.op == "placeholder"}
    specs = {name: placeholders[i].meta["spec"] for i, name in emitted.graph_signature.inputs_to_buffers.items()}
    return {name: int(spec.mem_offset) for name, spec in specs.items() if spec.mem_id == _STATE_ARENA}


def _operators(graph: GraphModule) -> tuple[str, ...]:
    """Kernel names of an emitted graph (``aten::add.out``)."""
    targets = {node.target for node in graph.graph.nodes if node.op == "call_function"}
    return tuple(sorted(target.name() for target in targets if isinstance(target, torch._ops.OpOverload)))
