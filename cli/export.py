"""``edgec export`` turns a model into a verified bundle."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from edgec.cli.completions import recipe_names, target_names


def export(
    ctx: typer.Context,
    model: Annotated[str | None, typer.Argument(help="Hub id, folder, config.json or package.module:factory.")] = None,
    *,
    target: Annotated[
        str | None, typer.Option(autocompletion=target_names, help="What to export for; see edgec targets.")
    ] = None,
    phone_file: Annotated[Path | None, typer.Option("--phone", help="TOML file of a phone of your own.")] = None,
    unit: Annotated[str | None, typer.Option(help="npu, gpu or cpu of the target's phone.")] = None,
    recipe: Annotated[
        str | None, typer.Option(autocompletion=recipe_names, help="float, 8bit, 4bit, lut4, ... or a TOML file.")
    ] = None,
    format: Annotated[
        str | None, typer.Option(help="pte, mlpackage, aimodel, onnx, qnn, litertlm, tflite; gguf: Llama-like models.")
    ] = None,
    layout: Annotated[
        str | None, typer.Option(help="Whose names: edgec, genai, swift-transformers, coreai-models.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The bundle's path; default NAME-TARGET.edgec.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing bundle.")] = False,
    context: Annotated[int | None, typer.Option(help="Context length in tokens.")] = None,
    image_size: Annotated[str | None, typer.Option(help="HxW in pixels, where a model reads any size.")] = None,
    random_weights: Annotated[bool, typer.Option("--random-weights", help="Architecture only.")] = False,
    task: Annotated[str | None, typer.Option(help="optimum's task name, for non-decoder models.")] = None,
    revision: Annotated[str | None, typer.Option(help="Hub branch, tag or commit.")] = None,
    inputs: Annotated[Path | None, typer.Option(help="A network's inputs: .npz, images, .wav; or a folder.")] = None,
    text: Annotated[Path | None, typer.Option(help="Text for the parity ladder.")] = None,
    calibrate: Annotated[Path | None, typer.Option(help="Text to calibrate weights on, else made.")] = None,
    target_bits: Annotated[float | None, typer.Option(help="Average bits per weight to search for.")] = None,
    max_kl: Annotated[float | None, typer.Option(help="Most KL from the float model, nats; costs bytes.")] = None,
    system_prompt: Annotated[Path | None, typer.Option(help="System prompt to ship as KV state.")] = None,
    schema: Annotated[list[str] | None, typer.Option(help="NAME=FILE: a JSON Schema to ship; repeatable.")] = None,
    regex: Annotated[list[str] | None, typer.Option(help="NAME=REGEX to ship likewise; repeatable.")] = None,
    grammar: Annotated[list[str] | None, typer.Option(help="NAME=FILE: a grammar, likewise; repeatable.")] = None,
    adapter: Annotated[
        list[str] | None, typer.Option(help="NAME=PEFT_FOLDER: functions under a LoRA, on Apple's NPU; repeatable.")
    ] = None,
    kernels: Annotated[str | None, typer.Option(help="edgec (fast) or standard (any ExecuTorch app).")] = None,
    keep_float: Annotated[
        list[str] | None, typer.Option(help="LAYER to compute in float32 where others are float16; repeatable.")
    ] = None,
    draft_heads: Annotated[str | None, typer.Option(help="For speculation: mtp, a folder or a file.")] = None,
    max_fallback: Annotated[float | None, typer.Option(help="Largest share outside the accelerator, 0..1.")] = None,
    budget: Annotated[list[str] | None, typer.Option(help="NAME=LIMIT for the ladder; repeatable.")] = None,
    compare_layers: Annotated[bool, typer.Option("--compare-layers", help="Compare on CPUs layer by layer.")] = False,
    emulate: Annotated[bool | None, typer.Option("--emulate/--no-emulate", help="Run on arm64, under qemu.")] = None,
    requantise: Annotated[str | None, typer.Option(help="never: refuse to round a checkpoint's integers.")] = None,
    allow_pickle: Annotated[bool, typer.Option("--allow-pickle", help="Open pickled weights (data only).")] = False,
    trust_remote_code: Annotated[bool, typer.Option("--trust-remote-code", help="Run the model's own code.")] = False,
    seed: Annotated[int, typer.Option(help="Seed of random weights.")] = 0,
    json: Annotated[bool, typer.Option("--json", help="The manifest's summary as JSON on stdout.")] = False,
) -> None:
    """Export a model to a bundle; every stage is compared with the one before it.

    Values left out come from edgec.toml in the current folder, then from the defaults (host; 4bit for language models).

    Examples:
    edgec export examples/tiny-stories --target host

    edgec export Qwen/Qwen3-0.6B --target android-cpu --recipe 4bit --context 2048

    edgec export examples/tiny-stories --target iphone --format mlpackage --recipe float

    edgec export examples/tiny-stories --target iphone --unit gpu

    edgec export examples/tiny-stories --target iphone --recipe lut4 --calibrate text.txt --target-bits 3.2

    edgec export examples/tiny-stories --target iphone --format mlpackage --adapter pirate=pirate-lora
    """
    from edgec.devices.phone_file import added_phone, chosen_target
    from edgec.exporter.command import run_export
    from edgec.exporter.options import ExportOptions, parse_adapters, parse_budgets, parse_regexes, parse_schemas

    key = ctx.with_resource(added_phone(phone_file))
    options = ExportOptions(
        model or "",
        target=chosen_target(key, target) if key else target,
        recipe=recipe,
        unit=unit,
        format=format,
        layout=layout,
        out=out,
        force=force,
        context=context,
        image_size=image_size,
        random_weights=random_weights,
        task=task,
        revision=revision,
        inputs=inputs,
        text=text,
        calibrate=calibrate,
        target_bits=target_bits,
        max_kl=max_kl,
        system_prompt=system_prompt,
        schemas=parse_schemas(schema or ()),
        regexes=parse_regexes(regex or ()),
        grammars=parse_schemas(grammar or ()),
        adapters=parse_adapters(adapter or ()),
        kernels=kernels,
        keep_float=tuple(keep_float or ()),
        draft_heads=draft_heads,
        max_fallback=max_fallback,
        budgets=parse_budgets(budget or ()),
        compare_layers=compare_layers,
        emulate=emulate,
        requantise=requantise,
        allow_pickle=allow_pickle,
        trust_remote_code=trust_remote_code,
        seed=seed,
    )
    run_export(options, json)
