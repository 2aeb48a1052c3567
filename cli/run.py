"""``edgec run`` generates text from a bundle, on this machine."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from edgec.cli.completions import bundle_names


def run(
    bundle: Annotated[
        Path, typer.Argument(autocompletion=bundle_names, help="The bundle folder, NAME.edgec, or hub:OWNER/NAME.")
    ],
    *,
    prompt: Annotated[
        str | None, typer.Option("--prompt", "-p", help="Text to continue or answer; - reads stdin.")
    ] = None,
    image: Annotated[list[Path] | None, typer.Option(help="An image that the prompt is about; repeatable.")] = None,
    audio: Annotated[
        list[Path] | None, typer.Option(help="A WAV file to transcribe, or that the prompt is about; repeatable.")
    ] = None,
    language: Annotated[str | None, typer.Option(help="To translate into, or spoken; default: detected.")] = None,
    task: Annotated[str, typer.Option(help="For speech: transcribe, or translate into English.")] = "transcribe",
    chat: Annotated[bool, typer.Option("--chat", help="A conversation; one message per line of input.")] = False,
    raw: Annotated[bool, typer.Option("--raw", help="Continue the text as it is, without the chat template.")] = False,
    system: Annotated[str | None, typer.Option(help="System message of the conversation.")] = None,
    session: Annotated[Path | None, typer.Option(help="Continue from this file if it exists, and save there.")] = None,
    max_new_tokens: Annotated[int | None, typer.Option(help="Most new tokens; default 256, speech unlimited.")] = None,
    temperature: Annotated[float, typer.Option(help="0 is greedy.")] = 0.0,
    top_k: Annotated[int, typer.Option(help="Keep the k likeliest tokens; 0 keeps all.")] = 0,
    top_p: Annotated[float, typer.Option(help="Keep the likeliest tokens up to this probability.")] = 1.0,
    min_p: Annotated[float, typer.Option(help="Drop tokens below this share of the likeliest.")] = 0.0,
    repetition_penalty: Annotated[float | None, typer.Option(help="Default: the bundle's own, else 1.")] = None,
    seed: Annotated[int | None, typer.Option(help="Makes sampling reproducible.")] = None,
    stop: Annotated[list[str] | None, typer.Option(help="Stop before this text; repeatable.")] = None,
    speculate: Annotated[str, typer.Option(help="auto, off, ngram, heads, mtp, eagle3 or a bundle.")] = "auto",
    schema: Annotated[
        Path | None, typer.Option(help="Text that fulfils a JSON Schema: a file, or a name in the bundle.")
    ] = None,
    json_object: Annotated[bool, typer.Option("--json-object", help="Text that is one JSON object.")] = False,
    regex: Annotated[str | None, typer.Option(help="Text that matches a regular expression.")] = None,
    grammar: Annotated[Path | None, typer.Option(help="Text of the grammar in this file (Lark or GBNF).")] = None,
    tools: Annotated[Path | None, typer.Option(help="JSON file with tools that the model may call.")] = None,
    thinking_budget: Annotated[
        int | None, typer.Option(help="Most tokens of reasoning; 0 switches it off. Default: the model's own.")
    ] = None,
    embed: Annotated[bool, typer.Option("--embed", help="Print a text's vector; piped: one text per line.")] = False,
    truncate: Annotated[bool, typer.Option("--truncate", help="With --embed: cut texts that are too long.")] = False,
    prompt_name: Annotated[
        str | None, typer.Option(help="With --embed: which of the model's prompts goes first; '' is none.")
    ] = None,
    score: Annotated[
        list[str] | None, typer.Option(help="Say how likely this text is after the prompt; repeatable.")
    ] = None,
    adapter: Annotated[
        Path | None, typer.Option(help="A file that edgec adapter made for this bundle, or one of its own by name.")
    ] = None,
    public_key: Annotated[
        Path | None, typer.Option(help="PEM file: refuse a bundle that its key did not sign.")
    ] = None,
    threads: Annotated[int | None, typer.Option(help="CPU threads; default: the cores that shorten a step.")] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON object per answer on stdout.")] = False,
) -> None:
    """Generate text from a bundle: greedy unless a temperature is given.

    The chat template is used when there is one (--raw continues plain text). Piped text is the prompt unless
    -p is given. A summary of the measured timings goes to stderr. Drafting ahead changes the speed, never the text
    (docs/speculation.md). A schema, a regular expression or a grammar says what the text may be
    (docs/structured-output.md). Calls of tools are printed as JSON; with --chat, the next lines of input are their
    results (docs/structured-output.md).

    Examples:
    edgec run tiny-stories-host.edgec -p "Once upon a time" --max-new-tokens 80

    edgec run tiny-stories-host.edgec --chat --temperature 0.7 --seed 1

    cat story.txt | edgec run tiny-stories-host.edgec --raw --session story.session

    edgec run whisper-tiny-host.edgec --audio speech.wav

    edgec run smolvlm-host.edgec --image photo.jpg -p "What is this?"

    edgec run voxtral-host.edgec --audio speech.wav -p "What is said?"

    edgec run minilm-host.edgec --embed -p "A red ball in the park."

    edgec run e5-host.edgec --embed --prompt-name query -p "red ball"

    edgec run qwen3-host.edgec -p "Is the sky blue? Answer:" --score " yes" --score " no"
    """
    from edgec.runtime_py.console.run import RunOptions, run_bundle

    names = ("max_new_tokens", "temperature", "top_k", "top_p", "min_p", "repetition_penalty", "seed")
    values = (max_new_tokens, temperature, top_k, top_p, min_p, repetition_penalty, seed)
    generation: dict[str, object] = dict(zip(names, values, strict=True)) | {"stop": tuple(stop or ())}
    structure: dict[str, object] = {"schema": schema, "json": json_object or None, "regex": regex, "grammar": grammar}
    generation |= {name: value for name, value in structure.items() if value is not None}
    if max_new_tokens is None:
        del generation["max_new_tokens"]
    options = RunOptions(bundle, prompt, chat, raw, system, threads, json, generation, session, speculate)
    options = replace(options, embed=embed, truncate=truncate, prompt_name=prompt_name)
    options = replace(options, audio=tuple(audio or ()), language=language, task=task)
    options = replace(options, images=tuple(image or ()), score=tuple(score or ()), public_key=public_key)
    run_bundle(replace(options, tools=tools, thinking_budget=thinking_budget, adapter=adapter))
