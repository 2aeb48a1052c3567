"""What makes a ModelSource whole, for each kind of model: its weights, its config as the passes read it, its inputs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from edgec.exporter.sources.decoders.positions import first_place
from edgec.exporter.sources.decoders.stored_rotations import hold_rotations
from edgec.exporter.sources.encoders.encoder_decoder import (
    SPEECH_TASK,
    TASKS,
    generation_defaults,
    source_of,
    with_decoder_numbers,
)
from edgec.exporter.sources.encoders.sentence_encoder import SentenceEncoder, dense_files, dense_layers, example_text
from edgec.exporter.sources.encoders.sentence_form import TASK as SENTENCE_TASK
from edgec.exporter.sources.encoders.sentence_form import SentenceForm, check_inputs, most_tokens, sentence_form
from edgec.exporter.sources.encoders.sentence_settings import with_unpooled
from edgec.exporter.sources.encoders.two_encoders import encoder_class, encoder_config, encoder_folder, is_one_encoder
from edgec.exporter.sources.example_inputs import example_inputs, preprocessor_config, text_lengths
from edgec.exporter.sources.files.model_folder import ModelFolder
from edgec.exporter.sources.hf_config import (
    AUDIO_LANGUAGE,
    DECODER,
    ENCODER_DECODER,
    MODULE,
    VISION_LANGUAGE,
    decoder_config,
    plain_config,
)
from edgec.exporter.sources.model_build import PositionalModel, build, put_weights, untie
from edgec.exporter.sources.model_source import ModelSource, ModelWeights, build_generating
from edgec.exporter.sources.multimodal.audio_input import audio_of
from edgec.exporter.sources.multimodal.audio_language import TASK as HEARING_TASK
from edgec.exporter.sources.multimodal.image_patches import Size
from edgec.exporter.sources.multimodal.vision_language import TASK as SEEING_TASK
from edgec.exporter.sources.multimodal.vision_language import vision_of
from edgec.exporter.sources.source_weights import bind_weights, random_weights
from edgec.exporter.sources.stated_preparation import stated_preparation
from edgec.exporter.sources.tasks import module_class, task_of
from edgec.exporter.sources.weight_choice import stored_weights
from edgec.exporter.sources.weights.names import BoundWeights
from edgec.ir.program import Dynamic

# Entries of the whole config that a nested text config lacks.
_KEPT = ("architectures", "edgec")
_NAMED = "transformers_weights"


@dataclass(frozen=True)
class Options:
    """The options for reading MODEL; the arguments of ``resolve``."""

    random_weights: bool = False
    revision: str | None = None
    allow_pickle: bool = False
    trust_remote_code: bool = False
    task: str | None = None
    context: int | None = None
    seed: int = 0
    image_size: Size | None = None


def _as_decoder(source: ModelSource, described: ModelFolder, config: Any, options: Options) -> ModelSource:
    text = decoder_config(described.path, config)
    shell = build_generating(DECODER, text, "meta", "eager", torch.float32, options.trust_remote_code)
    weights, files = _weights(described, shell, options)
    kept: dict[str, Any] = {key: described.config[key] for key in _KEPT if key in described.config}
    return replace(
        source,
        config={**_with_positions(plain_config(text), shell), **kept},
        hf_config=text,
        weights=weights,
        files=(*source.files, *files),
        task="text-generation",
    )


def _as_encoder_decoder(source: ModelSource, described: ModelFolder, config: Any, options: Options) -> ModelSource:
    shell = build_generating(ENCODER_DECODER, config, "meta", "eager", torch.float32, options.trust_remote_code)
    weights, files = _weights(described, shell, options)
    plain = with_decoder_numbers(plain_config(config))
    reads = source_of(shell, plain, preprocessor_config(described.path))
    return replace(
        source,
        config=plain,
        hf_config=config,
        weights=weights,
        files=(*source.files, *files),
        generation_config=generation_defaults(plain, source.generation_config),
        task=options.task or (TASKS[0] if reads.is_text else SPEECH_TASK),
        reads=reads,
    )


def _as_vision_language(source: ModelSource, described: ModelFolder, config: Any, options: Options) -> ModelSource:
    vision = vision_of(config, described.path, options.image_size)
    shell = build_generating(VISION_LANGUAGE, config, "meta", "eager", torch.float32, options.trust_remote_code)
    weights, files = _weights(described, shell, options)
    return replace(
        source,
        config=_text_config(config),
        hf_config=config,
        weights=weights,
        files=(*source.files, *vision.processor_files, *files),
        task=SEEING_TASK,
        vision=vision,
    )


def _as_audio_language(source: ModelSource, described: ModelFolder, config: Any, options: Options) -> ModelSource:
    shell = build_generating(AUDIO_LANGUAGE, config, "meta", "eager", torch.float32, options.trust_remote_code)
    audio = audio_of(config, shell, described.path)
    weights, files = _weights(described, shell, options)
    return replace(
        source,
        config=_text_config(config),
        hf_config=config,
        weights=weights,
        files=(*source.files, *audio.files, *files),
        task=HEARING_TASK,
        audio=audio,
    )


def _text_config(config: Any) -> dict[str, Any]:
    """The decoder's config of a model of images or audio; the whole model's has the last word on a shared lm_head."""
    return {**plain_config(config.get_text_config()), "tie_word_embeddings": bool(config.tie_word_embeddings)}


def _with_positions(config: dict[str, Any], shell: nn.Module) -> dict[str, Any]:
    """The config with the positions that a text can use: those before a table's first place are none."""
    first, stated = first_place(shell), config.get("max_position_embeddings")
    return {**config, "max_position_embeddings": stated - first} if first and isinstance(stated, int) else config


def _as_module(source: ModelSource, described: ModelFolder, config: Any, options: Options) -> ModelSource:
    if is_one_encoder(config, options.task):
        return _as_one_encoder(source, described, config, options)
    config.use_cache = False
    form = sentence_form(described.path) if options.task in (None, SENTENCE_TASK) else None
    maker = module_class(config, "feature-extraction" if form else options.task)
    shell, plain, make = _built_module(maker, source, described, config, options)
    if form is not None:
        check_inputs(shell.main_input_name, described.path)
        dense = dense_layers(form, options.seed if options.random_weights else None, options.allow_pickle)
        read = () if options.random_weights else dense_files(form, options.allow_pickle)
        plain = replace(plain, files=(*plain.files, *read))
        return _as_sentence_encoder(
            plain, form, first_place(shell), lambda names: SentenceEncoder(make(names), form, dense), options.context
        )
    return _with_examples(shell, plain, make, described.path, options)


def _as_one_encoder(source: ModelSource, described: ModelFolder, config: Any, options: Options) -> ModelSource:
    """The encoder of texts, or that of images, of a model that has both."""
    assert options.task is not None
    maker, own = encoder_class(config, options.task), encoder_config(config, options.task)
    shell, plain, make = _built_module(maker, source, encoder_folder(described), own, options)
    return _with_examples(shell, plain, make, described.path, options)


def _built_module(
    maker: Any, source: ModelSource, described: ModelFolder, config: Any, options: Options
) -> tuple[Any, ModelSource, Callable[[tuple[str, ...]], nn.Module]]:
    """A module on the meta device, its source with weights, and what makes the module by the names of its inputs."""
    shell = build(maker, config, device="meta", attn_implementation=None, trust_remote_code=options.trust_remote_code)
    weights, files = _weights(described, shell, options)
    make = partial(_make_module, maker, config, weights, options.trust_remote_code)
    files = (*source.files, *files)
    return shell, replace(source, config=plain_config(config), hf_config=config, weights=weights, files=files), make


def _with_examples(
    shell: Any,
    plain: ModelSource,
    make: Callable[[tuple[str, ...]], nn.Module],
    folder: Path,
    options: Options,
) -> ModelSource:
    """A module's source with example inputs that its config asks for."""
    varying = text_lengths(shell, options.context)
    inputs = example_inputs(shell, folder, options.seed, varying.high if varying else None)
    return replace(
        plain,
        task=options.task or task_of(type(shell).__name__),
        input_names=tuple(inputs),
        prepared=stated_preparation(preprocessor_config(folder), inputs),
        tokens=varying,
        factory=lambda: (make(tuple(inputs)), tuple(inputs.values())),
    )


def _as_sentence_encoder(
    source: ModelSource,
    form: SentenceForm,
    first: int,
    make: Callable[[tuple[str, ...]], nn.Module],
    asked: int | None,
) -> ModelSource:
    longest = most_tokens(form, source.config, first, asked)
    vocabulary = source.hf_config.get_text_config().vocab_size
    inputs = example_text(vocabulary, longest, source.seed, not form.pools_prompt)
    prompts, said = form.prompts, {"pooling": form.pooling, "normalised": form.normalised}
    if prompts is not None and not form.pools_prompt:
        assert source.path is not None
        prompts = with_unpooled(prompts, source.path, longest, source.trust_remote_code)
        said["pools_prompt"] = False
    return replace(
        source,
        config={**source.config, "sentence_encoder": said},
        prompts=prompts,
        files=(*source.files, *form.files),
        task=SENTENCE_TASK,
        input_names=tuple(inputs),
        tokens=Dynamic("T", 1, longest),
        factory=lambda: (make(tuple(inputs)).eval(), tuple(inputs.values())),
    )


def _weights(described: ModelFolder, shell: Any, options: Options) -> tuple[ModelWeights, tuple[Path, ...]]:
    if options.random_weights:
        return random_weights(shell, options.seed, described.config), ()
    stored = (
        described.stored(shell)
        if described.stored is not None
        else stored_weights(described.path, options.allow_pickle, described.config.get(_NAMED))
    )
    if described.unpacked is not None:
        stored = described.unpacked(stored)
    return bind_weights(shell, stored, described.config), stored.files


def _make_module(
    maker: Any, config: Any, weights: ModelWeights, trust_remote_code: bool, names: tuple[str, ...]
) -> nn.Module:
    model = build(maker, config, device="cpu", attn_implementation=None, trust_remote_code=trust_remote_code)
    # A text is no longer than the first frequencies serve: see example_inputs.text_positions.
    hold_rotations(model, None)
    put_weights(untie(model, weights.untied) if isinstance(weights, BoundWeights) else model, weights)
    if isinstance(weights, BoundWeights) and any(name.startswith("pooler.") for name in weights.absent):
        model.pooler = None  # A head that was not trained with this checkpoint.
    return PositionalModel(model, names).eval()


def finished(source: ModelSource, described: ModelFolder, config: Any, options: Options) -> ModelSource:
    """A model of a folder with everything that its kind needs.

    Args:
        source: with what every kind has.
        described: the folder's files, read.
        config: the transformers config.
        options: those of ``resolve``.
    """
    made = _BY_KIND[source.kind](source, described, config, options)
    return replace(made, config={**made.config, "tie_word_embeddings": False}) if made.untied else made


_BY_KIND = {
    DECODER: _as_decoder,
    ENCODER_DECODER: _as_encoder_decoder,
    VISION_LANGUAGE: _as_vision_language,
    AUDIO_LANGUAGE: _as_audio_language,
    MODULE: _as_module,
}
