"""``edgec eval`` measures how well a bundle predicts, and how far it is from the float model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from edgec.cli.completions import bundle_names


def eval(  # the command's name
    bundle: Annotated[
        Path, typer.Argument(autocompletion=bundle_names, help="The bundle folder, NAME.edgec, or hub:OWNER/NAME.")
    ],
    *,
    text: Annotated[Path | None, typer.Option(help="A UTF-8 text file.")] = None,
    tokens: Annotated[int, typer.Option(help="The most tokens of the text to use.")] = 4096,
    reference: Annotated[
        str | None, typer.Option(help="Float model or GGUF file; default: the source if local.")
    ] = None,
    tasks: Annotated[list[str] | None, typer.Option(help="A task of lm-eval; repeatable.")] = None,
    task_folder: Annotated[Path | None, typer.Option(help="A folder with more lm-eval tasks (YAML).")] = None,
    limit: Annotated[int | None, typer.Option(help="The most examples per task.")] = None,
    adapter: Annotated[Path | None, typer.Option(help="A file that edgec adapter made for this bundle.")] = None,
    threads: Annotated[int | None, typer.Option(help="CPU threads; default: the cores that shorten a step.")] = None,
    out: Annotated[Path | None, typer.Option(help="Write the results as JSON here, and a plot next to it.")] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Measure perplexity, KL divergence and top-1 agreement on a text, or run tasks of lm-eval.

    Examples:
    edgec eval tiny-stories-host.edgec --text held-out.txt --tokens 2000

    edgec eval tiny-stories-host.edgec --text held-out.txt --adapter pirate.adapter

    edgec eval smollm2-host.edgec --text held-out.txt --reference smollm2.gguf

    edgec eval tiny-stories-host.edgec --tasks lambada_openai --limit 100
    """
    from edgec.exporter.stages.stored_reference import open_reference
    from edgec.runtime_py.evaluate.command import EvalOptions, run_eval

    where = (tuple(tasks or ()), task_folder, limit, threads, out, json, adapter)
    run_eval(EvalOptions(bundle, text, tokens, reference, *where), open_reference)
