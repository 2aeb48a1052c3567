"""``edgec adapt`` trains a model under a recipe's passes, for few bits or shared keys and values."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from edgec.cli.completions import recipe_names, target_names


def adapt(
    model: Annotated[str, typer.Argument(help="Hub id or folder of a language model.")],
    *,
    recipe: Annotated[
        str,
        typer.Option(
            autocompletion=recipe_names, help="What to train for: balanced2, 4bit, float, ... or a TOML file."
        ),
    ],
    text: Annotated[list[str], typer.Option(help="Files, folders, JSONL or hf:NAME; repeatable.")],
    teacher: Annotated[str | None, typer.Option(help="Model to learn from; the original by default.")] = None,
    target: Annotated[
        str, typer.Option(autocompletion=target_names, help="What the recipe is resolved for; see edgec targets.")
    ] = "host",
    steps: Annotated[int | None, typer.Option(help="Updates of the weights (1000).")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder to write; NAME-RECIPE by default.")] = None,
    batch: Annotated[int | None, typer.Option(help="Sequences per forward pass (4).")] = None,
    accumulation: Annotated[int | None, typer.Option(help="Forward passes per update (1).")] = None,
    length: Annotated[int | None, typer.Option(help="Tokens per sequence (256).")] = None,
    learning_rate: Annotated[float | None, typer.Option(help="Peak learning rate of weights (5e-4).")] = None,
    scale_rate: Annotated[float | None, typer.Option(help="Peak learning rate of scales (5e-4, relative).")] = None,
    weight_decay: Annotated[float | None, typer.Option(help="Weight decay of matrices (0.01).")] = None,
    warm_up: Annotated[float | None, typer.Option(help="Warm-up, share of the steps, 0..1 (0.05).")] = None,
    final_rate: Annotated[float | None, typer.Option(help="End of the cosine, share of the peak (0.02).")] = None,
    clip: Annotated[float | None, typer.Option(help="Largest norm of the gradient (1).")] = None,
    text_loss: Annotated[float | None, typer.Option(help="Weight of the text against the teacher, 0..1 (0).")] = None,
    hidden_loss: Annotated[float | None, typer.Option(help="Weight of the match inside the layers (0).")] = None,
    temperature: Annotated[float | None, typer.Option(help="Temperature of the distillation (1).")] = None,
    ema: Annotated[float | None, typer.Option(help="Decay of the weights' moving average, 0..1 (0: none).")] = None,
    low_rank: Annotated[int | None, typer.Option(help="Train an adapter of this rank (0: train all weights).")] = None,
    merge: Annotated[bool, typer.Option("--merge", help="Merge the low-rank matrices into the model.")] = False,
    bundle: Annotated[Path | None, typer.Option(help="Also write OUT.adapter for this bundle.")] = None,
    recompute: Annotated[bool, typer.Option("--recompute", help="Recompute activations: less memory.")] = False,
    checkpoint_every: Annotated[int | None, typer.Option(help="Updates between checkpoints (100; 0: none).")] = None,
    evaluate_every: Annotated[int | None, typer.Option(help="Updates between held-out measurements (50).")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of the order of the text (0).")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing folder.")] = False,
    restart: Annotated[bool, typer.Option("--restart", help="Forget the checkpoint of a stopped run.")] = False,
    revision: Annotated[str | None, typer.Option(help="Hub branch, tag or commit.")] = None,
    allow_pickle: Annotated[bool, typer.Option("--allow-pickle", help="Open pickled weights (data only).")] = False,
    trust_remote_code: Annotated[bool, typer.Option("--trust-remote-code", help="Run the model's own code.")] = False,
    json: Annotated[bool, typer.Option("--json", help="The result as JSON on stdout.")] = False,
) -> None:
    """Train a model under a recipe's passes against the original; the result is a folder that edgec export takes.

    With --low-rank the model stays as it is: an adapter is trained beside its rounded weights, and the result is a
    folder as PEFT writes it.

    A stopped run continues when it is called again. Several processes: accelerate launch -m edgec adapt ...

    Examples:
    edgec adapt examples/tiny-stories --recipe balanced2 --text books/ --steps 500

    edgec adapt examples/tiny-stories --recipe float --text-loss 1 --text book.txt --out longer

    edgec adapt examples/tiny-stories --recipe 4bit --text books/ --low-rank 16 --bundle tiny-stories-host.edgec
    """
    from edgec.exporter.adapt.command import AdaptOptions, run_adapt

    numbers = {"steps": steps, "batch": batch, "accumulation": accumulation, "length": length, "seed": seed}
    rates = {"learning_rate": learning_rate, "scale_rate": scale_rate, "weight_decay": weight_decay, "warm_up": warm_up}
    rates |= {"final_rate": final_rate, "clip": clip}
    losses = {"text_loss": text_loss, "hidden_loss": hidden_loss, "temperature": temperature, "ema": ema}
    ways = {"low_rank": low_rank, "merge": merge or None, "recompute": recompute or None}
    ways |= {"checkpoint_every": checkpoint_every, "evaluate_every": evaluate_every}
    job = {"teacher": teacher, "target": target, "out": out, "force": force, "restart": restart, "revision": revision}
    job |= {"bundle": bundle, "allow_pickle": allow_pickle, "trust_remote_code": trust_remote_code}
    run_adapt(AdaptOptions(model, recipe, tuple(text), json, job, {**numbers, **rates, **losses, **ways}))
