"""The whole product on one screen: a model in, a verified bundle out, the same tokens as transformers."""

from __future__ import annotations

import json
from pathlib import Path

import edgec
from edgec.runtime_py.verify.verify import verify

PROMPT = "Once upon a time there was a little girl"
NEW_TOKENS = 40


def greedy(folder: Path, prompt: str) -> list[int]:
    """What transformers itself says, eager attention in float32."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager", dtype=torch.float32)
    tokens = AutoTokenizer.from_pretrained(folder)(prompt, return_tensors="pt")
    said = model.generate(**tokens, max_new_tokens=NEW_TOKENS, do_sample=False)[0, tokens["input_ids"].shape[1] :]
    return [int(token) for token in said]


def test_the_bundle_says_what_transformers_says(tiny_folder: Path, tiny_bundle: Path) -> None:
    answer = edgec.load(tiny_bundle).generate(PROMPT, max_new_tokens=NEW_TOKENS)
    assert list(answer.tokens) == greedy(tiny_folder, PROMPT)
    assert len(answer.tokens) > 10, "too short to show a difference"


def test_the_ladder_was_climbed_and_the_golden_vectors_hold(tiny_bundle: Path) -> None:
    rungs = json.loads((tiny_bundle / "manifest.json").read_text())["parity"]
    assert rungs[-1]["stage"] == "artifact"
    assert all(rung["passed"] for rung in rungs)
    assert verify(tiny_bundle).passed
