"""``edgec adapt``: train a model under its recipe's passes until it recovers what they cost, and write it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgec.bundle.folder import open_bundle
from edgec.bundle.hub.located import bundle_folder
from edgec.devices.targets import load_target
from edgec.exporter.adapt.job import AdaptJob, check_job
from edgec.exporter.adapt.settings import Settings
from edgec.exporter.recipes.adapt_record import as_recorded
from edgec.exporter.recipes.checks import check_recipe
from edgec.exporter.recipes.file import load_recipe, named_recipes
from edgec.exporter.recipes.recipe import Recipe, for_backend, with_trained_grids
from edgec.quiet import quiet

if TYPE_CHECKING:
    from edgec.exporter.adapt.batches import Batches
    from edgec.exporter.adapt.checkpoint import Point
    from edgec.exporter.adapt.loop import TrainingListener
    from edgec.exporter.adapt.report import Baseline
    from edgec.exporter.adapt.student import Traced
    from edgec.exporter.sources.model_source import ModelSource
    from edgec.runtime_py.adapters.peft_folder import PeftFolder


@dataclass(frozen=True)
class Adapted:
    """A finished run.

    Attributes:
        path: the folder of the model, or of the adapter.
        curve: the points measured on the way.
        baseline: the float model's loss on that text.
        adapter: the adapter's file for the bundle that was given.
    """

    path: Path
    curve: tuple[Point, ...]
    baseline: Baseline
    adapter: Path | None = None


@quiet()
def adapt(
    model: str | Path,
    *,
    recipe: str | Path,
    text: Sequence[str | Path],
    teacher: str | Path | None = None,
    target: str = "host",
    bundle: str | Path | None = None,
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

    A run that was stopped continues from its last checkpoint when it is called again with the same arguments. Under
    ``accelerate launch`` every process takes part, and the first one writes.

    Args:
        model: Hugging Face id or local folder of a decoder.
        recipe: a recipe's name or TOML file: bits, caches, shared keys and values. ``float`` trains the plain model.
        text: files, folders, JSONL or ``hf:NAME``; a part is held out and measured.
        teacher: the model to learn from; the original by default.
        target: what the recipe is resolved for.
        bundle: with ``low_rank``: also write OUT.adapter, for this bundle of the model and recipe.
        out: the folder to write; NAME-RECIPE in the current folder by default, NAME-RECIPE-lora for an adapter.
        settings: of training.
        force: replace a folder that adapt wrote.
        restart: forget a checkpoint.
        revision: hub branch, tag or commit.
        allow_pickle: open pickled weights (data only).
        trust_remote_code: run Python code that comes with the model.
        progress: called at every step.

    Raises:
        InputError: E500 to E514, E698, E699; or the model, a pass, the bundle or the output is at fault.
    """
    from edgec.exporter.adapt.checkpoint import forget

    trained, file = _load_recipe(recipe, load_target(target).backend)
    options: dict[str, Any] = {"allow_pickle": allow_pickle, "trust_remote_code": trust_remote_code}
    source = _text_decoder(str(model), revision=revision, **options)
    original = source if teacher is None else _text_decoder(str(teacher), **options)
    settings = settings or Settings()
    # An adapter fits the integers of a bundle; whole weights are trained on grids that training can move.
    trained = trained if settings.adapter else with_trained_grids(trained)
    path = Path(out or f"{source.name}-{trained.name}{'-lora' if settings.adapter else ''}")
    job = AdaptJob(source, original, trained, file, tuple(map(str, text)), settings, path, force)
    job = job if bundle is None else replace(job, bundle=open_bundle(bundle_folder(bundle)))
    check_job(job, has_teacher=teacher is not None)
    if restart:
        forget(_checkpoint(path))
    return _run(job, progress)


def _text_decoder(model: str, **options: Any) -> ModelSource:
    """The model; of one with vision or audio the text part, which is what is trained."""
    from edgec.exporter.sources.resolve import resolve

    source = resolve(model, **options)
    senses = source.kind in ("vision-language", "audio-language")
    return resolve(model, task="text-generation", **options) if senses else source


def _load_recipe(name: str | Path, backend: str) -> tuple[Recipe, Path]:
    """The recipe as a backend expresses it, and its file."""
    recipe = load_recipe(name)
    check_recipe(recipe, backend)
    return for_backend(recipe, backend), named_recipes().get(str(name), Path(name))


def _run(job: AdaptJob, progress: TrainingListener | None) -> Adapted:
    from edgec.exporter.adapt.batches import tokenize
    from edgec.exporter.adapt.loop import Run
    from edgec.exporter.adapt.student import TrainableDecoder, build_student, move_constants
    from edgec.exporter.adapt.texts import read_texts
    from edgec.exporter.adapt.training_graph import checkpoint_layers
    from edgec.exporter.sources.tokenizer import load_tokenizer

    settings = job.settings
    assert job.source.path is not None
    tokenizer = load_tokenizer(job.source.path, trust_remote_code=job.source.trust_remote_code)
    texts = read_texts(job.places)
    batches = tokenize(texts, tokenizer, settings.length, settings.held_out_tokens, settings.seed)
    job = _with_boundary(job, batches)
    accelerator = _accelerator()
    teacher, baseline = _prepare_teacher(job, batches, accelerator.device)
    traced = build_student(job.source, job.recipe, settings)
    _fit(job, traced)
    move_constants(traced.program.graph, accelerator.device)
    learner = TrainableDecoder(traced.program, layers=settings.hidden_loss > 0)
    if settings.recompute:
        learner.graph = checkpoint_layers(traced.program.graph)
    run = Run(
        accelerator=accelerator,
        learner=learner,
        teacher=teacher,
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
    return Adapted(job.out, tuple(curve), baseline, job.adapter_file if job.bundle else None)


def _fit(job: AdaptJob, traced: Traced) -> None:
    """Train beside a bundle's own weights; one that the adapter will not fit is refused before."""
    from edgec.exporter.adapt.bundle_weights import take_weights
    from edgec.runtime_py.adapters.make import bind

    if job.bundle is not None:
        bind(_trained_adapter(job, traced), job.bundle)
        take_weights(traced.program.graph, job.bundle)


def _trained_adapter(job: AdaptJob, traced: Traced) -> PeftFolder:
    from edgec.exporter.adapt.adapter_result import trained_adapter

    return trained_adapter(traced.program.graph, job.settings.low_rank, job.source.source, job.out)


def _with_boundary(job: AdaptJob, batches: Batches) -> AdaptJob:
    """The job with a number for the boundary: where the recipe leaves it open, it is chosen on the training text."""
    from edgec.exporter.adapt.boundary import TOKENS, choose_boundary, is_open
    from edgec.exporter.adapt.student import capture_for_training
    from edgec.passes.cleanup.remove_noops import RemoveNoops
    from edgec.passes.contract import run_pass

    recipe = as_recorded(job.recipe, job.source.config)
    if not is_open(recipe):
        return job
    program = run_pass(capture_for_training(job.source, job.settings).program, RemoveNoops(), in_place=True)
    rows = batches.at(0, max(1, TOKENS // job.settings.length), job.settings.length)[:, :-1]
    boundary = choose_boundary(program, recipe, list(rows))
    return replace(job, recipe=replace(recipe, boundary=boundary.kept), boundary=boundary)


def _accelerator() -> Any:
    """Devices and processes as ``accelerate launch`` set them; the loop alone says what is computed in bfloat16."""
    import torch
    from accelerate import Accelerator, DistributedDataParallelKwargs

    # Rounded weights beside an adapter are buffers, which no step changes: they need not be sent at each.
    together = DistributedDataParallelKwargs(broadcast_buffers=False)
    return Accelerator(mixed_precision="no", cpu=not torch.cuda.is_available(), kwargs_handlers=[together])


def _prepare_teacher(job: AdaptJob, batches: Batches, device: Any) -> tuple[Any, Baseline]:
    """The teacher as a module, None where only the text teaches; and its loss on the held-out text."""
    from edgec.exporter.adapt.loop import measure
    from edgec.exporter.adapt.report import Baseline
    from edgec.exporter.adapt.student import TrainableDecoder, build_teacher, move_constants

    settings = job.settings
    program = build_teacher(job.teacher, settings)
    move_constants(program.graph, device)
    teacher = TrainableDecoder(program, layers=settings.hidden_loss > 0).to(device)
    name = "float model" if job.teacher is job.source else "teacher, float"
    baseline = Baseline(name, measure(teacher, None, batches.held_out, settings.batch)[0])
    return None if settings.text_loss == 1 and not settings.hidden_loss else teacher, baseline


def _key(job: AdaptJob, train: Any, processes: int) -> str:
    """A fingerprint of the run. File times are part of it: a model trained again in place has the same names."""
    import hashlib

    from edgec.exporter.adapt.checkpoint import fingerprint

    return fingerprint(
        {
            "settings": job.settings.to_json(),
            "recipe": job.recipe.to_json(),
            "models": [_file_stamp(file) for source in (job.source, job.teacher) for file in source.files],
            "processes": processes,
            "text": hashlib.sha256(train.numpy().tobytes()).hexdigest(),
        }
    )


def _file_stamp(file: Path) -> tuple[str, int, int]:
    status = file.stat()
    return str(file), status.st_size, status.st_mtime_ns


def _checkpoint(out: Path) -> Path:
    """The file in which a run keeps its state until it is done."""
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
    title = f"{job.source.name} {'with an adapter for' if job.settings.adapter else 'adapted to'} {job.recipe.name}"
    pages = {
        "report.html": report(title, facts, job.settings, curve, baseline),
        "training.json": curve_json(job.settings, facts, curve, baseline),
        "README.md": model_card(title, job.source.licence, facts, curve, adapter=job.settings.adapter),
    }
    if job.settings.adapter:
        _write_adapter(job, traced, pages)
        return forget(_checkpoint(job.out))
    recipe = as_recorded(job.recipe, job.source.config)
    write_result(job.out, job.source, traced, recipe, job.recipe_file, pages, job.force)
    forget(_checkpoint(job.out))


def _write_adapter(job: AdaptJob, traced: Traced, pages: Mapping[str, str]) -> None:
    from edgec.exporter.adapt.adapter_result import write_adapter_folder
    from edgec.runtime_py.adapters.adapter_file import write_adapter
    from edgec.runtime_py.adapters.make import bind

    lora = _trained_adapter(job, traced)
    write_adapter_folder(lora, pages, job.force)
    if job.bundle is not None:
        write_adapter(bind(lora, job.bundle), job.adapter_file)
