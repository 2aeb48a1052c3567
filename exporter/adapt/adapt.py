"""``edgec.exporter.adapt``: a model in, the same model healed after its graph was rewritten out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgec.devices.targets import load_target
from edgec.errors import InputError
from edgec.exporter.adapt.record import as_recorded, check_free
from edgec.exporter.adapt.settings import Settings
from edgec.exporter.recipes.checks import check_recipe
from edgec.exporter.recipes.file import load_recipe
from edgec.exporter.recipes.recipe import Recipe, for_backend
from edgec.exporter.sources.decoder_spec import model_spec
from edgec.quiet import quiet

if TYPE_CHECKING:
    from edgec.exporter.adapt.batches import Batches
    from edgec.exporter.adapt.boundary import Boundary
    from edgec.exporter.adapt.checkpoint import Point
    from edgec.exporter.adapt.loop import TrainingListener
    from edgec.exporter.adapt.report import Baseline
    from edgec.exporter.adapt.student import Traced
    from edgec.exporter.sources.resolve import ModelSource


@dataclass(frozen=True)
class Adapted:
    """What came out: the model's folder, the points measured on the way, and the float model's on the same text."""

    path: Path
    curve: tuple[Point, ...]
    baseline: Baseline


@dataclass(frozen=True)
class AdaptJob:
    """What is adapted, how and from what.

    Attributes:
        source: the model.
        teacher: the model it learns from.
        recipe: resolved for its backend.
        recipe_file: where it stands.
        places: the text.
        settings: of training.
        out: the result's folder.
        force: one that is there is replaced.
        boundary: how it was chosen, where the recipe left it open.
    """

    source: ModelSource
    teacher: ModelSource
    recipe: Recipe
    recipe_file: Path
    places: tuple[str, ...]
    settings: Settings
    out: Path
    force: bool
    boundary: Boundary | None = None


@quiet()
def adapt(
    model: str | Path,
    *,
    recipe: str | Path,
    text: Sequence[str | Path],
    teacher: str | Path | None = None,
    target: str = "host",
    out: str | Path | None = None,
    settings: Settings | None = None,
    force: bool = False,
    restart: bool = False,
    revision: str | None = None,
    allow_pickle: bool = False,
    trust_remote_code: bool = False,
    progress: TrainingListener | None = None,
) -> Adapted:
    """Train a model under its recipe's passes against the original, and write it as a folder that ``export`` takes.

    A run that was stopped goes on at its last checkpoint when it is called again with the same arguments. Under
    ``accelerate launch`` every process takes part, and the first one writes.

    Args:
        model: Hugging Face id or local folder of a decoder.
        recipe: a recipe's name or TOML file: bits, caches, shared keys and values. ``float`` trains the plain model.
        text: files, folders, JSONL or ``hf:NAME``; a part is held out and measured.
        teacher: the model to learn from; the original by default.
        target: what the recipe is resolved for.
        out: the folder to write; NAME-RECIPE in the current folder by default.
        settings: of training.
        force: replace a folder that adapt wrote.
        restart: forget a checkpoint.
        revision: hub branch, tag or commit.
        allow_pickle: open pickled weights (data only).
        trust_remote_code: run Python code that comes with the model.
        progress: called at every step.

    Raises:
        InputError: E500 to E509; or the model, a pass or the output is at fault.
    """
    from edgec.exporter.adapt.checkpoint import forget
    from edgec.exporter.sources.resolve import resolve

    chosen = load_target(target)
    how, file = _recipe(recipe, chosen.backend)
    options: dict[str, Any] = {"allow_pickle": allow_pickle, "trust_remote_code": trust_remote_code}
    source = resolve(str(model), revision=revision, **options)
    original = source if teacher is None else resolve(str(teacher), **options)
    path = Path(out) if out is not None else Path(f"{source.name}-{how.name}")
    job = AdaptJob(source, original, how, file, tuple(map(str, text)), settings or Settings(), path, force)
    _check(job, teacher is not None)
    if restart:
        forget(_checkpoint(path))
    return _run(job, progress)


def _recipe(recipe: str | Path, backend: str) -> tuple[Recipe, Path]:
    from edgec.exporter.recipes.file import named

    found = load_recipe(recipe)
    check_recipe(found, backend)
    return for_backend(found, backend), named().get(str(recipe), Path(recipe))


def _check(job: AdaptJob, has_teacher: bool) -> None:
    """Refuse what could not be trained, before anything is built."""
    if job.source.kind != "decoder" or job.source.path is None or not job.source.tokenizer_files:
        raise InputError(
            what="adapt trains decoders with a tokenizer",
            where=job.source.source,
            why="the model is no language model, or its folder holds no tokenizer",
            fix="give a causal language model's folder or hub id",
            code="E506",
        )
    context = model_spec(job.source.config).context
    if job.settings.length > context:
        why, fix = f"the model was made for {context}", f"use --length {context} or less"
        raise InputError(f"sequences of {job.settings.length} tokens are too long", "--length", why, fix, "E501")
    check_free(job.out, job.force)
    how = job.recipe
    if how.prepare:
        why = "training moves weights itself, and finds their scales where they are"
        raise InputError(f"{how.name} rewrites weights first", "--recipe", why, "leave prepare out", "E509")
    if how.early_exit:
        why = "the layers that an export leaves out would be trained all the same"
        raise InputError(f"{how.name} ends the model early", "--recipe", why, "leave early_exit out", "E509")
    asked = (how.shared_kv, how.weights, how.lm_head, how.embedding, how.rules, how.kv_dtype != "float32")
    if not any(asked) and not has_teacher and not job.settings.text_loss:
        raise InputError(
            what="there is nothing to learn",
            where=f"recipe {job.recipe.name}",
            why="the recipe changes nothing, and the model is its own teacher",
            fix="give --text-loss 1 to go on training on the text, or another --teacher",
            code="E506",
        )


def _run(job: AdaptJob, progress: TrainingListener | None) -> Adapted:
    from edgec.exporter.adapt.batches import tokenized
    from edgec.exporter.adapt.loop import Run
    from edgec.exporter.adapt.student import TrainableDecoder, place, student
    from edgec.exporter.adapt.texts import read_texts
    from edgec.exporter.sources.tokenizer import load_tokenizer

    settings = job.settings
    assert job.source.path is not None
    tokenizer = load_tokenizer(job.source.path, trust_remote_code=job.source.trust_remote_code)
    texts = read_texts(job.places)
    batches = tokenized(texts, tokenizer, settings.length, settings.held_out_tokens, settings.seed)
    job = _with_boundary(job, batches)
    accelerator = _accelerator()
    original, baseline = _teacher(job, batches, accelerator.device)
    traced = student(job.source, job.recipe, settings)
    place(traced.program.graph, accelerator.device)
    learner = TrainableDecoder(traced.program, layers=settings.hidden_loss > 0)
    run = Run(
        accelerator=accelerator,
        learner=_recomputed(learner, settings),
        teacher=original,
        batches=batches,
        settings=settings,
        file=_checkpoint(job.out),
        key=_key(job, batches.train, accelerator.num_processes),
        listener=progress or (lambda _: None),
    )
    curve = run.train()
    if accelerator.is_main_process:
        _write(job, traced, curve, baseline, run.state.seconds)
    accelerator.wait_for_everyone()
    return Adapted(job.out, tuple(curve), baseline)


def _with_boundary(job: AdaptJob, batches: Batches) -> AdaptJob:
    """The job with a boundary that is a number, chosen on the text it trains on if the recipe leaves it open."""
    from edgec.exporter.adapt.boundary import TOKENS, choose_boundary, is_open
    from edgec.exporter.adapt.student import captured
    from edgec.passes.cleanup.remove_noops import RemoveNoops
    from edgec.passes.contract import run_pass

    recipe = as_recorded(job.recipe, job.source.config)
    if not is_open(recipe):
        return job
    program = run_pass(captured(job.source, job.settings).program, RemoveNoops(), in_place=True)
    rows = batches.at(0, max(1, TOKENS // job.settings.length), job.settings.length)[:, :-1]
    found = choose_boundary(program, recipe, list(rows))
    return replace(job, recipe=replace(recipe, boundary=found.kept), boundary=found)


def _accelerator() -> Any:
    """Devices and processes as ``accelerate launch`` set them; bfloat16 arithmetic where there is a GPU."""
    import torch
    from accelerate import Accelerator

    return Accelerator(mixed_precision="bf16") if torch.cuda.is_available() else Accelerator(cpu=True)


def _recomputed(learner: Any, settings: Settings) -> Any:
    from edgec.exporter.adapt.segments import recomputed

    if settings.recompute:
        learner.graph = recomputed(learner.graph)
    return learner


def _teacher(job: AdaptJob, batches: Batches, device: Any) -> tuple[Any, Baseline]:
    """The original as a module, None where only the text teaches; and its loss on the held-out text."""
    from edgec.exporter.adapt.loop import measure
    from edgec.exporter.adapt.report import Baseline
    from edgec.exporter.adapt.student import TrainableDecoder, place, teacher

    settings = job.settings
    program = teacher(job.teacher, settings)
    place(program.graph, device)
    found = TrainableDecoder(program, layers=settings.hidden_loss > 0).to(device)
    name = "float model" if job.teacher is job.source else "teacher, float"
    baseline = Baseline(name, measure(found, None, batches.held_out, settings.batch)[0])
    return None if settings.text_loss == 1 and not settings.hidden_loss else found, baseline


def _key(job: AdaptJob, train: Any, processes: int) -> str:
    """What a checkpoint must agree in; a model that was trained anew in place has other times."""
    import hashlib

    from edgec.exporter.adapt.checkpoint import fingerprint

    return fingerprint(
        {
            "settings": job.settings.to_json(),
            "recipe": job.recipe.to_json(),
            "models": [_state(file) for source in (job.source, job.teacher) for file in source.files],
            "processes": processes,
            "text": hashlib.sha256(train.numpy().tobytes()).hexdigest(),
        }
    )


def _state(file: Path) -> tuple[str, int, int]:
    status = file.stat()
    return str(file), status.st_size, status.st_mtime_ns


def _checkpoint(out: Path) -> Path:
    """Where a run keeps its state until it is done."""
    return out.with_name(f".{out.name}.adapt") / "checkpoint.pt"


def _write(job: AdaptJob, traced: Traced, curve: Sequence[Point], baseline: Baseline, seconds: float) -> None:
    from edgec.exporter.adapt.checkpoint import forget
    from edgec.exporter.adapt.report import curve_json, model_card, report
    from edgec.exporter.adapt.result import write_result

    facts = {
        "model": job.source.source,
        "teacher": job.teacher.source,
        "recipe": f"{job.recipe.name}: {job.recipe.description}" if job.recipe.description else job.recipe.name,
        "text": ", ".join(Path(place).name for place in job.places),
        "training": f"{seconds:.0f} s (measured)",
        baseline.name: f"{baseline.held_out:.4f} nats per token of the held-out text (measured)",
        **({"boundary": str(job.boundary)} if job.boundary else {}),
    }
    title = f"{job.source.name} adapted to {job.recipe.name}"
    pages = {
        "report.html": report(title, facts, job.settings, curve, baseline),
        "training.json": curve_json(job.settings, facts, curve, baseline),
        "README.md": model_card(title, job.source.licence, facts, curve),
    }
    recipe = as_recorded(job.recipe, job.source.config)
    write_result(job.out, job.source, traced, recipe, job.recipe_file, pages, job.force)
    forget(_checkpoint(job.out))
