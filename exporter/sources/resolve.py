"""The first stage: resolve any form of MODEL to a ModelSource, or raise a typed error. Nothing is written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from edgec.exporter.capture.positions import first_place
from edgec.exporter.sources.encoder_decoder import (
    SPEECH_TASK,
    TASKS,
    Source,
    generating_class,
    generation_defaults,
    source_of,
    with_decoder_numbers,
)
from edgec.exporter.sources.factory import call_factory, import_factory, is_factory, state_digest
from edgec.exporter.sources.hf_config import (
    DECODER,
    ENCODER_DECODER,
    MODULE,
    VISION_LANGUAGE,
    decoder_config,
    kind_of,
    load_config,
    plain_config,
    refuse_quantized,
)
from edgec.exporter.sources.hub import fetch_snapshot
from edgec.exporter.sources.model_build import PositionalModel, build, put_weights, untie
from edgec.exporter.sources.model_folder import CONFIG, ModelFolder, read_folder
from edgec.exporter.sources.model_forms import (
    existing_path,
    is_hub_id,
    no_such_path,
    refuse_file,
    refuse_foreign_folder,
    short_name,
)
from edgec.exporter.sources.sentence_encoder import TASK as SENTENCE_TASK
from edgec.exporter.sources.sentence_encoder import (
    SentenceEncoder,
    SentenceForm,
    check_inputs,
    example_text,
    most_tokens,
    sentence_form,
)
from edgec.exporter.sources.source_weights import bind_weights, random_weights, stored_weights
from edgec.exporter.sources.tasks import auto_class, example_inputs, preprocessor_config, task_of
from edgec.exporter.sources.vision_language import TASK as SEEING_TASK
from edgec.exporter.sources.vision_language import Eyes, eyes_of
from edgec.exporter.sources.weight_names import BoundWeights, untied_weights
from edgec.exporter.sources.weights import RandomWeights
from edgec.ir.program import Dynamic

ModuleFactory = Callable[[], tuple[nn.Module, tuple[torch.Tensor, ...]]]
ModelWeights = BoundWeights | RandomWeights
# Entries of the whole config that a nested text config lacks.
_KEPT = ("architectures", "edgec")


@dataclass(frozen=True)
class Options:
    """The options for reading MODEL; the arguments of ``resolve``."""

    random_weights: bool = False
    revision: str | None = None
    allow_pickle: bool = False
    trust_remote_code: bool = False
    task: str | None = None
    seed: int = 0


@dataclass(frozen=True)
class ModelSource:
    """A model found and checked, before anything is built or loaded.

    Attributes:
        name: a short name, the default for the bundle.
        kind: ``decoder`` (a causal language model), ``encoder-decoder``, ``vision-language`` or ``module``.
        source: MODEL as given.
        path: the local folder, or None for a factory.
        config: the effective transformers config (of the text decoder where it is nested); for a factory, its name
            and the sha256 of the state that it made.
        revision: the hub commit, or None.
        licence: its identifier, or None when neither model card nor licence file states one.
        trained: False for random weights.
        weights: under the parameter names of the built model; None for a factory, whose module owns its weights.
        tokenizer_files: the tokenizer's files that are present.
        generation_config: as stored, or empty.
        task: optimum's name of what the model does, or None for a factory.
        files: every file that was read, for the keys of the stage cache.
        seed: seed of random weights and example inputs.
        input_names: the arguments for which the example inputs stand (transformers modules; a factory's ``forward``
            names its own).
        factory: returns the module with its weights, and its example inputs (kind ``module``); a user's factory is
            called once, and this returns what it made.
        hf_config: the transformers config object, or None for a factory.
        reads: what the encoder of an encoder-decoder reads, or None.
        eyes: what the image encoder of a vision-language model reads, or None.
        untied: parameters that the model class ties and the checkpoint does not (the lm_head of Flan-T5).
        tokens: how many tokens a sentence encoder reads, where its shapes may vary; None for other models.
    """

    name: str
    kind: str
    source: str
    path: Path | None = None
    config: dict[str, Any] = field(default_factory=dict)
    revision: str | None = None
    licence: str | None = None
    trained: bool = True
    weights: ModelWeights | None = None
    tokenizer_files: tuple[Path, ...] = ()
    generation_config: dict[str, Any] = field(default_factory=dict)
    task: str | None = None
    files: tuple[Path, ...] = ()
    seed: int = 0
    input_names: tuple[str, ...] = ()
    factory: ModuleFactory | None = field(default=None, repr=False, compare=False)
    hf_config: Any = field(default=None, repr=False, compare=False)
    trust_remote_code: bool = False
    reads: Source | None = None
    eyes: Eyes | None = None
    untied: tuple[str, ...] = ()
    tokens: Dynamic | None = None

    def build_on(
        self,
        device: str | None = "meta",
        *,
        attn_implementation: str = "eager",
        dtype: torch.dtype = torch.float32,
    ) -> Any:
        """Build the model that generates, with uninitialised parameters; ``weights`` has their values.

        Args:
            device: ``meta``, ``cpu``, or None to follow the caller's mode (FakeTensorMode).
            attn_implementation: a name in transformers' attention registry.
            dtype: of the parameters.

        Raises:
            InputError: E111, the config does not describe a model that can be built.
        """
        remote = self.trust_remote_code
        return untie(
            _build_generating(self.kind, self.hf_config, device, attn_implementation, dtype, remote), self.untied
        )


def resolve(
    model: str,
    *,
    random_weights: bool = False,
    revision: str | None = None,
    allow_pickle: bool = False,
    trust_remote_code: bool = False,
    task: str | None = None,
    seed: int = 0,
) -> ModelSource:
    """Find a model and check that its files fit together.

    Args:
        model: a local folder, a config.json, a Hugging Face id, or ``package.module:factory``. Local
            files and folders take precedence.
        random_weights: seeded random weights in place of stored ones.
        revision: branch, tag or commit on the hub.
        allow_pickle: open pickled weights (data only).
        trust_remote_code: run Python code that comes with the model.
        task: optimum's task name, for non-decoder models.
        seed: seed of random weights and example inputs.

    Raises:
        InputError: E101 to E114 and E145 to E149; see docs/errors.md.
    """
    options = Options(random_weights, revision, allow_pickle, trust_remote_code, task, seed)
    path = existing_path(model)
    if path:
        return _from_path(model, path, options)
    if is_factory(model):
        return _from_factory(model, options)
    if not is_hub_id(model):
        raise no_such_path(model)
    folder = fetch_snapshot(model, revision=revision, allow_pickle=allow_pickle, trust_remote_code=trust_remote_code)
    source = _from_folder(model, folder, None, options)
    return replace(source, name=short_name(model.rpartition("/")[2]), revision=folder.name)


def _from_path(model: str, path: Path, options: Options) -> ModelSource:
    if path.is_dir():
        return _from_folder(model, path, None, options)
    if path.suffix != ".json":
        raise refuse_file(path)
    source = _from_folder(model, path.parent, path, options)
    return source if path.name == CONFIG else replace(source, name=short_name(path.stem))


def _from_factory(model: str, options: Options) -> ModelSource:
    factory, files = import_factory(model)
    module, inputs = call_factory(model, factory)
    return ModelSource(
        name=short_name(model.rpartition(":")[2]),
        kind=MODULE,
        source=model,
        config={"factory": model, "state_sha256": state_digest(module, inputs)},
        files=files,
        seed=options.seed,
        factory=lambda: (module, inputs),
    )


def _from_folder(model: str, folder: Path, config_file: Path | None, options: Options) -> ModelSource:
    if config_file is None:
        refuse_foreign_folder(folder)
    described = read_folder(folder, config_file)
    if not options.random_weights:
        refuse_quantized(folder, described.config)
    config = load_config(folder, described.config, trust_remote_code=options.trust_remote_code)
    source = ModelSource(
        name=short_name(folder.name),
        kind=kind_of(config, options.task),
        source=model,
        path=folder,
        licence=described.licence,
        trained=not options.random_weights,
        tokenizer_files=described.tokenizer_files,
        generation_config=described.generation_config,
        files=(*described.files, *(sorted(folder.glob("*.py")) if options.trust_remote_code else ())),
        seed=options.seed,
        trust_remote_code=options.trust_remote_code,
    )
    finish = {
        DECODER: _as_decoder,
        ENCODER_DECODER: _as_encoder_decoder,
        VISION_LANGUAGE: _as_vision_language,
        MODULE: _as_module,
    }[source.kind]
    return finish(source, described, config, options)


def _as_decoder(source: ModelSource, described: ModelFolder, config: Any, options: Options) -> ModelSource:
    text = decoder_config(described.path, config)
    shell = _build_generating(DECODER, text, "meta", "eager", torch.float32, options.trust_remote_code)
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
    shell = _build_generating(ENCODER_DECODER, config, "meta", "eager", torch.float32, options.trust_remote_code)
    untied = (
        () if options.random_weights else untied_weights(shell, stored_weights(described.path, options.allow_pickle))
    )
    weights, files = _weights(described, untie(shell, untied), options)
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
        untied=untied,
    )


def _as_vision_language(source: ModelSource, described: ModelFolder, config: Any, options: Options) -> ModelSource:
    eyes = eyes_of(config, described.path)
    shell = _build_generating(VISION_LANGUAGE, config, "meta", "eager", torch.float32, options.trust_remote_code)
    weights, files = _weights(described, shell, options)
    plain = {**plain_config(config.get_text_config()), "tie_word_embeddings": bool(config.tie_word_embeddings)}
    return replace(
        source,
        config=plain,
        hf_config=config,
        weights=weights,
        files=(*source.files, *eyes.processor_files, *files),
        task=SEEING_TASK,
        eyes=eyes,
    )


def _with_positions(config: dict[str, Any], shell: nn.Module) -> dict[str, Any]:
    """The config with the positions that a text can use: those before a table's first place are none."""
    first, stated = first_place(shell), config.get("max_position_embeddings")
    return {**config, "max_position_embeddings": stated - first} if first and isinstance(stated, int) else config


def _as_module(source: ModelSource, described: ModelFolder, config: Any, options: Options) -> ModelSource:
    config.use_cache = False
    maker = _module_class(config, options.task)
    shell = build(maker, config, device="meta", attn_implementation=None, trust_remote_code=options.trust_remote_code)
    weights, files = _weights(described, shell, options)
    make = partial(_make_module, maker, config, weights, options.trust_remote_code)
    plain = replace(
        source, config=plain_config(config), hf_config=config, weights=weights, files=(*source.files, *files)
    )
    form = sentence_form(described.path) if options.task in (None, SENTENCE_TASK) else None
    if form is not None:
        return _as_sentence_encoder(plain, form, shell, make)
    inputs = example_inputs(config, shell.main_input_name, described.path, options.seed)
    return replace(
        plain,
        task=options.task or task_of(type(shell).__name__),
        input_names=tuple(inputs),
        factory=lambda: (make(tuple(inputs)), tuple(inputs.values())),
    )


def _as_sentence_encoder(
    source: ModelSource, form: SentenceForm, shell: Any, make: Callable[[tuple[str, ...]], nn.Module]
) -> ModelSource:
    assert source.path is not None
    check_inputs(shell.main_input_name, source.path)
    longest = most_tokens(form, source.config, first_place(shell))
    inputs = example_text(source.hf_config.get_text_config().vocab_size, longest, source.seed)
    return replace(
        source,
        config={**source.config, "sentence_encoder": {"pooling": form.pooling, "normalised": form.normalised}},
        files=(*source.files, *form.files),
        task=SENTENCE_TASK,
        input_names=tuple(inputs),
        tokens=Dynamic("T", 1, longest),
        factory=lambda: (SentenceEncoder(make(tuple(inputs)), form).eval(), tuple(inputs.values())),
    )


def _weights(described: ModelFolder, shell: Any, options: Options) -> tuple[ModelWeights, tuple[Path, ...]]:
    if options.random_weights:
        return random_weights(shell, options.seed, described.config), ()
    stored = stored_weights(described.path, options.allow_pickle)
    return bind_weights(shell, stored, described.config), stored.files


def _build_generating(
    kind: str, config: Any, device: str | None, attn_implementation: str, dtype: torch.dtype, trust_remote_code: bool
) -> Any:
    from transformers import AutoModelForCausalLM, AutoModelForImageTextToText

    makers = {ENCODER_DECODER: generating_class, VISION_LANGUAGE: lambda _: AutoModelForImageTextToText}
    return build(
        makers.get(kind, lambda _: AutoModelForCausalLM)(config),
        config,
        device=device,
        attn_implementation=attn_implementation,
        dtype=dtype,
        trust_remote_code=trust_remote_code,
    )


def _module_class(config: Any, task: str | None) -> Any:
    import transformers

    asked = None if task == SENTENCE_TASK else task
    architecture = next(iter(config.architectures or ()), None)
    named = getattr(transformers, architecture, None) if architecture and asked is None else None
    return named or auto_class(asked or task_of(architecture), config)


def _make_module(
    maker: Any, config: Any, weights: ModelWeights, trust_remote_code: bool, names: tuple[str, ...]
) -> nn.Module:
    model = build(maker, config, device="cpu", attn_implementation=None, trust_remote_code=trust_remote_code)
    put_weights(model, weights)
    if isinstance(weights, BoundWeights) and any(name.startswith("pooler.") for name in weights.absent):
        model.pooler = None  # A head that was not trained with this checkpoint.
    return PositionalModel(model, names).eval()
