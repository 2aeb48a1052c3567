"""`edgec plan` predicts size, memory and speed of a model on a phone, without the weights or the phone."""

from __future__ import annotations

from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from edgec.cli.completions import phone_names, recipe_names

if TYPE_CHECKING:
    from edgec.exporter.resolve.planned import Planned


def _print_schema(asked: bool) -> None:
    from edgec.exporter.resolve.planned_json import SCHEMA

    if asked:
        typer.echo(SCHEMA.read_text(encoding="utf-8"), nl=False)
        raise typer.Exit


def plan(
    model: Annotated[str, typer.Argument(help="A model folder, a config.json or a hub id.")],
    target: Annotated[
        str | None, typer.Option("--target", "-t", autocompletion=phone_names, help="A phone, see `edgec targets`.")
    ] = None,
    *,
    phone_file: Annotated[
        Path | None, typer.Option("--phone", help="TOML file of a phone of your own, see `edgec help targets`.")
    ] = None,
    unit: Annotated[str | None, typer.Option(help="npu, gpu or cpu, as for edgec export.")] = None,
    recipe: Annotated[
        str | None,
        typer.Option(autocompletion=recipe_names, help="A recipe's name or file; default: that of the export."),
    ] = None,
    weight_bits: Annotated[int | None, typer.Option(help="Bits of linear layers (16, 32: floats).")] = None,
    group_size: Annotated[int | None, typer.Option(help="Weights that share a scale; 0: one scale per row.")] = None,
    embedding_bits: Annotated[int | None, typer.Option(help="Bits of the embedding.")] = None,
    lm_head_bits: Annotated[int | None, typer.Option(help="Bits of the lm_head.")] = None,
    kv_bits: Annotated[int | None, typer.Option(help="Bits of cached keys and values: 4, 8, 16 or 32.")] = None,
    context: Annotated[
        int | None, typer.Option(help="Tokens the KV cache holds (those of the export), or an encoder reads.")
    ] = None,
    task: Annotated[
        str | None,
        typer.Option(help="As for edgec export: text-generation plans the text part of a model with vision."),
    ] = None,
    prompt_tokens: Annotated[int | None, typer.Option(help="Prompt length for TTFT; 512, or the context.")] = None,
    adapter: Annotated[list[str] | None, typer.Option(help="NAME=PEFT_FOLDER, as for edgec export.")] = None,
    measured: Annotated[
        list[str] | None,
        typer.Option(metavar="[PHONE=]FILE", help="What edgec bench --out wrote, to learn speeds from; repeatable."),
    ] = None,
    history: Annotated[
        bool, typer.Option("--history/--no-history", help="Learn from what edgec bench kept of this phone.")
    ] = True,
    json: Annotated[bool, typer.Option("--json", help="The plan as one JSON object.")] = False,
    json_schema: Annotated[
        bool, typer.Option("--json-schema", callback=_print_schema, is_eager=True, help="Print the schema of --json.")
    ] = False,
) -> None:
    """Estimate size, memory and speed of a model on a phone from its config alone.

    It plans what edgec export would make of the same MODEL, --target and options. Every figure is an estimate with its
    range; docs/plan.md says how far each can be trusted.

    Examples:
    edgec plan examples/tiny-stories --target iphone-16-pro

    edgec plan examples/tiny-stories --target pixel-8 --measured bench.jsonl

    edgec plan Qwen/Qwen3-0.6B --target galaxy-s24-ultra-cpu --recipe 8bit --context 8192

    edgec plan Qwen/Qwen3-0.6B --phone my-phone.toml --target cpu
    """
    from edgec.exporter.resolve.planned_api import plan as planned

    names = ("weight_bits", "group_size", "embedding_bits", "lm_head_bits", "kv_bits")
    bits = dict(zip(names, (weight_bits, group_size, embedding_bits, lm_head_bits, kv_bits), strict=True))
    answered = planned(
        model,
        target,
        phone=phone_file,
        unit=unit,
        recipe=recipe,
        task=task,
        context=context,
        prompt_tokens=prompt_tokens,
        adapters=adapter or (),
        measured=measured or (),
        history=history,
        bits=bits,
    )
    show(answered, json)


def show(answered: Planned, as_json: bool) -> None:
    """Print a plan as one page, or as one JSON object with ``as_json``."""
    from edgec.exporter.resolve.planned_json import to_json
    from edgec.exporter.resolve.planned_page import page
    from edgec.terminal import make_console

    if as_json:
        typer.echo(dumps(to_json(answered), indent=2))
        return
    console = make_console()
    for part in page(answered):
        # A command stays one line, whatever the terminal's width.
        console.print(part, soft_wrap=bool(getattr(part, "no_wrap", False)))
