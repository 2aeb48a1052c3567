"""Held for a length, a model computes in every call what transformers computes for a text of that length."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from edgec.errors import InputError
from edgec.exporter.sources.decoders.stored_rotations import hold_rotations
from tests.exporter.rope_models import BY_NAME, CONTEXT, FIRST, MODELS, RopeModel, text, whole

# The same operators on the same numbers.
TOLERANCE = 1e-6
CHANGING = [model for model in MODELS if model.first]
LONG = [model for model in CHANGING if model.others]


def named(model: RopeModel) -> str:
    return model.name


def test_every_type_of_transformers_is_here() -> None:
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    kinds = {model.parameters.get("rope_type") for model in MODELS}
    assert kinds.issuperset({"default", *ROPE_INIT_FUNCTIONS})


@pytest.mark.parametrize("model", MODELS, ids=named)
def test_up_to_the_first_length_nothing_changes(model: RopeModel) -> None:
    tokens = text(model.first or CONTEXT)
    wanted = whole(model.model(), tokens)
    assert not torch.allclose(wanted, whole(model.model(), [tokens[1], *tokens[1:]]), atol=1e-2), "it can differ"
    held = model.model()
    hold_rotations(held, len(tokens))
    torch.testing.assert_close(whole(held, tokens), wanted, atol=TOLERANCE, rtol=0)
    unasked = model.model()
    hold_rotations(unasked, None)
    torch.testing.assert_close(whole(unasked, tokens), wanted, atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize("model", LONG, ids=named)
@pytest.mark.parametrize("length", [FIRST + 1, CONTEXT])
def test_beyond_it_the_frequencies_of_such_texts_hold(model: RopeModel, length: int) -> None:
    held, first, tokens = model.model(), model.model(), text(length)
    hold_rotations(held, length)
    hold_rotations(first, FIRST)
    wanted = whole(model.model(), tokens)
    torch.testing.assert_close(whole(held, tokens), wanted, atol=TOLERANCE, rtol=0)
    assert not torch.allclose(whole(first, tokens), wanted, atol=1e-2), "the others are not those"


@pytest.mark.parametrize("model", LONG, ids=named)
def test_a_call_does_not_change_them(model: RopeModel) -> None:
    held, short = model.model(), text(FIRST - 5)
    hold_rotations(held, CONTEXT)
    before = whole(held, short)
    assert not torch.allclose(before, whole(model.model(), short), atol=1e-2), "transformers has the first ones here"
    whole(held, text())
    assert torch.equal(whole(held, short), before)
    alike = model.config()
    _lengthen(alike)
    torch.testing.assert_close(before, whole(model.model(alike), short), atol=TOLERANCE, rtol=0)


def _lengthen(config: Any) -> None:
    """Let the short factors be the long ones."""
    every = config.rope_parameters
    for each in [value for value in every.values() if isinstance(value, dict)] or [every]:
        if "long_factor" in each:
            each["short_factor"] = each["long_factor"]


@pytest.mark.parametrize("name", ["dynamic", "dynamic in some layers", "scaled by length"])
def test_a_text_for_which_there_is_no_one_set_is_refused(name: str) -> None:
    model = BY_NAME[name]
    assert model.first
    with pytest.raises(InputError, match=f"beyond {model.first} tokens") as raised:
        hold_rotations(model.model(), model.first + 1)
    assert raised.value.code == "E742" and f"--context {model.first}" in raised.value.fix


def test_an_encoder_that_reads_short_and_long_sources_is_refused() -> None:
    with pytest.raises(InputError, match=f"beyond {FIRST} tokens") as raised:
        hold_rotations(BY_NAME["longrope"].model(), FIRST + 1, others=False)
    assert raised.value.code == "E742"
    hold_rotations(BY_NAME["longrope"].model(), FIRST, others=False)


def test_a_base_that_is_stretched_once_is_not_dynamic() -> None:
    model = RopeModel(
        "alpha", {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 1.0, "alpha": 50.0}, "hunyuan_v1_dense"
    )
    held, tokens = model.model(), text()
    hold_rotations(held, CONTEXT)
    assert held.model.rotary_emb.rope_type == "ntk_alpha"
    torch.testing.assert_close(whole(held, tokens), whole(model.model(), tokens), atol=TOLERANCE, rtol=0)
