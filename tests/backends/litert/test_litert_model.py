"""Decoders as LiteRT-LM's signatures: what ai-edge-litert computes is what the graphs do, and faults are caught."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from torch import Tensor

from edgec.backends.forms import FORMS
from edgec.errors import BudgetError, InputError
from edgec.exporter.parity import ladder
from edgec.exporter.parity.ladder import Stage, lowering_rung
from edgec.exporter.recipes.file import load_recipe
from edgec.exporter.recipes.passes import passes_for
from edgec.exporter.recipes.recipe import for_backend
from edgec.exporter.stages.pass_orders import method_passes
from edgec.exporter.stages.signatures import last_calls, method_sizes, short_calls
from edgec.ir.call_plan import Call
from edgec.ir.program import Program
from edgec.ir.row_tensor import fill_integers
from edgec.ir.static_methods import GraphMethods, Methods, run_static
from edgec.passes.cleanup.fold_constants import FoldConstants
from edgec.passes.cleanup.remove_noops import RemoveNoops
from edgec.passes.contract import Pass, run_passes
from edgec.passes.fuse.fuse_rms_norm import FuseRmsNorm
from edgec.passes.kv.kv_cache import KvCache
from edgec.passes.kv.shared_kv import SharedKv
from edgec.passes.prefill.last_logits import LastLogits
from edgec.passes.prefill.prefill_skip import PrefillSkip
from tests.passes.static_methods import CHUNK, CONTEXT, PLAN, applied, captured, tokens

pytest.importorskip("ai_edge_litert.interpreter")
pytest.importorskip("litert_torch")
from edgec.backends.litert import gpu_model, model
from edgec.backends.litert.converter import converted
from edgec.backends.litert.methods import LitertMethods
from edgec.backends.litert.operators import Integers
from edgec.backends.litert.weights import packed, read_model, write_integers, written_model

pytestmark = pytest.mark.long
FORM = FORMS["litert", "tflite"]
HELD = CONTEXT + CHUNK
SHARED = "llama, shared KV"
CALLS: Mapping[str, tuple[Call, ...]] = {
    "chunks": PLAN,
    "short": tuple(short_calls(CHUNK, CONTEXT)),
    "last": tuple(last_calls(CHUNK, CONTEXT)),
}
_KEPT: list[TemporaryDirectory[str]] = []


@lru_cache(maxsize=4)
def signatures(name: str, recipe: str = "4bit") -> Mapping[str, Program]:
    """A family's methods, as they are lowered."""
    shared: list[Pass] = [SharedKv(2, "reuse")] if name == SHARED else []
    program = captured("llama" if shared else name)
    rounding = passes_for(for_backend(load_recipe(recipe), "litert"))
    first: list[Pass] = [
        RemoveNoops(),
        LastLogits(1),
        *shared,
        FuseRmsNorm(),
        KvCache(HELD, CHUNK, rings=False),
        PrefillSkip(),
    ]
    cached = applied(program, [*first, *rounding, FoldConstants()])
    fill_integers(cached.graph)
    sizes = method_sizes(CHUNK).items()
    return {method: run_passes(cached, method_passes(method, size, HELD, FORM)) for method, size in sizes}


@lru_cache(maxsize=4)
def artifact(name: str, recipe: str = "4bit", lower: Callable[..., Any] = model.lower) -> Path:
    """Its ``.tflite``."""
    folder = TemporaryDirectory()
    _KEPT.append(folder)
    path = Path(folder.name) / "model.tflite"
    made = lower(signatures(name, recipe), path, lambda step, done, total: None)
    assert sorted(made.interfaces) == ["decode", f"prefill_{CHUNK}", f"prefill_{CHUNK // 4}"]
    return path


def graph_logits(name: str, recipe: str, calls: str) -> Stage:
    return Stage("graph", run_static(GraphMethods(signatures(name, recipe)), tokens(CONTEXT), CALLS[calls]))


def same(made: Tensor, wanted: Stage) -> bool:
    return lowering_rung(wanted, Stage("artifact", made), ladder.ROUNDED_LOWERING, rounded=True).passed


FURTHER = ("qwen3", "gemma3_text", "phi3", SHARED)


@pytest.mark.parametrize("name", ["llama", *(pytest.param(each, marks=pytest.mark.slow) for each in FURTHER)])
def test_what_it_computes_is_what_the_graphs_do_up_to_the_last_position(name: str) -> None:
    for calls, plan in CALLS.items():
        executed = run_static(model.execute(artifact(name)), tokens(CONTEXT), plan)
        assert same(executed, graph_logits(name, "4bit", calls)), calls


@pytest.mark.slow
def test_rows_of_tables_are_the_same_by_products() -> None:
    executed = run_static(gpu_model.execute(artifact("llama", "4bit", gpu_model.lower)), tokens(CONTEXT), PLAN)
    assert same(executed, graph_logits("llama", "4bit", "chunks"))


@pytest.mark.slow
def test_two_balanced_bits_lie_in_four() -> None:
    made = artifact("llama", "balanced2")
    schema, held = read_model(made.read_bytes())
    kinds = {tensor.type for graph in held.subgraphs for tensor in graph.tensors}
    assert schema.TensorType.INT4 in kinds and schema.TensorType.INT2 not in kinds
    assert same(run_static(model.execute(made), tokens(CONTEXT), PLAN), graph_logits("llama", "balanced2", "chunks"))


class _OffByOne:
    """Methods whose caller counts positions of single tokens from 1, and those of chunks from 0."""

    def __init__(self, methods: Methods) -> None:
        self.methods, self.chunk = methods, methods.chunk

    def call(self, method: str, inputs: Mapping[str, Tensor]) -> Tensor:
        return self.methods.call(method, {**inputs, "start": inputs["start"] + (method == "decode")})


def _changed(content: bytes, change: Callable[[Any, Any], None]) -> bytes:
    """The model after a change of its flatbuffer."""
    schema, held = read_model(content)
    change(schema, held)
    return written_model(held, 1 << 16)


def _swapped_caches(schema: Any, held: Any) -> None:
    """Keys come out under the names of values."""
    for signature in held.signatureDefs:
        places = {each.name: each for each in signature.outputs}
        keys, values = places[b"kv_cache_k_0"], places[b"kv_cache_v_0"]
        keys.tensorIndex, values.tensorIndex = values.tensorIndex, keys.tensorIndex


def _lost_scales(schema: Any, held: Any) -> None:
    """Integers as if each had a scale of one half of the first."""
    for graph in held.subgraphs:
        for tensor in graph.tensors:
            if tensor.quantization is not None and tensor.quantization.scale is not None:
                tensor.quantization.scale = np.full_like(tensor.quantization.scale, tensor.quantization.scale[0] / 2)


@pytest.mark.parametrize("fault", [_swapped_caches, _lost_scales])
def test_planted_faults_are_caught(fault: Callable[[Any, Any], None]) -> None:
    executed = run_static(LitertMethods(_changed(artifact("llama").read_bytes(), fault)), tokens(CONTEXT), PLAN)
    assert not same(executed, graph_logits("llama", "4bit", "chunks"))


def test_positions_off_by_one_are_caught() -> None:
    executed = run_static(_OffByOne(model.execute(artifact("llama"))), tokens(CONTEXT), PLAN)
    assert not same(executed, graph_logits("llama", "4bit", "chunks"))


@lru_cache(maxsize=1)
def asking() -> tuple[bytes, Mapping[str, Integers]]:
    """The method of one token, whose matrices are inputs still."""
    return converted([signatures("llama")["decode"]], by_products=False)


def test_a_matrix_that_was_lost_on_the_way_ends_the_export() -> None:
    content, matrices = asking()
    lost = replace(next(iter(matrices.values())), name="lost.weight")
    with pytest.raises(BudgetError, match="E902") as caught:
        write_integers(content, {**matrices, "edgec_matrix_none": lost})
    assert caught.value.where == "lost.weight"


def test_a_matrix_that_no_layer_reads_as_one_ends_the_export() -> None:
    content, matrices = asking()

    def multiplied(schema: Any, held: Any) -> None:
        """The first operator reads a matrix, as a folded factor would."""
        place = next(each.tensorIndex for each in held.signatureDefs[0].inputs if each.name.decode() in matrices)
        held.subgraphs[0].operators[0].inputs = [place]

    with pytest.raises(BudgetError, match=r"E902") as caught:
        write_integers(_changed(content, multiplied), matrices)
    assert "takes no integers" in caught.value.why


@pytest.mark.parametrize("damage", [lambda raw: b"", lambda raw: b"no model", lambda raw: b"LITERTLM" + raw[:64]])
def test_damaged_files_are_refused(damage: Callable[[bytes], bytes], tmp_path: Path) -> None:
    path = tmp_path / "model.litertlm"
    path.write_bytes(damage(artifact("llama").read_bytes()))
    with pytest.raises(InputError, match=r"E903|E905"):
        model.execute(path)


@pytest.mark.parametrize("bits", [2, 4, 8])
def test_the_first_integer_lies_in_the_low_bits(bits: int) -> None:
    values = np.array([-1, 1, 0, -2], np.int8)
    codes = packed(values, bits)
    per, mask = 8 // bits, (1 << bits) - 1
    read = [(int(codes[place // per]) >> place % per * bits) & mask for place in range(4)]
    assert read == [int(value) & mask for value in values]
