"""A config says how long a text may be until a model's rotary frequencies change, and what a context may then be."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from edgec.backends.forms import form_of
from edgec.devices.targets import load_target
from edgec.errors import InputError
from edgec.exporter.options import ExportOptions
from edgec.exporter.recipes.file import load_recipe
from edgec.exporter.resolve.limits import context_note, decoder_limits, longest_with_reach, static_limits
from edgec.exporter.resolve.resolved import resolve_options
from edgec.exporter.sources.decoders.rotation_limits import RotationLimit, rotated_alike, rotation_limit
from edgec.exporter.sources.decoders.spec import model_spec
from tests.exporter.rope_models import BY_NAME, CONTEXT, FIRST, MODELS, RopeModel

PHI = BY_NAME["longrope beside the parameters"]


def plain(model: RopeModel) -> dict[str, Any]:
    config: dict[str, Any] = json.loads(model.config().to_json_string(use_diff=False))
    return config


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
def test_the_limit_of_every_type(model: RopeModel) -> None:
    wanted = RotationLimit(model.first, model.others) if model.first else None
    assert rotation_limit(plain(model)) == wanted
    spec = model_spec(plain(model))
    assert spec.context == (CONTEXT if model.others else model.first)
    assert spec.usual_context == (model.first or CONTEXT)
    assert spec.original_context == (model.first if model.first and model.others else None)


def test_older_names_are_read() -> None:
    longrope = {"type": "longrope", "short_factor": [1.0], "long_factor": [2.0]}
    config = {"rope_scaling": longrope, "max_position_embeddings": 128, "original_max_position_embeddings": 32}
    assert rotation_limit(config) == RotationLimit(32, others=True)
    assert rotation_limit({**config, "is_encoder_decoder": True}) == RotationLimit(32, others=False)
    assert rotation_limit({**config, "max_position_embeddings": 32}) is None, "no text is longer"
    assert rotation_limit({**config, "rope_scaling": None}) is None


@pytest.mark.parametrize("value", [-1, 0, "many", 1.5])
def test_a_number_that_makes_no_sense_is_refused(value: object) -> None:
    config = {**plain(PHI), "original_max_position_embeddings": value}
    with pytest.raises(InputError, match="original_max_position_embeddings") as raised:
        model_spec(config)
    assert raised.value.code == "E111"
    assert rotated_alike(config) is None


def test_without_being_asked_an_artifact_keeps_the_first_frequencies() -> None:
    spec, recipe = model_spec(plain(PHI)), load_recipe("float")
    assert decoder_limits(spec, recipe, None).context == FIRST
    assert decoder_limits(spec, replace(recipe, context=64), None).context == FIRST, "made for any model"
    assert decoder_limits(spec, recipe, 64).context == 64
    form = form_of(load_target("iphone-16-pro"))
    assert static_limits(spec, recipe, None, form).context == FIRST
    assert static_limits(spec, recipe, 64, form).context == 64
    assert longest_with_reach(spec) == FIRST


def test_what_the_context_means_is_said() -> None:
    spec = model_spec(plain(PHI))
    assert "--context" in context_note(spec, FIRST) and str(FIRST) in context_note(spec, FIRST)
    assert "at every position" in context_note(spec, FIRST + 1)
    assert not context_note(model_spec(plain(BY_NAME["yarn"])), CONTEXT)


@pytest.mark.parametrize("name", ["dynamic", "scaled by length"])
def test_a_context_without_one_set_is_refused_before_the_model_is_read(name: str, tmp_path: Path) -> None:
    model = BY_NAME[name]
    model.config().save_pretrained(tmp_path)
    options = ExportOptions(tmp_path, target="host", random_weights=True, task="text-generation", context=CONTEXT + 1)
    with pytest.raises(InputError, match=f"beyond {model.first} tokens") as raised:
        resolve_options(options)
    assert raised.value.code == "E742" and f"--context {model.first}" in raised.value.fix
    request = resolve_options(replace(options, context=None)).request
    assert request.limits.context == request.source.longest == model.first


def test_the_source_is_built_for_the_context(tmp_path: Path) -> None:
    PHI.config().save_pretrained(tmp_path)
    options = ExportOptions(tmp_path, target="host", random_weights=True, task="text-generation", context=CONTEXT)
    source = resolve_options(options).request.source
    assert source.longest == CONTEXT
    held, own = (source.build_on("cpu", held=held).model.rotary_emb for held in (True, False))
    assert held.rope_type == "held" and own.rope_type == "longrope"
    assert not held.inv_freq.equal(own.inv_freq)


def test_an_encoder_reads_texts_of_the_first_length(tmp_path: Path) -> None:
    BY_NAME["longrope"].config().save_pretrained(tmp_path)
    options = ExportOptions(tmp_path, target="host", random_weights=True, task="feature-extraction")
    source = resolve_options(options).request.source
    assert source.tokens is not None and source.tokens.high == FIRST
    assert source.factory is not None
    kinds = {getattr(module, "rope_type", "") for module in source.factory()[0].modules()}
    assert kinds == {"", "held"}, "nothing is renewed while it is traced"
    with pytest.raises(InputError) as raised:
        resolve_options(replace(options, context=FIRST + 1))
    assert raised.value.code == "E742"


def test_a_plan_is_made_for_the_first_length_unless_asked() -> None:
    from edgec.devices.prediction.forecast import _legal_context

    spec = model_spec(plain(PHI))
    assert _legal_context(spec, None, 8) == FIRST
    assert _legal_context(spec, None, FIRST + 8) == FIRST + 8, "a prompt asks for more"
    assert _legal_context(spec, CONTEXT, 8) == CONTEXT
