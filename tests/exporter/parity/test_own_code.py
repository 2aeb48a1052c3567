"""The code of transformers, which computes the reference, may fail: of every kind of model this is a typed error."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import edgec
from edgec.errors import BudgetError, InputError
from edgec.exporter.parity.own_code import own_code
from tests.audio_language import save_audio_language, tiny_audio_language
from tests.encoder_decoders import save_encoder_decoder, tiny_encoder_decoder
from tests.vision_language import save_vision_language, tiny_vision_language

KINDS = {
    "bart": (save_encoder_decoder, tiny_encoder_decoder, "a source and a text"),
    "llava": (save_vision_language, tiny_vision_language, "an image and a text"),
    "voxtral": (save_audio_language, tiny_audio_language, "a sound and a text"),
}


def fails_when_computed(forward: Callable[..., Any]) -> Callable[..., Any]:
    """A model's function that fails as the reference, not as it is traced."""

    @functools.wraps(forward)
    def failing(self: Any, *args: Any, **options: Any) -> Any:
        if self.config._attn_implementation == "eager":
            raise ZeroDivisionError("a fault of this family")
        return forward(self, *args, **options)

    return failing


@pytest.mark.sweep(1)
@pytest.mark.parametrize("family", KINDS)
def test_a_reference_that_fails_is_an_error_of_the_model(
    family: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save, made, given = KINDS[family]
    folder = save(family, tmp_path / "model")
    model = type(made(family))
    monkeypatch.setattr(model, "forward", fails_when_computed(model.forward))
    with pytest.raises(InputError) as caught:
        edgec.export(folder, context=64, recipe="float", out=tmp_path / "x.edgec")
    assert caught.value.code == "E769" and caught.value.what == f"The model's own code fails on {given}."
    assert caught.value.where == model.__name__ and caught.value.why == "ZeroDivisionError: a fault of this family"
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


@pytest.mark.parametrize("error", [BudgetError("The ladder."), MemoryError("none left")])
def test_errors_that_are_not_the_model_s_stay_as_they_are(error: Exception) -> None:
    with pytest.raises(type(error)) as caught, own_code(object(), "a text"):
        raise error
    assert caught.value is error
