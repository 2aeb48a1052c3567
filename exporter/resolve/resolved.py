"""From ExportOptions to an ExportRequest: whatever can be refused is refused here, before any work."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgec.backends.forms import form_of
from edgec.bundle.end_tokens import with_tokenizer_ends
from edgec.bundle.folder import check_output
from edgec.bundle.generation_config import check_generation_config
from edgec.bundle.prefix import read_system_prompt
from edgec.devices.targets import DEFAULT_TARGET, Target, known_name, load_target
from edgec.engine.compile.build import build_runner, find_build
from edgec.errors import InputError, ToolError
from edgec.exporter.options import ExportOptions
from edgec.exporter.progress import Progress, shares_with_engine
from edgec.exporter.recipes.adapt_record import as_recorded
from edgec.exporter.recipes.passes import check_preparation
from edgec.exporter.recipes.recipe import Recipe
from edgec.exporter.recipes.support import OWN_KERNELS
from edgec.exporter.request import ExportRequest
from edgec.exporter.resolve.adapters import check_adaptable, check_modules, read_loras
from edgec.exporter.resolve.asked_context import check_context
from edgec.exporter.resolve.calibration_text import calibration_tokens, text_of_file
from edgec.exporter.resolve.emulation import choose_emulation
from edgec.exporter.resolve.float_layers import check_kept_layers, with_kept_layers
from edgec.exporter.resolve.layout_fit import check_layout, check_windows
from edgec.exporter.resolve.litert_fit import check_litert
from edgec.exporter.resolve.memory_forecast import check_memory, expected_artifact_bytes
from edgec.exporter.resolve.predictor import asked_predictor, asks_predictor
from edgec.exporter.resolve.recipe_choice import (
    check_early,
    default_of_module,
    load_asked_recipe,
    names_no_recipe,
    without_own_kernels,
)
from edgec.exporter.resolve.several_methods import check_executable
from edgec.exporter.resolve.stored_forms import as_stored, check_requantise
from edgec.exporter.resolve.system_prompt import check_prompt
from edgec.exporter.resolve.target_choice import choose_target, in_format, in_layout, on_unit
from edgec.exporter.resolve.written_file import check_written
from edgec.exporter.schemas.shipped import schema_files
from edgec.exporter.sources.model_source import ModelSource
from edgec.exporter.sources.modules.given_inputs import GivenInputs, read_inputs
from edgec.exporter.sources.multimodal.image_patches import parsed_size, refuse_size
from edgec.exporter.sources.multimodal.sound_template import teach_sounds
from edgec.exporter.sources.resolve import resolve
from edgec.passes.draft.head_weights import check_fit
from edgec.platform_parts import require_parts

if TYPE_CHECKING:
    from edgec.passes.draft.head_weights import StoredHeads

_NO_COMPILER = "E311"
_FELL_BACK = "no C++ compiler here: ExecuTorch's standard kernels in place of edgec's faster ones"


@dataclass(frozen=True)
class Resolved:
    """An export that is ready to start.

    Attributes:
        request: what the stages read.
        out: the bundle's path.
        target_choice: why this phone was chosen, where a family was named, and which kernels in place of which; else
            empty.
    """

    request: ExportRequest
    out: Path
    target_choice: str


def resolve_options(options: ExportOptions, progress: Progress | None = None) -> Resolved:
    """Resolve target, recipe, model and texts, and check that they fit together.

    Args:
        options: those of the export.
        progress: told where the engine is compiled first, which takes longer than all the rest.

    Raises:
        InputError: the model, an option or the output is at fault.
        ToolError: what the target needs is not installed; E889, it cannot be on this system.
    """
    options.check()
    name = known_name(options.target or DEFAULT_TARGET)
    if options.out is not None:
        check_output(Path(options.out), options.force)
    asked = _load_target(name, options)
    require_parts((form_of(asked).runtime, *form_of(asked).tools), f"--target {name}")
    recipe = load_asked_recipe(options, asked)
    found = None
    if progress and (options.kernels or recipe.kernels) == "edgec" and not form_of(asked).static:
        # A wrong name is told before minutes of compiling.
        found = None if find_build() else _find_source(options)
        compile_engine(progress)
    wanted, recipe = options.kernels or recipe.kernels, check_early(recipe, asked, options)
    fell_back = _FELL_BACK if wanted != recipe.kernels else ""
    check_adaptable(options.adapters, form_of(asked), recipe)
    loras = read_loras(options.adapters)
    source = found or _find_source(options)
    check_layout(source, recipe, form_of(asked))
    if form_of(asked).written:
        check_written(source, recipe)
    check_modules(loras, source)
    further: tuple[Recipe, ...] = ()
    if source.kind == "module" and names_no_recipe(options):
        recipe, further = default_of_module(asked, options)
    recipe = with_kept_layers(recipe, options)
    further = tuple(with_kept_layers(each, options) for each in further)
    kept = check_kept_layers(recipe, source.kind, form_of(asked))
    recipe = as_stored(as_recorded(recipe, source.config), source, options)
    loops = False
    noted = check_requantise(options, recipe, source, form_of(asked))
    check_executable(source, recipe, form_of(asked), options)
    check_litert(source, form_of(asked), options.context or recipe.context or 0, progress or Progress())
    if source.kind == "module":
        own = asked.name == DEFAULT_TARGET
        # An app has ExecuTorch's kernels, so that on phones edgec's are called where they are asked for.
        loops = recipe.kernels == OWN_KERNELS and (own or options.kernels == OWN_KERNELS)
        recipe, *others = (each if own else without_own_kernels(each, asked) for each in (recipe, *further))
        further = tuple(others)
    check_preparation(recipe, source.kind)
    added = sum(lora.bytes(2) for lora in loras)
    target, choice = choose_target(asked, source, recipe, options.context, added)
    out = Path(options.out) if options.out is not None else Path(f"{source.name}-{name}.edgec")
    check_output(out, options.force, expected_artifact_bytes(source, recipe) + added)
    check_memory(source, recipe)
    request = _request(options, source, target, recipe)
    if request.form.written:
        # Refused here: config and tokenizer are read back from the file's header.
        from edgec.exporter.gguf_file.description import describe_model

        describe_model(request.source, request.tokenizer)
    for each in filter(None, (noted, kept)):
        (progress or Progress()).note(each)
    request = replace(request, further_recipes=further, loops=loops)
    request = replace(
        request, loras=loras, emulation=choose_emulation(request, options.emulate, progress or Progress())
    )
    return Resolved(request, out, "; ".join(filter(None, (choice, fell_back))))


def _load_target(name: str, options: ExportOptions) -> Target:
    target = in_layout(in_format(on_unit(load_target(name), options.unit), options.format), options.layout)
    if not target.export_supported:
        raise InputError(
            what=f"edgec cannot export for {name} yet",
            where="--target",
            why=f"there is no {target.backend} backend in this version",
            fix="use --target host, android-cpu or iphone; edgec plan estimates size and speed for every target",
            code="E117",
        )
    return target


def _find_source(options: ExportOptions) -> ModelSource:
    """Find the model, and check that its attention can be replaced."""
    size = parsed_size(options.image_size) if options.image_size is not None else None
    source = resolve(
        str(options.model),
        random_weights=options.random_weights,
        revision=options.revision,
        allow_pickle=options.allow_pickle,
        trust_remote_code=options.trust_remote_code,
        task=options.task,
        context=options.context,
        seed=options.seed,
        image_size=size,
    )
    if source.vision is None:
        refuse_size(size, str(source.config.get("model_type", source.source)))
    check_generation_config(source.generation_config, source.source)
    if source.kind != "module":
        # Refused here: running the reference may take minutes.
        from edgec.exporter.capture import attention

        attention.register()
        source.build_on("meta", attn_implementation=attention.NAME)
    return source


def _request(options: ExportOptions, source: ModelSource, target: Target, recipe: Recipe) -> ExportRequest:
    tokenizer = _load_tokenizer(source)
    source = replace(source, generation_config=with_tokenizer_ends(source.generation_config, tokenizer))
    prompt = read_system_prompt(Path(options.system_prompt), tokenizer) if options.system_prompt is not None else None
    known = calibration_tokens(options.calibrate, recipe, tokenizer, searched=options.target_bits is not None)
    request = ExportRequest(
        source=source,
        target=target,
        recipe=recipe,
        draft_heads=_open_heads(options),
        calibration=known,
        calibration_text=text_of_file(options.calibrate, known),
        context=check_context(source, options.context),
        inputs=_read_inputs(options, source),
        text=_read_text(options.text),
        tokenizer=tokenizer,
        max_fallback=options.max_fallback,
        prompt=prompt,
        compare_layers=options.compare_layers,
        schemas=schema_files(options.schemas or {}, options.regexes or {}, options.grammars or {}, source, tokenizer),
    )
    check_windows(request)
    if prompt is not None:
        check_prompt(prompt, request.limits.context, request.spec.context)
    if source.kind == "module":
        return request
    if request.draft_heads is not None and source.kind == "decoder":
        check_fit(request.draft_heads, request.spec)
    request = replace(request, predictor=asked_predictor(request, options))
    return replace(request, source=replace(source, longest=request.limits.context))


def _read_inputs(options: ExportOptions, source: ModelSource) -> GivenInputs | None:
    """The user's examples for a module; other models are judged on texts."""
    if options.inputs is None:
        return None
    if source.kind != "module":
        raise InputError(
            what="--inputs is for models that are not language models",
            where="--inputs",
            why=f"{source.name} is judged on texts",
            fix="give a text with --text, and one to calibrate on with --calibrate",
            code="E839",
        )
    return read_inputs(Path(options.inputs), source.prepared)


def _open_heads(options: ExportOptions) -> StoredHeads | None:
    """The draft heads that the user gives, checked for contradictions of their own."""
    if options.draft_heads is None or asks_predictor(options):
        return None
    from edgec.exporter.sources.drafts.kinds import open_heads

    return open_heads(Path(options.draft_heads), bool(options.allow_pickle))


def _read_text(file: str | Path | None) -> str | None:
    if file is None:
        return None
    try:
        return Path(file).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            what="the text for the parity ladder cannot be read",
            where=str(file),
            why=str(error),
            fix="give a UTF-8 text file with --text",
            code="E119",
        ) from error


def _load_tokenizer(source: ModelSource) -> Any:
    """The model's tokenizer, checked against its embedding; None for models without one."""
    if not source.tokenizer_files or source.path is None or source.kind == "module":
        return None
    from edgec.exporter.sources.tokenizer import check_tokenizer, load_tokenizer

    tokenizer = load_tokenizer(source.path, trust_remote_code=source.trust_remote_code)
    check_tokenizer(tokenizer, int(source.config["vocab_size"]), source.source)
    if source.audio is not None:
        teach_sounds(tokenizer, source.audio)
    return tokenizer


def compile_engine(progress: Progress) -> None:
    """Compile the engine unless it is compiled already, and report each file; afterwards the stage is ``resolve``.

    A machine that cannot compile it is left as it is: whether that is an error depends on the recipe's kernels.
    """
    if find_build() is not None:
        return
    progress.shares = shares_with_engine()
    progress.enter("engine", "compiling, once")
    with suppress(ToolError):
        build_runner(
            compiled=lambda done, files: progress.step(done / files, f"{done} of {files} files compiled, once")
        )
    progress.enter("resolve")
