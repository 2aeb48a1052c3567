"""The first stage: resolve any form of MODEL to a ModelSource, or raise a typed error. Nothing is written."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from edgec.bundle.end_tokens import with_named_ends
from edgec.bundle.input_preparation import Preparations, read_preparations
from edgec.errors import InputError
from edgec.exporter.sources.adapter_base import base_of, is_adapter
from edgec.exporter.sources.by_kind import Options, finished
from edgec.exporter.sources.encoders.sentence_form import is_sentence_encoder
from edgec.exporter.sources.files.model_folder import CONFIG, ModelFolder, read_folder
from edgec.exporter.sources.files.model_forms import (
    EXAMPLE,
    carried_example,
    existing_path,
    is_hub_id,
    no_such_path,
    refuse_file,
    refuse_foreign_folder,
    short_name,
)
from edgec.exporter.sources.files.plain_files import plain_files
from edgec.exporter.sources.gguf.file import gguf_of
from edgec.exporter.sources.gguf.folder import read_gguf_folder
from edgec.exporter.sources.gguf.metadata import undescribed
from edgec.exporter.sources.gguf.scales import check_scales
from edgec.exporter.sources.hf_config import DECODER, MODULE, kind_of, load_config
from edgec.exporter.sources.hub import fetch_snapshot
from edgec.exporter.sources.hub_gguf import fetch_gguf, hub_choice, refuse_unchosen
from edgec.exporter.sources.merged_adapter import merged
from edgec.exporter.sources.model_source import ModelSource
from edgec.exporter.sources.modules.factory import Example, call_factory, import_factory, is_factory, state_digest
from edgec.exporter.sources.modules.input_names import names_of_inputs
from edgec.exporter.sources.modules.module_state import own_copy
from edgec.exporter.sources.modules.scripted import script_inputs, without_scripts
from edgec.exporter.sources.multimodal.audio_language import TASK as HEARING_TASK
from edgec.exporter.sources.multimodal.audio_language import refuse_unknown_audio
from edgec.exporter.sources.multimodal.image_patches import Size
from edgec.exporter.sources.multimodal.vision_language import TASK as SEEING_TASK
from edgec.exporter.sources.multimodal.vision_language import refuse_unknown_vision
from edgec.exporter.sources.packed.packing import packing_of, without_packing
from edgec.runtime_py.adapters.peft_folder import read_peft
from edgec.runtime_py.functions.prepared_inputs import InputForm, check_fit


def resolve(
    model: str,
    *,
    random_weights: bool = False,
    revision: str | None = None,
    allow_pickle: bool = False,
    trust_remote_code: bool = False,
    task: str | None = None,
    context: int | None = None,
    seed: int = 0,
    image_size: Size | None = None,
) -> ModelSource:
    """Find a model and check that its files fit together.

    Args:
        model: a local folder, of a model or of a LoRA over one, a config.json, a GGUF file, a Hugging Face id
            (``owner/name``, for one of its GGUF files ``owner/name:Q4_K_M``), ``package.module:factory``, or
            ``tiny-stories``, the example that edgec brings. Local files and folders take precedence.
        random_weights: seeded random weights in place of stored ones.
        revision: branch, tag or commit on the hub.
        allow_pickle: open pickled weights (data only).
        trust_remote_code: run Python code that comes with the model.
        task: optimum's task name, for non-decoder models.
        context: the most tokens that a text encoder reads; None: as many as it states, 2,048 at most.
        seed: seed of random weights and example inputs.
        image_size: height and width of all images, for vision-language models that read any.

    Raises:
        InputError: E101 to E114, E124, E125, E145 to E149, for GGUF files E800 to E812 and E829, for quantised
            safetensors E814 to E819, for adapters E691 to E694, E878 and E879, for vision-language models E650, E721
            and E722, and for speech-language models E750 and E751; see docs/errors.md.
    """
    return _find(
        model, Options(random_weights, revision, allow_pickle, trust_remote_code, task, context, seed, image_size)
    )


def _find(model: str, options: Options) -> ModelSource:
    path, revision = existing_path(model), options.revision
    if path:
        return _from_path(model, path, options)
    if (example := carried_example(model)) is not None:
        return replace(_from_path(model, example, options), name=EXAMPLE)
    if is_factory(model):
        return _from_factory(model, options)
    if (asked := hub_choice(model)) is not None:
        return _from_gguf(model, fetch_gguf(*asked, revision), options)
    if not is_hub_id(model):
        raise no_such_path(model)
    allowed = {"allow_pickle": options.allow_pickle, "trust_remote_code": options.trust_remote_code}
    folder = fetch_snapshot(model, revision=revision, **allowed)
    refuse_unchosen(model, folder, revision)
    source = _from_path(model, folder, options)
    return replace(source, name=short_name(model.rpartition("/")[2]), revision=folder.name)


def _from_path(model: str, path: Path, options: Options) -> ModelSource:
    if (file := gguf_of(path)) is not None:
        return _from_gguf(model, file, options)
    if path.is_dir():
        return _from_folder(model, path, None, options)
    if path.suffix != ".json":
        raise refuse_file(path)
    source = _from_folder(model, path.parent, path, options)
    return source if path.name == CONFIG else replace(source, name=short_name(path.stem))


def _from_factory(model: str, options: Options) -> ModelSource:
    factory, files = import_factory(model)
    made, inputs, declared = call_factory(model, factory)
    digest = state_digest(made, inputs)
    module = without_scripts(made, inputs, model)
    names = script_inputs(module, len(inputs))
    return ModelSource(
        name=short_name(model.rpartition(":")[2]),
        kind=MODULE,
        source=model,
        config={"factory": model, "state_sha256": digest},
        files=files,
        seed=options.seed,
        input_names=names,
        prepared=_prepared(declared, list(names) or names_of_inputs(module, inputs), inputs, model) if declared else {},
        factory=lambda: (own_copy(module), inputs),
    )


def _prepared(declared: Any, names: list[str], inputs: Example, model: str) -> Preparations:
    """What a factory declares of its inputs, each of which can hold it.

    Raises:
        InputError: E850, it is malformed; E851, an input cannot hold what is declared for it.
    """
    prepared = read_preparations(declared, names, model)
    for name, value in zip(names, inputs, strict=True):
        if name in prepared:
            form = InputForm(name, tuple(value.shape), str(value.dtype).removeprefix("torch."))
            check_fit(prepared[name], form)
    return prepared


def _from_folder(model: str, folder: Path, config_file: Path | None, options: Options) -> ModelSource:
    if config_file is None and is_adapter(folder):
        return _from_adapter(model, folder, options)
    if config_file is None:
        refuse_foreign_folder(folder)
    described = read_folder(folder, config_file)
    packing = None if options.random_weights else packing_of(described)
    plain = replace(described, config=without_packing(described.config))
    if packing is not None:
        files = tuple(dict.fromkeys((*described.files, *packing.files)))
        plain = replace(plain, files=files, unpacked=packing.weights)
    return _described(model, plain, options)


def _from_adapter(model: str, folder: Path, options: Options) -> ModelSource:
    """A LoRA's folder: its base, merged; random weights stay as they are."""
    lora = read_peft(folder)
    base = _find(base_of(folder), replace(options, revision=None))
    return replace(base, source=model) if options.random_weights else merged(base, lora, model)


def _from_gguf(model: str, path: Path, options: Options) -> ModelSource:
    """A model in one file, or in the parts of one."""
    file, described = read_gguf_folder(path)
    if not options.random_weights:
        for tensor in file.tensors.values():
            check_scales(tensor)
    try:
        source = _described(model, described, options)
    except InputError as error:
        raise undescribed(file, error) if error.code in ("E106", "E111") else error from error
    return replace(source, name=short_name(file.name))


def _described(model: str, described: ModelFolder, options: Options) -> ModelSource:
    folder = described.path
    config = load_config(folder, described.config, trust_remote_code=options.trust_remote_code)
    if options.task == SEEING_TASK:
        refuse_unknown_vision(config, folder)
    if options.task == HEARING_TASK:
        refuse_unknown_audio(config, folder)
    kind = kind_of(config, options.task)
    kind = MODULE if kind == DECODER and options.task is None and is_sentence_encoder(folder) else kind
    source = ModelSource(
        name=short_name(folder.name),
        kind=kind,
        source=model,
        path=folder,
        licence=described.licence,
        trained=not options.random_weights,
        tokenizer_files=described.tokenizer_files,
        generation_config=_generation_config(described, kind),
        files=(*described.files, *(plain_files(folder, "*.py") if options.trust_remote_code else ())),
        seed=options.seed,
        trust_remote_code=options.trust_remote_code,
    )
    return finished(source, described, config, options)


def _generation_config(described: ModelFolder, kind: str) -> dict[str, Any]:
    """What a model that writes says about its texts, with what only its config.json names."""
    stated = described.generation_config
    return stated if kind == MODULE else with_named_ends(stated, described.config)
