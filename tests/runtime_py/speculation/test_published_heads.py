"""Wrong heads leave the text as it is, too: only how often they are right tells fitted heads from shuffled ones."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from edgec.exporter.sources.drafts.medusa import MedusaFolder
from edgec.passes.contract import run_pass
from edgec.passes.draft.draft_heads import DraftHeads
from edgec.passes.kv.kv_cache import KvCache
from edgec.runtime_py.decoding.sampling import Sampler, Sampling
from edgec.runtime_py.generation.generate import stream_tokens
from edgec.runtime_py.speculation.heads import HeadDrafts
from tests.exporter.sources.drafts.medusa_folders import fitted_heads, write_medusa
from tests.passes.decoders import CONTEXT, ROWS, captured, tiny_model
from tests.runtime_py.speculation.graph_stepper import GraphStepper
from tests.runtime_py.speculation.simulated import Always

# Weights of this size make a model that repeats itself enough to be foreseen, and not always.
SPREAD, CHUNK = 0.1, 12


def acceptance(heads: nn.ModuleList, prompts: list[list[int]], folder: Path) -> float:
    """The share of the drafted tokens that were right, in texts that are those without drafts."""
    plain = captured("llama", initializer_range=SPREAD)
    medusa = MedusaFolder(write_medusa(folder, heads, 1))
    cached = [run_pass(each, KvCache(CONTEXT, CHUNK)) for each in (plain, run_pass(plain, DraftHeads(medusa)))]
    without, of = (GraphStepper(program, CONTEXT, CHUNK, ROWS) for program in cached)
    one, right, drafted = Always([HeadDrafts(of)], of, of.states), 0, 0
    for prompt in prompts:
        assert list(one.tokens(of, prompt, Sampling())) == list(stream_tokens(without, prompt, Sampler(Sampling())))
        right, drafted = right + one.counts.accepted, drafted + one.counts.drafted
    return right / drafted


@pytest.mark.long
def test_fitted_heads_are_right_where_shuffled_ones_are_not(tmp_path: Path) -> None:
    model = tiny_model("llama", initializer_range=SPREAD)
    prompts = torch.randint(3, 90, (44, 4), generator=torch.Generator().manual_seed(5))
    written = model.generate(prompts[:40], max_new_tokens=50, min_new_tokens=50, do_sample=False)
    heads, unseen = fitted_heads(model, written, 3), prompts[40:].tolist()
    fitted = acceptance(heads, unseen, tmp_path / "fitted")
    for head in heads:
        matrix = head.get_parameter("1.weight")
        matrix.copy_(matrix[torch.randperm(len(matrix), generator=torch.Generator().manual_seed(1))])
    shuffled = acceptance(heads, unseen, tmp_path / "shuffled")
    assert fitted > 0.12 > 4 * shuffled
