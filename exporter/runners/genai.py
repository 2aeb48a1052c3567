"""A decoder's artifact in onnxruntime-genai: a rung of the parity ladder.

    text -> edgec's tokenizer -> ids -> edgec over ONNX Runtime  -> the likeliest tokens -+
                                 ids -> onnxruntime-genai        -> tokens ---------------+-> the same
         -> its own tokenizer -> ids, told where they differ

What genai_config.json says wrong ends an export, and so do other tokens. That its tokenizer reads a text otherwise is
told and ends nothing: an app may give it ids.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from edgec.bundle.findings import Rung
from edgec.errors import ToolError
from edgec.exporter.assemble.genai import genai_files
from edgec.exporter.assemble.tokenizer import tokenizer_contents
from edgec.exporter.request import ExportRequest
from edgec.exporter.runners.texts import TOKENS, RunnerText, agreed, ends_of, greedy_text, runner_texts, told
from edgec.exporter.runners.words import token_agreement
from edgec.exporter.stages.artifact import step_of
from edgec.exporter.stages.compiled import Facts
from edgec.runtime_py.runners import genai
from edgec.runtime_py.runners.genai import NAME, GenaiAnswer, genai_version, is_installed, written_by_genai


def genai_rung(artifact: Path, facts: Facts, request: ExportRequest, epsilon: float) -> Rung | None:
    """Let onnxruntime-genai continue two texts, and compare with what edgec writes by the same artifact.

    Args:
        artifact: the folder with the model; it passed the other rungs.
        facts: of it.
        request: what is exported.
        epsilon: how far two logits of right executions may differ.

    Returns:
        None where it is turned off; a model without a tokenizer continues the probe.
    """
    if not genai.AUTOMATIC:
        return None
    if not is_installed():
        return told(NAME, f'not run: {NAME} is not installed (pip install "edgec[genai]")', gated=False)
    prompts = _prompts(request)
    with TemporaryDirectory() as folder:
        _lay_out(Path(folder), artifact, facts, request)
        try:
            texts = [prompt.text for prompt in prompts]
            said = written_by_genai(Path(folder), texts, [prompt.ids for prompt in prompts], TOKENS)
        except ToolError as error:
            return told(NAME, error.why, gated=True)
    if wrong := said.failed or _wrong_facts(said, request):
        return told(NAME, wrong, gated=True)
    step, ends = step_of(artifact, request.form), ends_of(request)
    own = [greedy_text(step, prompt.ids, request.limits.prefill_chunk, ends) for prompt in prompts]
    found = [token_agreement(text, other, epsilon) for text, other in zip(own, said.texts, strict=True)]
    return agreed(NAME, f"{NAME} {genai_version()}", _read_otherwise(said, prompts), found, epsilon)


def _prompts(request: ExportRequest) -> list[RunnerText]:
    if request.tokenizer is not None:
        return runner_texts(request)
    return [RunnerText("", tuple(request.probe.tokens[: max(1, request.limits.context - TOKENS)][:TOKENS]))]


def _lay_out(folder: Path, artifact: Path, facts: Facts, request: ExportRequest) -> None:
    """Lay out what onnxruntime-genai reads of the bundle, as the bundle will have it."""
    (folder / artifact.name).symlink_to(artifact.resolve(), target_is_directory=True)
    tokenizer = request.tokenizer
    files = tokenizer_contents(request.source.tokenizer_files, tokenizer) if tokenizer is not None else {}
    for name, content in {**files, **genai_files(request, facts)}.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(content.read_bytes() if isinstance(content, Path) else content)


def _wrong_facts(said: GenaiAnswer, request: ExportRequest) -> str:
    """What it says of the model that is not so, in words; empty where all is."""
    wanted: dict[str, object] = {"longest": request.limits.context}
    if not said.unreadable:
        wanted["eos"] = list(ends_of(request))
        begins = getattr(request.tokenizer, "bos_token_id", None)
        wanted |= {} if begins is None else {"bos": begins}
    given = {name: getattr(said, name) for name in wanted}
    return "; ".join(f"{name} is {given[name]}, not {value}" for name, value in wanted.items() if given[name] != value)


def _read_otherwise(said: GenaiAnswer, prompts: Sequence[RunnerText]) -> str:
    """What its tokenizer makes of the texts, where that is not what edgec's does, in words."""
    if said.unreadable:
        return f"; its tokenizer was not read: {said.unreadable}"
    other = [len(ids) for ids, prompt in zip(said.ids, prompts, strict=True) if tuple(ids) != prompt.ids]
    return f"; its tokenizer reads {len(other)} of them otherwise" if other else " and its tokenizer's ids"
