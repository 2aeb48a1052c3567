"""Trained weights keep the strict budget of float16; random ones, which let its rounding grow, get another."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from edgec.exporter.parity import ladder
from edgec.exporter.parity.known_text import knows_text, knows_tokens
from edgec.exporter.parity.probe import Probe, make_probe
from edgec.exporter.recipes.file import load_recipe
from edgec.exporter.stages.static_decoder import lowering_budget
from edgec.ir.call_plan import Call, compared_positions
from tests.families import FAMILIES, build
from tests.runtime_py.tiny_decoder import tiny_tokenizer
from tests.tiny_llama import tiny_llama

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "tiny-stories"


def static_probe(tokenizer: Any, vocab_size: int) -> Probe:
    return make_probe(tokenizer, vocab_size, 256, 64, 1, None, static=True)


@torch.no_grad()
def compared(model: Any, probe: Probe) -> Tensor:
    logits: Tensor = model(torch.tensor([probe.tokens])).logits[0]
    return logits[compared_positions(probe.plan)]


def test_a_trained_model_knows_text() -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(EXAMPLE).eval()
    probe = static_probe(AutoTokenizer.from_pretrained(EXAMPLE), model.config.vocab_size)
    assert knows_text(compared(model, probe), probe)


@pytest.mark.parametrize("spread", [0.02, 0.3])
@pytest.mark.parametrize("family", [family for family in FAMILIES if family.name in ("llama", "gemma3_text")])
def test_random_weights_do_not(family: Any, spread: float) -> None:
    model = build(family, "eager")
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0.0, spread)
    probe = static_probe(tiny_tokenizer(), 128)
    assert probe.source == "text" and not knows_text(compared(model, probe), probe)


def test_the_folder_that_other_tests_export_does_not() -> None:
    model = tiny_llama()
    probe = static_probe(tiny_tokenizer(), model.config.vocab_size)
    assert not knows_text(compared(model, probe), probe)


def test_probabilities_are_compared_with_those_of_the_next_token() -> None:
    """Logits that are right by a factor of e at every position, then at none."""
    probe = static_probe(tiny_tokenizer(), 320)
    positions = compared_positions(probe.plan)
    following = torch.tensor([(*probe.tokens, 0)[position + 1] for position in positions])
    right = torch.nn.functional.one_hot(following, 320).float() * math.log(320)
    assert knows_text(right, probe)
    assert not knows_text(right.roll(1, dims=-1), probe)


def test_nothing_is_concluded_from_random_tokens() -> None:
    probe = static_probe(None, 320)
    assert knows_text(torch.zeros(probe.positions, 320), probe)


def test_only_few_bits_in_float16_of_untrained_weights_get_a_wider_budget() -> None:
    few, none = load_recipe("4bit"), load_recipe("float")
    assert lowering_budget(few, half=True, untrained=False) == ladder.COMPRESSED_HALF_LOWERING
    assert lowering_budget(few, half=True, untrained=True) == ladder.UNTRAINED_HALF_LOWERING
    for recipe, half in ((few, False), (none, True), (none, False)):
        assert lowering_budget(recipe, half=half, untrained=True) == lowering_budget(recipe, half=half, untrained=False)


def test_only_tokens_from_the_first_on_are_text() -> None:
    tokens = [5, 5, 5, 5, 1, 2, 3, 4, 5]
    plan = tuple(Call(place, 1, 1) for place in range(len(tokens)))
    logits = torch.zeros(len(tokens), 128)
    for place, token in enumerate(tokens[1:]):
        # The rows of an image, which nothing predicts, and words that are certain.
        logits[place, token if place >= 4 else 99] = 30.0
    assert knows_tokens(logits, tokens, plan, 4) and not knows_tokens(logits, tokens, plan)
