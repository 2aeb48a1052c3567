from __future__ import annotations

import pytest
import torch

from edgec.errors import InputError
from edgec.exporter.calibration import writing
from edgec.exporter.calibration.writing import NotFiniteError, write_texts
from edgec.exporter.parity.sample import model_text
from tests.tiny_llama import tiny_llama

STARTS = ((1, 7, 9), (1, 30, 31, 32, 33, 34), (5,))


def test_each_text_begins_as_it_is_asked_to_and_has_the_length() -> None:
    texts = write_texts(tiny_llama(), STARTS, 20, seed=0)
    assert [text[: len(start)] for text, start in zip(texts, STARTS, strict=True)] == list(STARTS)
    assert [len(text) for text in texts] == [20, 20, 20]


def test_a_seed_gives_the_same_texts_and_leaves_other_draws_alone() -> None:
    model, before = tiny_llama(), torch.random.get_rng_state()
    once, settings = write_texts(model, STARTS, 24, seed=3), model.generation_config
    assert once == write_texts(model, STARTS, 24, seed=3) != write_texts(model, STARTS, 24, seed=4)
    assert torch.equal(before, torch.random.get_rng_state()) and model.generation_config is settings


@pytest.mark.long
def test_almost_without_chance_it_says_what_the_model_says_without_a_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "TEMPERATURE", 1e-6)
    model, start = tiny_llama(), (1, 30, 31, 32)
    model.generation_config.eos_token_id = [*range(320)]  # every token would end the text
    (text, _) = write_texts(model, [start, start[:2]], 36, seed=0)
    assert text[4:] == model_text(model, start, 36)


def test_logits_that_are_not_finite_are_told() -> None:
    model = tiny_llama()
    model.model.norm.weight.data[3] = float("nan")
    with pytest.raises(NotFiniteError):
        write_texts(model, STARTS, 12, seed=0)


def test_a_model_whose_code_fails() -> None:
    model = tiny_llama()
    model.model.layers[0].self_attn = torch.nn.Identity()
    with pytest.raises(InputError) as caught:
        write_texts(model, STARTS, 12, seed=0)
    assert caught.value.code == "E769"


def test_every_step_is_told_and_can_be_interrupted() -> None:
    steps: list[int] = []
    write_texts(tiny_llama(), STARTS, 12, seed=0, told=steps.append)
    assert steps == list(range(12 - 1))

    def stop(step: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_texts(tiny_llama(), STARTS, 12, seed=0, told=stop)
