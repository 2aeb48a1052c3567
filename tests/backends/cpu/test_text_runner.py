"""The method that ExecuTorch's own runner calls says what edgec's method says of the last position."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from edgec.backends.cpu.linear.layout import BlockRows
from edgec.backends.cpu.lower import Lowered, lower_methods
from edgec.backends.cpu.text_runner import RunnerFacts
from edgec.bundle.pte_layout import method_names, read_layout
from edgec.ir.program import Program
from edgec.passes.contract import Pass, run_passes
from edgec.passes.kv.kv_cache import KvCache
from edgec.passes.prefill.prefill_skip import PrefillSkip
from edgec.runtime_py.engines.open_artifact import TorchMethod
from tests.backends.cpu.linear.programs import quantised
from tests.passes.decoders import CONTEXT, captured, tokens

FACTS = RunnerFacts(chunk=12, context=CONTEXT, vocabulary=96, begin=1, ends=(2, 5))
HOST = BlockRows.of(platform.machine())
# A chunk, the rest of a prompt, single tokens.
CALLS = ((0, 12), (12, 17), (17, 18), (18, 19), (19, 20))


def lowered(program: Program, facts: RunnerFacts | None, rows: BlockRows | None = HOST) -> Lowered:
    return lower_methods({"forward_rows": program}, block_rows=rows, runner=facts)


def said(artifact: Path, method: str, rows: bool) -> list[torch.Tensor]:
    """The last position's logits after every call."""
    opened, ids = TorchMethod(artifact, method), torch.tensor([tokens(20)])

    def call(begin: int, end: int) -> torch.Tensor:
        last: Sequence[torch.Tensor] = [torch.tensor([end - begin - 1])] if rows else []
        logits: torch.Tensor = opened([ids[:, begin:end], torch.arange(begin, end), *last])[0]
        return logits.clone()

    return [call(*each) for each in CALLS]


@pytest.mark.long
@pytest.mark.parametrize("kernels", ["edgec", pytest.param("standard", marks=pytest.mark.slow)])
def test_both_methods_say_the_same_bits(kernels: str, tmp_path: Path) -> None:
    own = kernels == "edgec"
    cached: list[Pass] = [KvCache(CONTEXT, 12, "float32", 0, "standard"), PrefillSkip()]
    program = quantised() if own else run_passes(captured(), cached)
    made = lowered(program, FACTS, HOST if own else None)
    (artifact := tmp_path / "model.pte").write_bytes(made.artifact)
    both = [said(artifact, "forward_rows", rows=True), said(artifact, "forward", rows=False)]
    for one, other in zip(*both, strict=True):
        assert one.shape == other.shape == (1, 1, 96) and torch.equal(one, other)
    # What opens a decoder by no name opens the method with rows.
    assert torch.equal(said(artifact, "", rows=True)[0], both[0][0])


@pytest.mark.long
def test_the_weights_lie_in_the_artifact_once(tmp_path: Path) -> None:
    program = quantised()
    (alone := tmp_path / "alone.pte").write_bytes(lowered(program, None).artifact)
    (both := tmp_path / "both.pte").write_bytes(lowered(program, FACTS).artifact)
    one, two = (read_layout(path) for path in (alone, both))
    assert sorted(run.sha256 for run in one.stored) == sorted(run.sha256 for run in two.stored)
    assert set(method_names(alone)) == {"forward_rows"}
    assert set(method_names(both)) == {"forward_rows", "forward", *FACTS.constants}


def test_constants_have_the_runners_names() -> None:
    assert FACTS.constants["get_max_seq_len"] == 12 and FACTS.constants["get_max_context_len"] == CONTEXT
    assert FACTS.constants["get_eos_ids"] == [2, 5] and FACTS.constants["get_bos_id"] == 1
    unknown = RunnerFacts(chunk=12, context=CONTEXT, vocabulary=96, begin=None, ends=()).constants
    assert not {"get_bos_id", "get_eos_ids"} & set(unknown), "the runner then asks its tokenizer"


@pytest.mark.long
def test_a_model_of_other_methods_stays_as_it_is(tmp_path: Path) -> None:
    (artifact := tmp_path / "model.pte").write_bytes(lower_methods({"forward": quantised()}, block_rows=HOST).artifact)
    assert method_names(artifact) == ("forward",)
