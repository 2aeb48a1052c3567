"""A decoder's ``.litertlm`` in LiteRT-LM's engine: rungs of the parity ladder.

    prompt -> edgec's ids -> the interpreter    -> the likeliest tokens -> text -+
           -> LiteRT-LM                         -> text -------------------------+-> the same
    conversation -> transformers' template      -> text, ids, an answer ---------+
                 -> LiteRT-LM's conversation    -> text, an answer --------------+-> the same
    texts -> transformers -> ids ------------------------------------------------+
          -> LiteRT-LM's tokenizer -> ids ---------------------------------------+-> the same, or told

Apps hand it texts, so that the engine's own way from a text to tokens is part of what is compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from edgec.backends.litert.container import LanguageFacts, model_bytes
from edgec.backends.litert.float_model import in_floats
from edgec.backends.litert.methods import LitertMethods
from edgec.bundle.chat_template import render_messages
from edgec.bundle.encoding import decode_tokens, token_ids
from edgec.bundle.findings import Rung
from edgec.bundle.golden_texts import CHAT, TEXTS
from edgec.errors import InputError, ToolError
from edgec.exporter.litert_facts import language_facts, text_beginning
from edgec.exporter.parity.ladder import COMPRESSED_HALF_LOWERING
from edgec.exporter.parity.sample import START, greedy
from edgec.exporter.request import ExportRequest
from edgec.exporter.runners.texts import RunnerText, agreed, told
from edgec.exporter.runners.words import Agreement, OwnText, text_agreement
from edgec.exporter.stages.artifact import step_of
from edgec.installation import install_command
from edgec.ir.call_plan import DecoderStep
from edgec.ir.static_methods import methods_step
from edgec.runtime_py.runners import litert_lm
from edgec.runtime_py.runners.litert_lm import (
    NAME,
    LitertLmAnswer,
    LitertLmQuestion,
    LitertLmText,
    asked_litert_lm,
    is_installed,
    litert_lm_version,
    software_vulkan,
)

CHAT_STAGE: Final = f"{NAME}'s conversations"
TOKENIZER_STAGE: Final = f"{NAME}'s tokenizer"
GPU_STAGE: Final = f"{NAME} on a GPU"
TOKENS: Final = 64
_TOKENS_ON_A_GPU: Final = 32
"""A GPU in software takes a second for each."""
_MOST_EMULATED_BYTES: Final = 250_000_000
"""Of an artifact that a GPU in software runs; in floats it is eight times as large, and a flatbuffer holds 2 GB."""
_SYSTEM: Final = {"role": "system", "content": "Answer briefly."}
_CHATS: Final = (CHAT[:1], CHAT, (_SYSTEM, *CHAT[:1]))


def litert_lm_rungs(artifact: Path, request: ExportRequest, epsilon: float) -> list[Rung]:
    """Let LiteRT-LM continue texts and answer conversations, and compare with the interpreter on the same artifact.

    Args:
        artifact: the ``.litertlm``; it passed the other rungs.
        request: what is exported.
        epsilon: how far two logits of right executions may differ.

    Returns:
        none where it is turned off.
    """
    if not litert_lm.AUTOMATIC:
        return []
    if not is_installed():
        return [told(NAME, f"not run: {NAME} is not installed ({install_command('litert')})", gated=False)]
    facts = language_facts(request)
    prompts, chats = _prompts(request, facts), [*_conversations(request)]
    question = LitertLmQuestion(
        texts=[text for _, text in TEXTS],
        prompts=[each.text for each in prompts],
        chats=[messages for messages, _ in chats],
        tokens=TOKENS,
    )
    try:
        said = asked_litert_lm(artifact, question)
    except ToolError as error:
        return [told(NAME, error.why, gated=True)]
    if wrong := said.failed or _wrong_facts(said, facts):
        return [told(NAME, wrong, gated=True)]
    step = step_of(artifact, request.form)
    continued, replied = said.written[: len(prompts)], said.written[len(prompts) :]
    rungs = [_compared(NAME, step, request, facts, prompts, continued, epsilon)]
    if chats:
        rungs.append(_talked(step, request, facts, [text for _, text in chats], said.rendered, replied, epsilon))
    gpu = [_on_gpu(artifact, request, facts, prompts, epsilon)] if request.target.unit == "gpu" else []
    return [*rungs, *gpu, _read(said, request, facts)]


def _on_gpu(
    artifact: Path, request: ExportRequest, facts: LanguageFacts, prompts: Sequence[RunnerText], epsilon: float
) -> Rung:
    """The same prompts by the engine's GPU backend, over a software implementation of Vulkan where there is one.

    GPUs round no inputs of layers, so that the interpreter writes by the model in floats here.
    """
    vulkan, size = software_vulkan(), artifact.stat().st_size
    if size > _MOST_EMULATED_BYTES:
        return told(GPU_STAGE, f"not executed: {size / 1e6:,.0f} MB, too large for a GPU in software", gated=False)
    if not vulkan:
        return told(
            GPU_STAGE,
            "not executed: no SwiftShader here (Debian's chromium-common and libvulkan1 bring it)",
            gated=False,
        )
    question = LitertLmQuestion([], [each.text for each in prompts], [], _TOKENS_ON_A_GPU, vulkan)
    try:
        said = asked_litert_lm(artifact, question)
    except ToolError as error:
        return told(GPU_STAGE, error.why, gated=True)
    if said.failed:
        return told(GPU_STAGE, said.failed, gated=True)
    step = methods_step(LitertMethods(in_floats(model_bytes(artifact))))
    return _compared(GPU_STAGE, step, request, facts, prompts, said.written, epsilon, half=True)


def _prompts(request: ExportRequest, facts: LanguageFacts) -> list[RunnerText]:
    """A few words, parts of the probe's text, and one that is longer than a chunk, where the context has room."""
    tokenizer, limits, tokens = request.tokenizer, request.limits, request.probe.tokens
    chunk, room = limits.prefill_chunk, limits.context - TOKENS
    parts = (tokens[: chunk + chunk // 8], tokens[: chunk // 2], tokens[chunk : chunk + chunk // 8])
    texts = [START, *(decode_tokens(tokenizer, part) for part in parts)]
    before = () if facts.begins is None else (facts.begins,)
    made = [
        RunnerText(text, (*before, *token_ids(tokenizer, text, special=False)))
        for text in dict.fromkeys(texts)
        if text.strip()
    ]
    return [each for each in made if 0 < len(each.ids) <= room]


def _conversations(request: ExportRequest) -> Iterator[tuple[Sequence[dict[str, str]], RunnerText]]:
    """Conversations that the model's template takes, as transformers renders them."""
    tokenizer = request.tokenizer
    if not getattr(tokenizer, "chat_template", None):
        return
    for messages in _CHATS:
        try:
            text = render_messages(tokenizer, messages)
        except InputError:  # such a template asks for other turns
            continue
        ids = tuple(token_ids(tokenizer, text, special=False))
        if len(ids) <= request.limits.context - TOKENS:
            yield messages, RunnerText(text, ids)


def _wrong_facts(said: LitertLmAnswer, facts: LanguageFacts) -> str:
    """What it takes for the model's that is not, in words; empty where nothing is."""
    pairs = {"what begins a text": (said.begins, facts.begins), "ends of texts": (list(said.ends), list(facts.ends))}
    return "; ".join(f"{name}: {given}, not {wanted}" for name, (given, wanted) in pairs.items() if given != wanted)


def _compared(
    stage: str,
    step: DecoderStep,
    request: ExportRequest,
    facts: LanguageFacts,
    prompts: Sequence[RunnerText],
    written: Sequence[LitertLmText],
    epsilon: float,
    *,
    half: bool = False,
) -> Rung:
    """Texts after prompts; ``half``: written in float16."""
    if wrong := _wrong_counts(prompts, written):
        return told(stage, wrong, gated=True)
    pairs = zip(prompts, written, strict=True)
    found = [_agreement(step, request, facts.ends, prompt, each, epsilon, half=half) for prompt, each in pairs]
    return agreed(stage, f"{NAME} {litert_lm_version()}", "", found, epsilon)


def _wrong_counts(prompts: Sequence[RunnerText], written: Sequence[LitertLmText]) -> str:
    """Of what prompt it read another number of tokens, in words; empty where of none."""
    pairs = ((prompt, each) for prompt, each in zip(prompts, written, strict=True) if each.read != len(prompt.ids))
    return "; ".join(
        f"it reads {each.read} tokens of {prompt.text[:40]!r}, not {len(prompt.ids)}" for prompt, each in pairs
    )


def _agreement(
    step: DecoderStep,
    request: ExportRequest,
    ends: Sequence[int],
    prompt: RunnerText,
    written: LitertLmText,
    epsilon: float,
    *,
    half: bool,
) -> Agreement:
    count = _TOKENS_ON_A_GPU if half else TOKENS
    own = OwnText(*greedy(step, prompt.ids, count, request.limits.prefill_chunk, ends))
    if half:
        largest = max(float(row.abs().max()) for row in own.rows)
        epsilon = max(epsilon, COMPRESSED_HALF_LOWERING["max_relative"] * largest)
    return text_agreement(request.tokenizer, own, "".join(written.pieces), ends, epsilon)


def _talked(
    step: DecoderStep,
    request: ExportRequest,
    facts: LanguageFacts,
    chats: Sequence[RunnerText],
    rendered: Sequence[str],
    replied: Sequence[LitertLmText],
    epsilon: float,
) -> Rung:
    """Conversations as text, and answers; what begins a text LiteRT-LM puts before it as a token."""
    mark = request.tokenizer.bos_token if facts.begins is not None else ""
    pairs = zip(rendered, chats, strict=True)
    other = [text for text, chat in pairs if text != chat.text.removeprefix(mark)]
    if other:
        return told(CHAT_STAGE, f"{len(other)} of {len(chats)} are other texts, as {other[0][:200]!r}", gated=True)
    return _compared(CHAT_STAGE, step, request, facts, chats, replied, epsilon)


def _unbegun(request: ExportRequest, facts: LanguageFacts) -> str:
    """Where texts begin otherwise than by transformers, in words."""
    own = text_beginning(request.tokenizer)
    if own in (None, facts.begins):
        return ""
    return f"; texts begin without {request.tokenizer.convert_ids_to_tokens(own)!r}, as the model's conversations do"


def _read(said: LitertLmAnswer, request: ExportRequest, facts: LanguageFacts) -> Rung:
    """Whether its tokenizer reads texts as transformers does; it puts no token before them here."""
    wanted: list[Any] = [token_ids(request.tokenizer, text, special=False) for _, text in TEXTS]
    same = [list(ids) == other for ids, other in zip(said.ids, wanted, strict=True)]
    note = f"{sum(same)} of {len(same)} texts give the same ids{_unbegun(request, facts)}"
    return told(TOKENIZER_STAGE, note, gated=False, passed=all(same), positions=len(same))
