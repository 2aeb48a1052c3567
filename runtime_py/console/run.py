"""The output of ``edgec run``: text to stdout as it comes, one line of timings to stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from edgec.bundle.chat_template import Message
from edgec.devices.simulators import simulator_of
from edgec.errors import InputError
from edgec.runtime_py.audio_language.session import audio_language_info
from edgec.runtime_py.chat import Conversation
from edgec.runtime_py.console.embed import print_vectors
from edgec.runtime_py.console.result import as_json, simulated_summary, summary, without_speed
from edgec.runtime_py.console.score import print_scores
from edgec.runtime_py.console.talk import PrintedMessage, answered, chat_options_of
from edgec.runtime_py.encoder_decoder.console import SourceOptions, run_source
from edgec.runtime_py.generation.generate import Generation
from edgec.runtime_py.model import Model, load
from edgec.runtime_py.sessions.session import text_limits
from edgec.runtime_py.speculation.choice import OFF
from edgec.runtime_py.structured.shipped import names_schema
from edgec.runtime_py.structured.wanted import wanted
from edgec.runtime_py.vision_language.session import vision_language_info

# The role of the one message that a session without a conversation saves.
_TEXT = "text"
_STRUCTURE = ("schema", "json", "regex", "grammar")


@dataclass(frozen=True)
class RunOptions:
    """The command's options; ``generation`` are those of ``Model.request``."""

    bundle: Path
    prompt: str | None
    chat: bool
    raw: bool
    system: str | None
    threads: int | None
    json: bool
    generation: Mapping[str, Any]
    session: Path | None = None
    speculate: str = OFF
    audio: tuple[Path, ...] = ()
    language: str | None = None
    task: str = "transcribe"
    tools: Path | None = None
    thinking_budget: int | None = None
    images: tuple[Path, ...] = ()
    embed: bool = False
    truncate: bool = False
    prompt_name: str | None = None
    adapter: Path | None = None
    score: tuple[str, ...] = ()
    public_key: Path | None = None


def run_bundle(options: RunOptions) -> None:
    """Answer one prompt, or hold a conversation over stdin.

    Raises:
        InputError: E156 for options that contradict each other, E610 to E616 for a structure that no text can be held
            to, E620, E621 and E629 for tools that are none, before the bundle is loaded; else as ``load`` and
            ``Model.generate``.
    """
    given = options.prompt not in (None, "-")
    options = _with_prompt(options)
    if options.embed and not options.score:
        texts = [options.prompt or ""] if given else (options.prompt or "").splitlines()
        print_vectors(_loaded(options), texts, options.truncate, options.json, options.prompt_name)
        return
    _check(options)
    if options.score:
        print_scores(_loaded(options), options.prompt or "", options.score, options.json)
        return
    chat_options_of(options.tools, options.thinking_budget)
    if not names_schema(options.generation.get("schema")):
        wanted(**{name: options.generation[name] for name in _STRUCTURE if name in options.generation})
    model = _loaded(options)
    if options.images:
        vision_language_info(model.bundle)  # Refuses images for a model without vision.
    if model.bundle.manifest.encoder_decoder is not None:
        _write(model, options)
        return
    if options.audio:
        audio_language_info(model.bundle)  # Likewise sound for one without audio.
    if options.language is not None:
        what, fix = "This model continues text and has no encoder.", "give -p TEXT, without --language"
        raise InputError(what, where="edgec run", fix=fix, code="E156")
    text_limits(model.bundle)  # Refuses a non-decoder as such, before its missing tokenizer is noticed.
    if options.chat:
        _converse(model, options)
    else:
        _answer(model, options)


def _loaded(options: RunOptions) -> Model:
    model = load(options.bundle, options.threads, public_key=options.public_key)
    if options.adapter is not None:
        model.adapter = options.adapter
    return model


def _with_prompt(options: RunOptions) -> RunOptions:
    """The options with the prompt from stdin, where it is ``-``, or where there is none and stdin is not a terminal.

    Raises:
        InputError: E156, stdin is not valid UTF-8.
    """
    piped = options.prompt == "-" or (options.prompt is None and not options.chat and not sys.stdin.isatty())
    if not piped or options.chat:
        return replace(options, prompt=None) if options.prompt == "-" else options
    try:
        return replace(options, prompt=sys.stdin.read().removesuffix("\n") or None)
    except UnicodeDecodeError as error:
        raise InputError("The prompt on stdin is not UTF-8.", "stdin", str(error), "convert it", "E156") from error


def _write(model: Model, options: RunOptions) -> None:
    """Write what follows a source, which an encoder reads."""
    if options.chat or options.system is not None or options.session is not None:
        what = "An encoder-decoder cannot hold a conversation."
        raise InputError(what, where="edgec run", fix="give -p TEXT or --audio FILE.wav", code="E156")
    source = SourceOptions(
        options.prompt, options.audio, options.language, options.task, options.json, options.generation
    )
    run_source(model, source, lambda result: _finish(result, model, options, False))


def _check(options: RunOptions) -> None:
    conflicts = {
        "--chat and --raw cannot be combined.": options.chat and options.raw,
        "There is no prompt.": options.prompt is None and not options.audio and not options.chat,
        "--system needs a conversation or a chat template.": options.system is not None and options.raw,
        "--tools needs a conversation or a chat template.": options.tools is not None and options.raw,
        "--thinking-budget needs a chat template.": options.thinking_budget is not None and options.raw,
        "--prompt-name goes with --embed.": options.prompt_name is not None,
        "--score goes with one prompt alone, taken as it is.": bool(options.score) and _writes(options),
        "--image and --audio need one prompt.": bool(options.images or options.audio)
        and (options.chat or any(one is not None for one in (options.system, options.session, options.tools))),
    }
    for what, wrong in conflicts.items():
        if wrong:
            raise InputError(what, where="edgec run", fix="give -p TEXT, pipe the text in, or --chat", code="E156")


def _writes(options: RunOptions) -> bool:
    """Whether there is an option that only a text to be written has."""
    given = (options.system, options.session, options.tools, options.thinking_budget, options.language)
    structured = any(name in options.generation for name in _STRUCTURE)
    kinds = (options.chat, options.embed, structured, options.images, options.audio)
    return any(kinds) or any(one is not None for one in given)


def _answer(model: Model, options: RunOptions) -> None:
    if options.prompt is None:
        what, fix = "There is no prompt.", 'say what to do with the sound: -p "What is said?"'
        raise InputError(what, where="edgec run", fix=fix, code="E156")
    wanted = any(one is not None for one in (options.system, options.session, options.tools, options.thinking_budget))
    templated = not options.raw and (wanted or model.has_template)
    if options.images or options.audio:
        budget: dict[str, Any] = {}
        if options.thinking_budget is not None:
            budget["thinking_budget"] = options.thinking_budget
        result = model.generate(
            options.prompt,
            images=options.images,
            audio=options.audio,
            template=templated,
            stream=_show(options),
            speculate=options.speculate,
            **budget,
            **options.generation,
        )
    elif options.raw and options.session is not None:
        result = _continue_text(model, options, options.session)
    elif templated:
        with _conversation(model, options) as chat:
            request = model.request(**options.generation)
            chat_options = chat_options_of(options.tools, options.thinking_budget)
            show = None if options.json else PrintedMessage()
            result = chat.answer(options.prompt, request, chat_options, show, all_pieces=True).generation
            if show is not None:
                show.end()
    else:
        result = model.generate(
            options.prompt, stream=_show(options), speculate=options.speculate, **options.generation
        )
    _finish(result, model, options, templated)


def _continue_text(model: Model, options: RunOptions, file: Path) -> Generation:
    """Continue the text of a session's file, if there is one, and save the longer text there."""
    assert options.prompt is not None
    text = _saved_text(model, file) + options.prompt
    result = model.generate(text, stream=_show(options), speculate=options.speculate, resume=True, **options.generation)
    model.save_session(file, [{"role": _TEXT, "content": text + result.text}])
    return result


def _saved_text(model: Model, file: Path) -> str:
    if not file.exists():
        return ""
    messages = model.load_session(file)
    if [message["role"] for message in messages] == [_TEXT]:
        return str(messages[0]["content"])
    what, fix = "The saved session is a conversation, not a text.", "leave out --raw, or name another --session"
    raise InputError(what, where=str(file), fix=fix, code="E156")


def _converse(model: Model, options: RunOptions) -> None:
    request = model.request(**options.generation)
    chat_options = chat_options_of(options.tools, options.thinking_budget)
    with _conversation(model, options) as chat:
        for message in _messages(options.prompt):
            reply = answered(chat, message, request, chat_options, None if options.json else PrintedMessage())
            if reply is None:
                continue
            if left_out := reply.dropped_messages:
                print(f"[the context is full: the oldest {left_out} messages were left out]", file=sys.stderr)
            _finish(reply.generation, model, options, True)


@contextmanager
def _conversation(model: Model, options: RunOptions) -> Iterator[Conversation]:
    """A conversation that continues the session's file, if there is one, and is saved there at its end."""
    chat = model.chat(options.system, options.speculate)
    if options.session is not None and options.session.exists():
        messages = model.load_session(options.session)
        if any(message["role"] == _TEXT for message in messages):
            what, fix = "The saved session is a text, not a conversation.", "add --raw, or name another --session"
            raise InputError(what, where=str(options.session), fix=fix, code="E156")
        _check_system(options.system, messages, options.session)
        chat.messages = messages
    try:
        yield chat
    finally:
        if options.session is not None:
            model.save_session(options.session, chat.messages)


def _check_system(system: str | None, messages: Sequence[Message], file: Path) -> None:
    held = next((message["content"] for message in messages if message["role"] == "system"), "")
    if system is not None and system != held:
        raise InputError(
            "The saved conversation has another system message.",
            where=str(file),
            fix="leave out --system, or name another --session",
            code="E156",
        )


def _messages(first: str | None) -> Iterator[str]:
    """The prompt, then lines of stdin until its end; a terminal shows the prompt sign "> "."""
    if first is not None:
        yield first
    asking = "> " if sys.stdin.isatty() else ""
    while True:
        try:
            line = input(asking).strip()
        except EOFError:
            return
        if line:
            yield line


def _show(options: RunOptions) -> Any:
    return None if options.json else lambda piece: print(piece, end="", flush=True)


def _finish(result: Generation, model: Model, options: RunOptions, templated: bool) -> None:
    """Print what is known of a text that was shown as it came; that of a message ended its own line."""
    simulator = simulator_of(model.bundle.manifest)
    if options.json:
        answer = as_json(result, model.load_ms, templated)
        print(json.dumps(without_speed(answer) if simulator else answer, ensure_ascii=False), flush=True)
        return
    if not templated:
        print(flush=True)
    line = simulated_summary(result, simulator) if simulator else summary(result, model.load_ms)
    print(line, file=sys.stderr, flush=True)
