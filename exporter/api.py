"""``edgec.export``: one call from MODEL to a verified bundle."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from edgec.bundle.folder import check_output, write_bundle
from edgec.bundle.generation_config import check_generation_config
from edgec.bundle.limited_toml import is_number
from edgec.devices.targets import Target, load_target
from edgec.errors import InputError
from edgec.exporter.adapt.record import as_recorded, recorded_recipe
from edgec.exporter.parity.ladder import BUDGETS
from edgec.exporter.progress import Listener, Progress, silent
from edgec.exporter.recipes.advice import naming_recipes
from edgec.exporter.recipes.checks import check_recipe
from edgec.exporter.recipes.file import load_recipe
from edgec.exporter.recipes.passes import check_preparation
from edgec.exporter.recipes.recipe import Recipe, for_backend
from edgec.exporter.resolve.calibration_text import calibration_tokens
from edgec.exporter.resolve.kernel_choice import with_kernels
from edgec.exporter.resolve.memory_forecast import check_memory, expected_artifact_bytes
from edgec.exporter.resolve.target_format import in_format
from edgec.exporter.sources.decoder_spec import model_spec
from edgec.exporter.sources.resolve import ModelSource, resolve
from edgec.quiet import quiet


@quiet()
def export(
    model: str | Path,
    *,
    target: str = "host",
    recipe: str | Path | Recipe | None = None,
    out: str | Path | None = None,
    force: bool = False,
    random_weights: bool = False,
    revision: str | None = None,
    allow_pickle: bool = False,
    trust_remote_code: bool = False,
    task: str | None = None,
    context: int | None = None,
    kernels: str | None = None,
    max_fallback: float | None = None,
    format: str | None = None,
    budgets: Mapping[str, float] | None = None,
    text: str | Path | None = None,
    calibrate: str | Path | None = None,
    target_bits: float | None = None,
    system_prompt: str | Path | None = None,
    draft_heads: str | Path | None = None,
    seed: int = 0,
    progress: Listener = silent,
) -> Path:
    """Export a model to a bundle that an app embeds.

    Args:
        model: Hugging Face id, local folder, config.json (with ``random_weights``) or ``package.module:factory``.
        target: a name from ``edgec targets``; ``iphone`` is the oldest iPhone that the model fits.
        recipe: a recipe's name, its TOML file, or a Recipe; by default the one that ``edgec adapt`` trained the model
            for, else ``4bit``.
        out: the bundle's own path; by default NAME-TARGET.edgec in the current folder.
        force: replace an existing bundle.
        random_weights: export an architecture with seeded random weights.
        revision: hub branch, tag or commit.
        allow_pickle: open pickled weights (data only).
        trust_remote_code: run Python code that comes with the model.
        task: optimum's task name, for models that are not decoders.
        context: positions the artifact serves; the recipe's or the model's own by default.
        kernels: ``edgec`` or ``standard`` (those of every ExecuTorch app); the recipe's by default, and ExecuTorch's
            where edgec's cannot be compiled.
        format: ``pte``, ``mlpackage``, ``aimodel``, ``onnx`` or ``qnn``, where the target has several; else its first.
        max_fallback: largest share of the arithmetic outside the accelerator, 0..1.
        budgets: parity budgets that replace the recipe's (``kl_mean`` nats, ``top1_agreement`` 0..1).
        text: a file with text for the parity ladder; a built-in text by default.
        calibrate: a file with text like what the model will see: errors of look-up tables then count as its inputs are
            large on that text; recipes that fit whole layers (``4bit-gptq``) need it.
        target_bits: average bits per weight of the linear layers; how many each gets is searched for on the text of
            ``calibrate``, and written into the recipe as rules.
        system_prompt: a file with a text whose KV state the bundle ships, so that no conversation that begins with it
            computes it again.
        draft_heads: safetensors of heads (``examples/train_heads.py``) that guess tokens for speculative decoding.
        seed: of random weights.
        progress: called with an Event at every step.

    Returns:
        The bundle's path.

    Raises:
        InputError: the model, an option or the output is at fault; nothing was written.
        BudgetError: E201 parity, E210 size, E220 fallback; nothing was written.
    """
    from edgec.backends.forms import form_of
    from edgec.backends.qnn.legality import check_chip
    from edgec.bundle.prefix import read_system_prompt
    from edgec.exporter.adapt.boundary import with_boundary
    from edgec.exporter.assemble.assemble import bundle_contents
    from edgec.exporter.bit_search.stage import with_bits
    from edgec.exporter.pipeline import Request, compile_model
    from edgec.exporter.resolve.target_choice import chosen_target
    from edgec.exporter.stage_cache import StageCache
    from edgec.exporter.stages.prefix import check_prompt
    from edgec.exporter.stages.static_decoder import check_static

    stages = Progress(progress)
    stages.enter("resolve", str(model))
    if out is not None:
        check_output(Path(out), force)
    _check_share(max_fallback)
    chosen = _target(target, format)
    how = _recipe(recipe or recorded_recipe(model) or "4bit", chosen.backend, budgets)
    check_recipe(how, chosen.backend)
    check_chip(chosen, how)
    if form_of(chosen).static:
        check_static(how, form_of(chosen), draft_heads=draft_heads is not None, system_prompt=system_prompt is not None)
    else:
        how = with_kernels(how, kernels)
    source = resolve(
        str(model),
        random_weights=random_weights,
        revision=revision,
        allow_pickle=allow_pickle,
        trust_remote_code=trust_remote_code,
        task=task,
        seed=seed,
    )
    check_generation_config(source.generation_config, source.source)
    _require_attention(source)
    how = as_recorded(how, source.config)
    check_preparation(how, source.kind)
    chosen, choice = chosen_target(chosen, source, how, context)
    path = Path(out) if out is not None else Path(f"{source.name}-{target}.edgec")
    check_output(path, force, expected_artifact_bytes(source, how))
    check_memory(source, how)
    tokenizer = _tokenizer(source)
    prompt = read_system_prompt(Path(system_prompt), tokenizer) if system_prompt is not None else None
    heads = _heads(draft_heads)
    known = calibration_tokens(calibrate, how, tokenizer, searched=target_bits is not None)
    request = Request(
        source, chosen, how, _context(source, context), _text(text), tokenizer, max_fallback, prompt, heads, known
    )
    if prompt is not None:
        check_prompt(prompt, request.limits.context, request.spec.context)
    with StageCache() as cache:
        request = with_bits(with_boundary(request, stages), target_bits, cache, stages)
        with naming_recipes(request.recipe, chosen):
            compiled = compile_model(request, cache, stages)
        stages.enter("bundle", str(path))
        name = path.name.removesuffix(".edgec")
        manifest, files = bundle_contents(request, compiled, name, stages.seconds, cache, choice)
        write_bundle(path, manifest, files, force)
    stages.finish()
    return path


def _target(name: str, format: str | None) -> Target:
    target = in_format(load_target(name), format)
    if not target.export_supported:
        raise InputError(
            what=f"{name} cannot be exported to yet",
            where="--target",
            why=f"there is no {target.backend} backend in this version",
            fix="use --target host, android-cpu or iphone; edgec plan estimates size and speed for every target",
            code="E117",
        )
    return target


def _recipe(recipe: str | Path | Recipe, backend: str, budgets: Mapping[str, float] | None) -> Recipe:
    """The recipe as the backend expresses it; the caller's budgets stand above its own and the backend's."""
    how = for_backend(recipe if isinstance(recipe, Recipe) else load_recipe(recipe), backend)
    for name, limit in (budgets or {}).items():
        if name not in BUDGETS:
            raise InputError(f"{name!r} is no budget", "--budget", fix=f"use one of {', '.join(BUDGETS)}", code="E115")
        if not is_number(limit):
            raise InputError(f"{limit!r} is no limit for {name}", "--budget", fix="give a finite number", code="E115")
    return replace(how, budgets={**how.budgets, **budgets}) if budgets else how


def _check_share(max_fallback: float | None) -> None:
    if max_fallback is not None and not 0.0 <= max_fallback <= 1.0:
        raise InputError(f"{max_fallback} is no share", "--max-fallback", fix="give a share from 0 to 1", code="E115")


def _require_attention(source: ModelSource) -> None:
    """Refuse decoders whose attention cannot be replaced, before the minutes that the reference may take."""
    from edgec.exporter.capture import attention

    if source.kind == "decoder":
        attention.register()
        source.build_on("meta", attn_implementation=attention.NAME)


def _context(source: ModelSource, context: int | None) -> int | None:
    """The context asked for, if this model can have it."""
    if context is None:
        return None
    longest = model_spec(source.config).context if source.kind == "decoder" else None
    if longest and 2 <= context <= longest:
        return context
    why = f"the model was made for 2 to {longest} positions" if longest else "the model has no KV cache"
    raise InputError(
        what=f"a context of {context} tokens is not possible",
        where="--context",
        why=why,
        fix=f"use --context {longest} or less" if longest else "leave --context out",
        code="E118",
    )


def _heads(file: str | Path | None) -> Path | None:
    """The file of draft heads, if it can be read as such."""
    if file is None:
        return None
    from edgec.passes.draft.draft_heads import read_heads

    read_heads(Path(file))
    return Path(file)


def _text(text: str | Path | None) -> str | None:
    if text is None:
        return None
    try:
        return Path(text).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            what="the text for the parity ladder cannot be read",
            where=str(text),
            why=str(error),
            fix="give a UTF-8 text file with --text",
            code="E119",
        ) from error


def _tokenizer(source: ModelSource) -> Any:
    """The model's tokenizer, checked against its embedding; None for models without one."""
    if not source.tokenizer_files or source.path is None or source.kind != "decoder":
        return None
    from edgec.exporter.sources.tokenizer_check import check_tokenizer
    from edgec.exporter.sources.tokenizer_files import load_tokenizer

    tokenizer = load_tokenizer(source.path, trust_remote_code=source.trust_remote_code)
    check_tokenizer(tokenizer, int(source.config["vocab_size"]), source.source)
    return tokenizer
