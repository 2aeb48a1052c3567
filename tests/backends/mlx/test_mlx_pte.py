"""Decoders as programs of ExecuTorch's MLX delegate: lowered whole, executed over ``mlx``, faults in them caught."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from edgec.bundle.entry_points import FORWARD
from edgec.errors import InputError
from edgec.exporter.parity import ladder
from edgec.exporter.parity.execution import run_program
from edgec.exporter.parity.ladder import Stage, lowering_rung
from edgec.exporter.recipes.file import load_recipe
from edgec.exporter.recipes.passes import passes_for
from edgec.exporter.recipes.recipe import for_backend
from edgec.ir.program import Program
from edgec.ir.static_methods import run_static
from edgec.passes.cleanup.fold_constants import FoldConstants
from edgec.passes.cleanup.remove_noops import RemoveNoops
from edgec.passes.contract import Pass
from edgec.passes.fuse.fuse_rms_norm import FuseRmsNorm
from edgec.passes.fuse.fuse_rope import FuseRope
from edgec.passes.kv.kv_cache import KvCache
from edgec.passes.prefill.last_logits import LastLogits
from tests.passes.static_methods import CHUNK, CONTEXT, PLAN, applied, captured, tokens

pytest.importorskip("mlx.core")
from edgec.backends.mlx.execute import MlxMethods, execute
from edgec.backends.mlx.operators import refuse_unspoken
from edgec.backends.mlx.program import MlxInstruction, MlxProgram, MlxTensor, read_mlx_program
from edgec.backends.mlx.pte import lower

pytestmark = pytest.mark.long
_KEPT: list[TemporaryDirectory[str]] = []


@lru_cache(maxsize=2)
def program(name: str, recipe: str = "8bit") -> Program:
    """A family's program as it is lowered."""
    cache = KvCache(CONTEXT, CHUNK, rings=False)
    rounding = passes_for(for_backend(load_recipe(recipe), "mlx"))
    first: list[Pass] = [RemoveNoops(), LastLogits(1), FuseRmsNorm(), FuseRope(), cache]
    return applied(captured(name), [*first, *rounding, FoldConstants()])


@lru_cache(maxsize=2)
def artifact(name: str, recipe: str = "8bit") -> Path:
    """Its artifact."""
    folder = TemporaryDirectory()
    _KEPT.append(folder)
    path = Path(folder.name) / "model.pte"
    made = lower({FORWARD: program(name, recipe)}, path, lambda step, done, total: None)
    assert made.delegation.delegates == 1 and not made.delegation.fallbacks and not made.operators
    return path


def reference(name: str, recipe: str = "8bit") -> Stage:
    return Stage("graph", run_program(program(name, recipe), tokens(), PLAN))


def passes_the_ladder(made: Tensor, wanted: Stage) -> bool:
    return lowering_rung(wanted, Stage("artifact", made), ladder.UNTRAINED_HALF_LOWERING, rounded=True).passed


@pytest.mark.parametrize(
    ("name", "recipe"), [("llama", "8bit"), pytest.param("qwen3", "float", marks=pytest.mark.slow)]
)
def test_a_family_is_lowered_whole_and_computes_what_its_graph_does(name: str, recipe: str) -> None:
    made = run_static(execute(artifact(name, recipe)), tokens(), PLAN)
    assert passes_the_ladder(made, reference(name, recipe))


@pytest.mark.slow
def test_windows_are_masks() -> None:
    made = run_static(execute(artifact("mistral", "float")), tokens(), PLAN)
    assert passes_the_ladder(made, reference("mistral", "float"))


def _swapped_values(read: MlxProgram) -> MlxProgram:
    """Attention reads keys as values, and values as keys."""

    def swap(each: MlxInstruction) -> MlxInstruction:
        if each.operator != "SdpaNode":
            return each
        return replace(each, fields={**each.fields, "k": each.fields["v"], "v": each.fields["k"]})

    return replace(read, main=tuple(map(swap, read.main)))


def _changed(read: MlxProgram, chosen: Callable[[str], bool], change: Callable[[Any], Any], dtype: str) -> MlxProgram:
    constants: Mapping[MlxTensor, bytes] = {
        slot: change(np.frombuffer(raw, dtype)).astype(dtype).tobytes() if chosen(read.names[slot]) else raw
        for slot, raw in read.constants.items()
    }
    assert constants != read.constants
    return replace(read, constants=constants)


def _lost_scales(read: MlxProgram) -> MlxProgram:
    """Integers without their scales, as XNNPACK once computed them."""
    scales = {each.fields["scales"] for each in read.main if each.operator == "QuantizedMatmulNode"}
    names = {read.names[slot] for slot in scales}
    return _changed(read, lambda name: name in names, np.ones_like, "float16")


def _other_base(read: MlxProgram) -> MlxProgram:
    """Rotations of base 500,000 in place of 10,000."""
    return _changed(
        read, lambda name: "rope_periods" in name, lambda periods: periods ** (np.log(5e5) / np.log(1e4)), "float32"
    )


@pytest.mark.parametrize("fault", [_swapped_values, _lost_scales, _other_base])
def test_planted_faults_are_caught(fault: Callable[[MlxProgram], MlxProgram]) -> None:
    read = read_mlx_program(artifact("llama"))
    wanted = reference("llama")
    assert passes_the_ladder(run_static(MlxMethods(read, CHUNK), tokens(), PLAN), wanted)
    assert not passes_the_ladder(run_static(MlxMethods(fault(read), CHUNK), tokens(), PLAN), wanted)


def test_caches_are_empty_in_a_new_sequence_and_kept_between_calls() -> None:
    first, second = (run_static(execute(artifact("llama")), tokens(), PLAN) for _ in range(2))
    assert torch.equal(first, second)


def test_what_mlx_has_no_attention_for_is_refused_when_captured() -> None:
    with pytest.raises(InputError, match="E870") as caught:
        refuse_unspoken(captured("gemma2"))
    assert "soft-capped" in caught.value.what and "mlpackage" in caught.value.fix


@pytest.mark.parametrize("damage", [lambda raw: raw[: len(raw) // 2], lambda raw: b"no program", lambda raw: b""])
def test_damaged_programs_are_refused(damage: Callable[[bytes], bytes], tmp_path: Path) -> None:
    path = tmp_path / "model.pte"
    path.write_bytes(damage(artifact("llama").read_bytes()))
    with pytest.raises(InputError, match="E872"):
        execute(path)


def test_an_instruction_that_the_interpreter_does_not_know_is_named() -> None:
    read = read_mlx_program(artifact("llama"))
    with pytest.raises(InputError, match="E872") as caught:
        MlxMethods(replace(read, main=(MlxInstruction("MetalKernelNode", {}), *read.main)), CHUNK)
    assert "MetalKernelNode" in caught.value.why
