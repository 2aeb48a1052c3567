"""Experts of few bits say what their graph says, from one matrix of which an expert is a run of blocks."""

from __future__ import annotations

import platform
import re
from collections import Counter
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import pytest
import torch
from torch import nn

from benchmarks.coverage_parts.tiny import tiny_config, tiny_model
from edgec.backends.cpu.linear.experts import BACKEND
from edgec.backends.cpu.linear.layout import BlockRows
from edgec.backends.cpu.lower import lower
from edgec.exporter.capture.decoder import build_skeleton, capture_decoder
from edgec.exporter.parity.execution import run_artifact, run_program
from edgec.exporter.parity.metrics import difference
from edgec.exporter.sources.decoders.spec import model_spec
from edgec.exporter.sources.hf_config import plain_config
from edgec.exporter.sources.model_build import build
from edgec.ir.call_plan import call_plan
from edgec.ir.experts import EXPERTS, ExpertsCall
from edgec.ir.kernel_grids import LINEAR_KERNELS
from edgec.ir.program import Program
from edgec.ir.quantized_form import decisions_of
from edgec.ir.weight_scheme import WeightScheme, balanced
from edgec.passes.cleanup.fold_constants import FoldConstants
from edgec.passes.cleanup.remove_noops import RemoveNoops
from edgec.passes.compress.quantize import Quantize
from edgec.passes.contract import Pass, nodes_of, run_passes
from edgec.passes.fuse.fuse_rms_norm import FuseRmsNorm
from edgec.passes.fuse.fuse_rope import FuseRope
from edgec.passes.kv.kv_cache import KvCache
from edgec.passes.prefill.last_logits import LastLogits
from edgec.passes.prefill.prefill_skip import PrefillSkip

CONTEXT, CHUNK, ROWS = 64, 16, 4
PLAN = call_plan(40, CHUNK, ROWS)
FOUR = WeightScheme(4, 32, scale_bits=16)
IN_FLOAT = replace(FOUR, activation_bits=0)
# Whole numbers are summed exactly; only float32 sums over groups and norms run in another order.
TOLERANCE = 1e-4
# Widths that groups of 128 divide: of the layers' inputs, and of an expert's hidden values.
WIDER = {"hidden_size": 256, "intermediate_size": 256, "moe_intermediate_size": 256}


@dataclass(frozen=True)
class Form:
    """A way to store experts.

    Attributes:
        scheme: what is asked for.
        code: what the delegate says of its codes: bits, step and offset.
        group: values that share a scale; 0: a row.
    """

    scheme: WeightScheme
    code: tuple[int, int, int]
    group: int

    def __str__(self) -> str:
        return f"{self.code[0]} bits, step {self.code[1]}, group {self.group}"


def _form(bits: int, group: int) -> Form:
    scheme = WeightScheme(bits, group, activation_bits=0, scale_bits=16 if group else 32)
    return Form(scheme, (bits, 1, 1 << bits - 1), group)


# Tokens in float: of 8 bits, a value near the middle of two steps rounds either way, and other experts may be chosen
# then (tests/exporter/test_experts_in_few_bits.py). 4 bits in groups of 32 have tests of their own.
FORMS = (
    *(_form(bits, 0) for bits in (2, 3, 4, 8)),
    Form(WeightScheme(2, 0, activation_bits=0, levels=3), (2, 1, 1), 0),
    *(_form(bits, 32) for bits in (2, 3)),
    *(_form(bits, group) for group in (64, 128) for bits in (2, 3, 4)),
)
# Wide models take longer.
QUICK = [form for form in FORMS if form.group <= 32 or (form.group, form.scheme.bits) == (128, 3)]
_BLOB = re.compile(
    rb"edgec\.experts=4\n(?:\w+=[^\n]*\n)*?group=(\d+)\nbits=(\d+)\nstep=(\d+)\noffset=(\d+)\nscales=\w+\ndata="
)


class Stored:
    def __init__(self, model: nn.Module) -> None:
        self.state = model.state_dict()

    def tensor(self, name: str) -> torch.Tensor:
        result: torch.Tensor = self.state[name]
        return result


@lru_cache(maxsize=2)
def in_float(kind: str, wider: bool = False) -> Program:
    """A tiny mixture of experts with edgec's operators."""
    from transformers import AutoModelForCausalLM

    config = tiny_config(kind)
    for name, value in WIDER.items() if wider else ():
        setattr(config, name, value)
    # Building sets the config's attention, which tracing reads.
    own = deepcopy(config)
    skeleton = build_skeleton(lambda: build(AutoModelForCausalLM, own, device=None, attn_implementation="edgec"))
    program = capture_decoder(skeleton, model_spec(plain_config(config)), Stored(tiny_model(config)), CONTEXT)
    norms: list[Pass] = [RemoveNoops(), LastLogits(ROWS), FuseRmsNorm(heads=True), FuseRope()]
    return run_passes(program, [*norms, KvCache(CONTEXT, CHUNK), PrefillSkip()], in_place=True)


@lru_cache(maxsize=2)
def quantised(kind: str, default: WeightScheme | None = FOUR, wider: bool = False) -> Program:
    """The same with every linear layer and expert in one scheme."""
    rounding: list[Pass] = [Quantize((), default, default, kernels=LINEAR_KERNELS), FoldConstants()]
    return run_passes(in_float(kind, wider), rounding)


@pytest.mark.long
def test_every_expert_is_rounded_in_groups_of_its_own_row() -> None:
    program = quantised("olmoe")
    experts = [d for d in decisions_of(program.graph) if "experts" in d.name]
    assert len(experts) == 4 and all(d.used is not None and d.used.bits == 4 for d in experts)
    # 8 experts: gate and up are 256 rows on a width of 64, down is 64 rows on a width of 128.
    assert sorted({d.shape for d in experts}) == [(512, 128), (2048, 64)]
    weights = [ExpertsCall.of(node).weight for node in nodes_of(program.graph, EXPERTS)]
    assert all(weight.target is torch.ops.aten.view.default for weight in weights)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["olmoe", pytest.param("gpt_oss", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "default",
    [FOUR, pytest.param(IN_FLOAT, marks=pytest.mark.slow), pytest.param(None, marks=pytest.mark.slow)],
    ids=["4bit", "4bit in float", "float"],
)
def test_the_artifact_says_what_its_graph_says(kind: str, default: WeightScheme | None, tmp_path: Path) -> None:
    content = says_what_its_graph_says(quantised(kind, default), tmp_path)
    assert (BACKEND.encode() in content) == (default is not None)
    assert (b"edgec.experts=4\ninputs=float32\n" in content) == (default == IN_FLOAT)


def says_what_its_graph_says(program: Program, folder: Path) -> bytes:
    """Lower a program, compare what the artifact computes, and return its bytes."""
    tokens = torch.randint(5, 200, (40,), generator=torch.Generator().manual_seed(1)).tolist()
    wanted = run_program(program, tokens, PLAN)
    artifact = folder / "experts.pte"
    artifact.write_bytes(lower(program, block_rows=BlockRows.of(platform.machine())).artifact)
    assert difference(wanted, run_artifact(artifact, tokens, PLAN), 0.0).max_relative < TOLERANCE
    return artifact.read_bytes()


def forms_in(artifact: bytes) -> Counter[tuple[int, ...]]:
    """Group, bits, step and offset of each delegate of experts."""
    return Counter(tuple(map(int, said)) for said in _BLOB.findall(artifact))


@pytest.mark.sweep(3)
@pytest.mark.long
@pytest.mark.parametrize("form", [f if f in QUICK else pytest.param(f, marks=pytest.mark.slow) for f in FORMS], ids=str)
def test_every_width_and_group_is_stored_and_computed(form: Form, tmp_path: Path) -> None:
    content = says_what_its_graph_says(quantised("olmoe", form.scheme, wider=form.group > 32), tmp_path)
    # Gate and up of two layers are one matrix each, and so is down.
    assert forms_in(content) == {(form.group, *form.code): 4}


@pytest.mark.long
def test_the_balanced_set_is_stored_in_two_bits() -> None:
    lowered = lower(quantised("olmoe", balanced(1)), block_rows=BlockRows.of(platform.machine()))
    assert forms_in(lowered.artifact) == {(0, 2, 2, 3): 4}
