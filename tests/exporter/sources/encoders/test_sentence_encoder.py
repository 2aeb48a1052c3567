"""What comes after a model of token vectors: pooling over the mask, dense layers, length 1."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from edgec.bundle.sentence_prompts import READ_ONLY
from edgec.errors import InputError
from edgec.exporter.sources.encoders.sentence_encoder import SentenceEncoder, dense_layers
from edgec.exporter.sources.encoders.sentence_form import DenseForm, SentenceForm, sentence_form
from tests.exporter.tiny_sentence_encoder import save_sentence_encoder

MASK = torch.tensor([[1, 1, 1, 0]])
VECTORS = torch.arange(8.0).reshape(1, 4, 2)
EXPECTED = {"mean": [2.0, 3.0], "cls": [0.0, 1.0], "max": [4.0, 5.0], "lasttoken": [4.0, 5.0]}


class TokenVectors(nn.Module):
    """The same vectors whatever the tokens."""

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        return VECTORS


@pytest.mark.parametrize("pooling", EXPECTED)
def test_padding_changes_nothing(pooling: str) -> None:
    plain = SentenceForm(pooling, (), False, None, ())
    vector = SentenceEncoder(TokenVectors(), plain)(torch.zeros(1, 4), MASK).sentence_embedding
    torch.testing.assert_close(vector, torch.tensor([EXPECTED[pooling]]))
    normalised = SentenceEncoder(TokenVectors(), replace(plain, normalised=True))(torch.zeros(1, 4), MASK)
    # A float32 square root and its reciprocal: a few units in the last place.
    torch.testing.assert_close(normalised.sentence_embedding, nn.functional.normalize(vector), atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize(
    ("pooling", "expected"), [("mean", [3.0, 4.0]), ("cls", [2.0, 3.0]), ("max", [4.0, 5.0]), ("lasttoken", [4.0, 5.0])]
)
def test_a_prompt_is_read_and_not_pooled(pooling: str, expected: list[float]) -> None:
    """The first token is the prompt's, and the model sees it as it sees the others."""

    class Seen(TokenVectors):
        def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
            assert torch.equal(attention_mask, MASK)
            return super().forward(input_ids, attention_mask)

    encoder = SentenceEncoder(Seen(), SentenceForm(pooling, (), False, None, (), pools_prompt=False))
    vector = encoder(torch.zeros(1, 4), torch.tensor([[READ_ONLY, 1, 1, 0]])).sentence_embedding
    torch.testing.assert_close(vector, torch.tensor([expected]))
    whole = encoder(torch.zeros(1, 4), MASK).sentence_embedding
    torch.testing.assert_close(whole, torch.tensor([EXPECTED[pooling]]))


def test_dense_layers_hold_the_stored_weights(tmp_path: Path) -> None:
    form = sentence_form(save_sentence_encoder(tmp_path, dense=("Identity", "Tanh")))
    assert form is not None and [part.activation for part in form.dense] == ["Identity", "Tanh"]
    layers = dense_layers(form, None, allow_pickle=False)
    x = torch.randn(1, 32)
    assert nn.Sequential(*layers)(x).shape == (1, 24) and isinstance(layers[3], nn.Tanh)
    assert torch.equal(nn.Sequential(*layers)(x), nn.Sequential(*dense_layers(form, None, allow_pickle=False))(x))
    stored, one, two = (made[0].get_parameter("weight") for made in (layers, *seeded(form)))
    assert torch.equal(one, two) and not torch.equal(one, stored)


def seeded(form: SentenceForm) -> tuple[tuple[nn.Module, ...], ...]:
    return tuple(dense_layers(form, 7, allow_pickle=False) for _ in range(2))


def test_weights_of_another_shape_are_refused(tmp_path: Path) -> None:
    form = sentence_form(save_sentence_encoder(tmp_path, dense=("Identity",)))
    assert form is not None
    wrong = replace(form, dense=(DenseForm(form.dense[0].folder, 32, 25, True, "Identity"),))
    with pytest.raises(InputError) as error:
        dense_layers(wrong, None, allow_pickle=False)
    assert error.value.code == "E106" and "2_Dense" in error.value.where
