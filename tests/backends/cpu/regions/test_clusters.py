"""Clusters are convex, hold the linear layers, and equal layers give equal regions."""

from __future__ import annotations

import operator
import sys
from functools import lru_cache

import pytest
import torch
from torch.fx import Graph, GraphModule, Node

from edgec.backends.cpu.regions.clusters import LINEAR, clusters, constants_of
from edgec.backends.cpu.regions.region import extract
from edgec.backends.cpu.regions.replace import sort_stably
from edgec.ir.reexport import reexport
from edgec.passes.contract import run_pass
from edgec.passes.kv.kv_cache import KvCache
from tests.passes.decoders import CONTEXT, captured


@lru_cache(maxsize=1)
def traced() -> GraphModule:
    program = run_pass(captured("llama"), KvCache(CONTEXT, 12))
    graph = reexport(program.graph, program.interface).module(check_guards=False)
    assert isinstance(graph, GraphModule)
    return graph


def ancestors(node: Node) -> set[Node]:
    reached: set[Node] = set()
    pending = list(node.all_input_nodes)
    while pending:
        source = pending.pop()
        if source not in reached:
            reached.add(source)
            pending.extend(source.all_input_nodes)
    return reached


@pytest.mark.long
def test_every_linear_layer_is_in_exactly_one_cluster() -> None:
    graph = traced()
    members = [node for cluster in clusters(graph.graph) for node in cluster]
    assert len(members) == len(set(members))
    assert {n for n in graph.graph.nodes if n.target is LINEAR} <= set(members)


@pytest.mark.long
def test_no_path_leaves_a_cluster_and_comes_back() -> None:
    constants = constants_of(traced().graph)
    for cluster in clusters(traced().graph):
        inside = set(cluster)
        for node in cluster:
            for outside in ancestors(node) - inside:
                assert not (ancestors(outside) & inside) or outside in constants


def test_three_clusters_a_layer_and_equal_layers_share_a_signature() -> None:
    graph = traced()
    regions = [extract(graph, cluster, constants_of(graph.graph)) for cluster in clusters(graph.graph)]
    assert len(regions) == 3 * 2 + 1
    # first q/k/v, attention output, MLP with the next q/k/v's norm apart, last MLP, vocabulary
    assert len({region.signature for region in regions}) <= 4


def test_a_region_computes_what_its_nodes_compute() -> None:
    graph = traced()
    region = extract(graph, clusters(graph.graph)[0], constants_of(graph.graph))
    weights = [getattr(region.module, f"c{i}") for i in range(len(region.constants))]
    inputs = [torch.rand([d if isinstance(d, int) else 5 for d in node.meta["val"].shape]) for node in region.inputs]
    outputs = region.module(*inputs)
    assert len(outputs) == len(region.outputs) and len(weights) == len(region.constants)
    assert all(torch.isfinite(value).all() for value in outputs)


def test_sorting_keeps_a_write_before_the_read_that_followed_it() -> None:
    graph = Graph()
    x = graph.placeholder("x")
    cache = graph.get_attr("cache")
    write = graph.call_function(torch.ops.aten.add_.Tensor, (cache, x))
    read = graph.call_function(torch.ops.aten.mul.Tensor, (cache, 2))
    # What is written becomes available only after the reader, which then has to wait for the write.
    late = graph.call_function(torch.ops.aten.neg.default, (x,))
    write.update_arg(1, late)
    graph.output(read)
    sort_stably(graph)
    order = list(graph.nodes)
    assert order.index(late) < order.index(write) < order.index(read)
    graph.lint()


def test_a_diamond_through_an_unsupported_operator_is_not_merged() -> None:
    graph = Graph()
    x = graph.placeholder("x")
    weight = graph.get_attr("w")
    first = graph.call_function(LINEAR, (x, weight))
    outside = graph.call_function(torch.ops.aten.softmax.int, (first, -1))
    second = graph.call_function(LINEAR, (outside, weight))
    joined = graph.call_function(torch.ops.aten.add.Tensor, (first, second))
    graph.output(joined)
    for node in (first, outside, second, joined):
        node.meta["val"] = torch.empty(1, 2, 3)
    grown = [set(cluster) for cluster in clusters(graph)]
    assert {first} in grown and {second, joined} in grown


def test_getitem_of_anything_but_quantisation_stays_outside() -> None:
    graph = Graph()
    x = graph.placeholder("x")
    item = graph.call_function(operator.getitem, (x, 0))
    graph.output(item)
    assert clusters(graph) == []


@pytest.mark.long
def test_a_net_of_any_depth_has_its_constants_and_clusters() -> None:
    """Deeper than Python calls functions in each other: chains of values, and of what parameters alone give."""
    graph, depth = Graph(), 2 * sys.getrecursionlimit()
    x, scale = graph.placeholder("x"), graph.get_attr("scale")
    for _ in range(depth):
        scale = graph.call_function(torch.ops.aten.neg.default, (scale,))
    for _ in range(depth):
        x = graph.call_function(torch.ops.aten.relu.default, (x,))
        x.meta["val"] = torch.empty(2, 4)
    graph.output((graph.call_function(LINEAR, (x, scale)),))
    root = torch.nn.Module()
    root.register_buffer("scale", torch.zeros(4, 4))
    constants = constants_of(graph)
    assert len(constants) == depth + 1 and x not in constants
    (cluster,) = clusters(graph)
    region = extract(GraphModule(root, graph), cluster, constants)
    assert region.inputs == (cluster[0].args[0],) and region.constants == ("scale",)
