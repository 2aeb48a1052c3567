"""A decoder's artifact in onnxruntime-genai: rungs of the parity ladder.

    prompt ids -> edgec over ONNX Runtime         -> the likeliest tokens -+
               -> onnxruntime-genai               -> tokens ---------------+-> the same
    texts, conversations -> transformers          -> ids, text ------------+
                         -> its own tokenizer     -> ids, text ------------+-> the same, or told

What genai_config.json says wrong ends an export, and so do other tokens. That its tokenizer reads a text otherwise is
told and ends nothing: an app may give it ids, and prompts that are rendered already.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from edgec.backends.qnn.context import execute_on_cpu
from edgec.bundle.encoding import token_ids
from edgec.bundle.findings import Rung
from edgec.bundle.golden_texts import TEXTS, ChatVector, chat_vectors
from edgec.errors import ToolError
from edgec.exporter.assemble.genai import genai_files
from edgec.exporter.assemble.genai_pipeline import vocabulary
from edgec.exporter.bundled_tokenizer import tokenizer_contents
from edgec.exporter.request import ExportRequest
from edgec.exporter.runners.genai_pipeline import (
    BRIEF,
    HEXAGON_STAGE,
    ON_CPU,
    has_room,
    on_emulated_hexagon,
    on_hexagon,
    on_this_cpu,
)
from edgec.exporter.runners.texts import TOKENS, RunnerText, agreed, ends_of, greedy_text, runner_texts, told
from edgec.exporter.runners.words import OwnText, token_agreement
from edgec.exporter.stages.artifact import artifact_layout, step_of
from edgec.exporter.stages.calibrated import LARGE_BYTES
from edgec.exporter.stages.compiled import Facts
from edgec.installation import install_command
from edgec.ir.call_plan import DecoderStep
from edgec.ir.static_methods import methods_step
from edgec.runtime_py.runners import genai
from edgec.runtime_py.runners.genai import (
    NAME,
    GenaiAnswer,
    GenaiQuestion,
    asked_genai,
    genai_version,
    is_installed,
)

TOKENIZER_STAGE = f"{NAME}'s tokenizer"
_MOST_ENDS = 8
"""Ends of texts that are tried, each in a call of the model."""


def genai_rungs(artifact: Path, facts: Facts, request: ExportRequest, epsilon: float) -> list[Rung]:
    """Let onnxruntime-genai continue two texts, and compare with what edgec writes by the same artifact.

    Args:
        artifact: the folder with the model; it passed the other rungs.
        facts: of it.
        request: what is exported; a model without a tokenizer continues the probe.
        epsilon: how far two logits of right executions may differ.

    Returns:
        none where it is turned off.
    """
    if not genai.AUTOMATIC:
        return []
    if not is_installed():
        return [told(NAME, f"not run: {NAME} is not installed ({install_command('genai')})", gated=False)]
    prompts, texts = _prompts(request), _texts(request)
    chats = [each for each in chat_vectors(request.tokenizer) if not each.dated] if texts else []
    question = _question(prompts, texts, chats, facts, request)
    try:
        said = _asked(artifact, facts, request, question)
    except ToolError as error:
        return [told(NAME, error.why, gated=True)]
    if wrong := said.failed or _wrong_facts(said, request):
        return [told(NAME, wrong, gated=True)]
    step, ends = _step(artifact, request), ends_of(request)
    own = [greedy_text(step, prompt.ids, request.limits.prefill_chunk, ends) for prompt in prompts]
    found = [token_agreement(text, other, epsilon) for text, other in zip(own, said.texts, strict=True)]
    written = agreed(NAME, f"{NAME} {genai_version()}", ON_CPU if request.form.piped else "", found, epsilon)
    emulated = _emulated(artifact, facts, request, question, own[0], epsilon) if request.form.piped and own else []
    return [written, *emulated, *([_read(said, texts, chats)] if texts else [])]


def _question(
    prompts: Sequence[RunnerText],
    texts: Sequence[RunnerText],
    chats: Sequence[ChatVector],
    facts: Facts,
    request: ExportRequest,
) -> GenaiQuestion:
    return GenaiQuestion(
        texts=[each.text for each in texts],
        chats=[each.messages for each in chats],
        prompts=[each.ids for each in prompts],
        tokens=TOKENS,
        ends=[*ends_of(request)[:_MOST_ENDS]],
        size=vocabulary(facts) + request.form.piped,
    )


def _asked(artifact: Path, facts: Facts, request: ExportRequest, question: GenaiQuestion) -> GenaiAnswer:
    """What it says of the artifact; of contexts, with what stands for them on this machine.

    Raises:
        ToolError: E856, it could not open it.
    """
    with TemporaryDirectory() as folder:
        _lay_out(Path(folder), artifact, facts, request)
        if request.form.piped:
            (on_emulated_hexagon if question.hexagon else on_this_cpu)(Path(folder), artifact)
        return asked_genai(Path(folder), question)


def _emulated(
    artifact: Path, facts: Facts, request: ExportRequest, question: GenaiQuestion, own: OwnText, epsilon: float
) -> list[Rung]:
    """The first tokens of the first text in Qualcomm's emulation; not of a large artifact, which would take minutes."""
    size = artifact_layout(artifact, request.form).artifact_bytes
    if size >= LARGE_BYTES:
        return [told(HEXAGON_STAGE, f"not run: {size:,} bytes are too many for the emulation", gated=False)]
    asked = replace(question, **BRIEF, prompts=question.prompts[:1], hexagon=True)
    try:
        said = _asked(artifact, facts, request, asked)
    except ToolError as error:
        return [told(HEXAGON_STAGE, error.why, gated=True)]
    if said.failed:
        return [told(HEXAGON_STAGE, said.failed, gated=True)]
    return [on_hexagon(own, said.texts[0], f"{NAME} {genai_version()}", epsilon)]


def _step(artifact: Path, request: ExportRequest) -> DecoderStep:
    """The artifact as a function; for one of contexts, the fixed-point models that stand for them in its rung, too."""
    return methods_step(execute_on_cpu(artifact)) if request.form.piped else step_of(artifact, request.form)


def _texts(request: ExportRequest) -> list[RunnerText]:
    """The golden texts, as edgec's tokenizer reads them."""
    tokenizer = request.tokenizer
    return [] if tokenizer is None else [RunnerText(text, tuple(token_ids(tokenizer, text))) for _, text in TEXTS]


def _prompts(request: ExportRequest) -> list[RunnerText]:
    if request.tokenizer is not None:
        return [each for each in runner_texts(request) if not request.form.piped or has_room(each.ids, request.limits)]
    room = max(1, request.limits.context - TOKENS)
    return [RunnerText("", tuple(request.probe.tokens[: min(TOKENS, room)]))]


def _lay_out(folder: Path, artifact: Path, facts: Facts, request: ExportRequest) -> None:
    """Lay out what onnxruntime-genai reads of the bundle, as the bundle will have it."""
    (folder / artifact.name).symlink_to(artifact.resolve(), target_is_directory=True)
    tokenizer = request.tokenizer
    files = tokenizer_contents(request.source.tokenizer_files, tokenizer) if tokenizer is not None else {}
    for name, content in {**files, **genai_files(request, facts, artifact)}.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(content.read_bytes() if isinstance(content, Path) else content)


def _wrong_facts(said: GenaiAnswer, request: ExportRequest) -> str:
    """What it says of the model that is not so, in words; empty where all is."""
    ends = ends_of(request)[:_MOST_ENDS]
    wanted: dict[str, object] = {"longest": request.limits.context, "ending": [True] * len(ends)}
    begins = getattr(request.tokenizer, "bos_token_id", None)
    wanted |= {} if begins is None or said.unreadable else {"bos": begins}
    given = {name: getattr(said, name) for name in wanted}
    return "; ".join(f"{name} is {given[name]}, not {value}" for name, value in wanted.items() if given[name] != value)


def _read(said: GenaiAnswer, texts: Sequence[RunnerText], chats: Sequence[ChatVector]) -> Rung:
    """Whether its tokenizer reads texts, and renders conversations, as transformers does."""
    if said.unreadable:
        return told(TOKENIZER_STAGE, f"not read: {said.unreadable}", gated=False)
    pairs = [tuple(ids) == text.ids for ids, text in zip(said.ids, texts, strict=True)]
    same = [text == chat.rendered for text, chat in zip(said.chats, chats, strict=True)]
    note = f"{sum(pairs)} of {len(pairs)} texts give the same ids"
    note += f", {sum(same)} of {len(same)} conversations the same text" if same else ""
    return told(TOKENIZER_STAGE, note, gated=False, passed=all((*pairs, *same)), positions=len(pairs))
