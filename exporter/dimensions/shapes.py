"""The shape of a model of any kind, as `edgec plan` counts it: what `edgec export` would make of its config."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from edgec.backends.forms import Form
from edgec.devices.prediction.parameters import DecoderShape, EncoderShape
from edgec.exporter.capture.attention import NAME, register
from edgec.exporter.dimensions.encoder_run import EncoderRun, InputForms, run_of
from edgec.exporter.dimensions.parameters import decoder_shape, listed_parameters, whole_config
from edgec.exporter.sources.decoders.spec import model_spec
from edgec.exporter.sources.encoders.encoder_decoder import source_of, with_decoder_numbers
from edgec.exporter.sources.encoders.two_encoders import encoder_class, encoder_config, is_one_encoder
from edgec.exporter.sources.example_inputs import example_inputs, preprocessor_config, text_lengths
from edgec.exporter.sources.files.model_folder import CONFIG
from edgec.exporter.sources.hf_config import (
    AUDIO_LANGUAGE,
    DECODER,
    ENCODER_DECODER,
    VISION_LANGUAGE,
    kind_of,
    plain_config,
)
from edgec.exporter.sources.model_build import build
from edgec.exporter.sources.model_source import build_generating
from edgec.exporter.sources.multimodal.fixed_vision import unseen
from edgec.exporter.sources.tasks import module_class
from edgec.ir.program import Dynamic
from edgec.ir.spec import ModelSpec

_SENSES = {VISION_LANGUAGE: "vision", AUDIO_LANGUAGE: "audio"}


def model_shape(
    config: Mapping[str, Any],
    *,
    form: Form | None = None,
    task: str | None = None,
    context: int | None = None,
    folder: Path | None = None,
) -> DecoderShape:
    """The shape of the model that a config describes.

    Args:
        config: as plain data.
        form: of the target's artifact, which may hold the text part alone; None: holds all.
        task: as ``edgec export --task``; None: as the config says.
        context: the most tokens of an encoder's text; None: as many as it has positions for.
        folder: where descriptions of its inputs may lie.

    Raises:
        InputError: E109, transformers knows no such model; E111, a value is invalid; E146, it has no class for the
            task.
    """
    register()
    whole = whole_config(config, folder or Path(CONFIG))
    kind = kind_of(whole, task)
    if kind == DECODER:
        return decoder_shape(config)
    if kind == ENCODER_DECODER:
        return _encoder_decoder(whole, config, folder)
    if kind in _SENSES:
        return _with_senses(kind, whole, config, form)
    return _encoder(whole, config, task, context, folder)


def _with_senses(kind: str, whole: Any, config: Mapping[str, Any], form: Form | None) -> DecoderShape:
    """A decoder with the parameters of its vision or audio beside it."""
    text, sense = decoder_shape(config), _SENSES[kind]
    if form is not None and form.static and (kind != VISION_LANGUAGE or unseen(form)):
        remark = f"its {sense} are not counted: edgec exports only its text part for this target's format"
        return replace(text, remarks=(remark,))
    model = build_generating(kind, whole, "meta", "eager", torch.float32, False)
    own = {id(parameter) for part in _text_parts(model) for parameter in part.parameters()}
    names = {name for name, parameter in model.named_parameters() if id(parameter) not in own}
    beside = tuple(each for each in listed_parameters(model, config) if each.name in names)
    return replace(text, encoder=EncoderShape(None, parameters=beside))


def _text_parts(model: Any) -> tuple[torch.nn.Module, ...]:
    return tuple(part for part in (model.get_decoder(), model.get_output_embeddings()) if part is not None)


def _encoder_decoder(whole: Any, config: Mapping[str, Any], folder: Path | None) -> DecoderShape:
    """Encoder and decoder as one list of parameters; the decoder's layers keep keys and values of the source."""
    model = build_generating(ENCODER_DECODER, whole, "meta", NAME, torch.float32, False)
    plain = with_decoder_numbers(plain_config(whole))
    spec, source = model_spec(plain), source_of(model, plain, preprocessor_config(folder))
    longest = max((size.high for size in source.shape if not isinstance(size, int)), default=0)
    run = run_of(model.get_encoder(), {source.name: (tuple(source.sizes(longest)), source.dtype)})
    memory = spec.kv_values_per_token() * run.positions if run else 0
    # `cross` plans memory for its outputs, which a session copies, and has one layer's keys twice while it makes them.
    crossing = 4 * memory + 4 * memory // max(1, 2 * len(spec.layers))
    return DecoderShape(spec, listed_parameters(model, config), encoder=_encoder_shape(run, memory, crossing))


def _encoder_shape(run: EncoderRun | None, memory_values: int = 0, besides: int = 0) -> EncoderShape:
    if run is None:
        return EncoderShape(None)
    return EncoderShape(run.fewest_bytes + besides, run.most_bytes + besides, memory_values)


def _encoder(
    whole: Any, config: Mapping[str, Any], task: str | None, context: int | None, folder: Path | None
) -> DecoderShape:
    """An encoder of text, images or sound alone."""
    if task is not None and is_one_encoder(whole, task):
        maker, whole = encoder_class(whole, task), encoder_config(whole, task)
    else:
        maker = module_class(whole, task)
    model = build(maker, whole, device="meta", attn_implementation="eager")
    spec = ModelSpec(whole.model_type, 0, 0, 0, (), False)
    listed = listed_parameters(model, config)
    varying = text_lengths(model, context)
    made = example_inputs(model, folder, longest=varying.high if varying else None)
    return DecoderShape(spec, listed, encoder=_encoder_shape(run_of(model, _longest(made, varying))))


def _longest(examples: Mapping[str, Tensor], varying: Dynamic | None) -> InputForms:
    """The largest inputs that an artifact takes: memory is planned for them, whatever the length of the examples."""
    forms = {name: (tuple(tensor.shape), tensor.dtype) for name, tensor in examples.items()}
    if varying is None:
        return forms
    return {name: ((shape[0], varying.high, *shape[2:]), dtype) for name, (shape, dtype) in forms.items()}
