"""Every family through the whole of ``edgec.export``: the artifact's greedy tokens are transformers' own."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import edgec
from edgec.bundle.folder import open_bundle
from edgec.errors import InputError
from edgec.runtime_py.sessions.session import Session
from tests.exporter.conftest import RING_FAMILY
from tests.families import FAMILIES, Family, save

# Longer than a prefill chunk's third and five times the sliding window of 8.
PROMPT, NEW_TOKENS = 24, 40
# Rings and full caches run in every CI; the others take about ten seconds each.
QUICK = RING_FAMILY


def greedy(folder: Path, prompt: list[int]) -> list[int]:
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager", dtype=torch.float32)
    ids = torch.tensor([prompt])
    said = model.generate(ids, max_new_tokens=NEW_TOKENS, do_sample=False, eos_token_id=None)
    return [int(token) for token in said[0, len(prompt) :]]


def greedy_in_bundle(session: Session, prompt: list[int]) -> list[int]:
    tokens, logits = list(prompt), session.prefill(prompt, 0)
    for _ in range(NEW_TOKENS):
        tokens.append(int(logits.argmax()))
        logits = session.prefill(tokens[-1:], len(tokens) - 1)
    return tokens[len(prompt) :]


@pytest.mark.long
@pytest.mark.parametrize(
    "family",
    [f if f.name == QUICK else pytest.param(f, marks=pytest.mark.slow) for f in FAMILIES],
    ids=lambda f: f.name,
)
def test_the_artifact_says_what_transformers_says(
    family: Family, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    folder = save(family, tmp_path / family.name)
    if family.name == QUICK:
        bundle = request.getfixturevalue("ring_bundle")
    else:
        bundle = edgec.export(folder, recipe="float", out=tmp_path / "x.edgec", context=128)
    prompt = torch.randint(3, 128, (PROMPT,), generator=torch.Generator().manual_seed(2)).tolist()
    assert greedy_in_bundle(Session(bundle), prompt) == greedy(folder, prompt)
    states = open_bundle(bundle).manifest.states
    own = [layer for layer, donor in enumerate(family.donors) if donor is None]
    assert sorted({state.layer for state in states}) == own, "a layer that reads another's keys has no cache"


@pytest.mark.long
def test_soft_capped_attention_needs_edgecs_kernels(tmp_path: Path) -> None:
    family = next(family for family in FAMILIES if family.name == "gemma2")
    with pytest.raises(InputError) as refused:
        edgec.export(save(family, tmp_path / "gemma2"), recipe="float", out=tmp_path / "x.edgec", kernels="standard")
    assert refused.value.code == "E181" and "soft-caps" in refused.value.why
