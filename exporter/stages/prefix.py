"""The KV state of a system prompt: computed by executing the artifact, checked by restoring it, then shipped."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import torch
from torch import Tensor

from edgec.bundle.checked_files import file_sha256
from edgec.bundle.findings import Rung
from edgec.bundle.folder import Bundle
from edgec.bundle.manifest import FileInfo, Manifest, PrefixInfo
from edgec.bundle.part import JsonPart
from edgec.bundle.prefix import Files, SystemPrompt, prefix_files, prefix_info
from edgec.exporter.parity import ladder
from edgec.exporter.parity.execution_noise import Noise
from edgec.exporter.parity.ladder import Stage, lowering_rung
from edgec.exporter.provenance import source_digest
from edgec.exporter.recipes.passes import rounds_values
from edgec.exporter.resolve.system_prompt import out_of_reach
from edgec.exporter.stage_cache import StageCache, stage_key
from edgec.runtime_py.decoding.stepper import Logits
from edgec.runtime_py.sessions.saved_session import Restorable, load_session, place_of, save_session
from edgec.runtime_py.sessions.session import Session
from edgec.runtime_py.sessions.session_file import SessionPlace

if TYPE_CHECKING:
    from edgec.exporter.request import ExportRequest

_STATE, _FACTS = "state.safetensors", "prefix.json"
# The same arithmetic on the same bytes.
_SAME_BITS = {"max_abs": 0.0}
_QUESTION_TOKENS = 8


class RestorableDecoder(Restorable, Protocol):
    """A decoder whose state can be copied out and in."""

    def forward(self, tokens: Sequence[int], start: int, rows: Sequence[int]) -> Logits:
        """Feed ``tokens`` from position ``start`` on; float32 logits [len(rows), vocabulary] of the given rows."""


class PrefixFacts(JsonPart):
    """What the stage stores with the state."""

    info: PrefixInfo
    rungs: list[Rung]


def with_prefix(
    manifest: Manifest, files: Files, request: ExportRequest, cache: StageCache, noise: Noise | None = None
) -> tuple[Manifest, Files]:
    """Add the state of the request's system prompt to a bundle's manifest and files.

    Args:
        manifest: without its file list.
        files: the artifact (as a path) and the tokenizer.
        request: the export's request.
        cache: keeps the state between exports.
        noise: how far two right executions of the artifact's graph differ; None where that was not measured.

    Returns:
        The manifest with ``prefix`` and two more rungs, and all files.

    Raises:
        BudgetError: E201, the artifact continues differently after the state is restored.
        ToolError: E330, the states of this artifact are out of reach.
    """
    prompt, artifact = request.prompt, files.get(manifest.artifact)
    if prompt is None:
        return manifest, files
    assert isinstance(artifact, Path) and artifact.name == manifest.artifact
    listed = manifest.model_copy(update={"files": [_file_info(path, files[path]) for path in sorted(files)]})
    place = place_of(listed)
    if not place.states:
        raise out_of_reach("the artifact keeps its state among the activations")
    bundle = Bundle(artifact.parent, listed, files_checked=True)
    question = request.probe.tokens[:_QUESTION_TOKENS]
    whole: Mapping[str, float] = ladder.FLOAT_LOWERING
    if loose := rounds_values(request.recipe):
        whole = ladder.measured(ladder.ROUNDED_LOWERING, noise, ladder.ALONE)
    folder = cache.put(
        _key(place, prompt, question),
        lambda folder: write_prefix(folder, prompt, place, lambda: Session(bundle), question, loose, whole),
    )
    facts = PrefixFacts.model_validate_json((folder / _FACTS).read_text())
    changes = {"prefix": facts.info, "parity": [*manifest.parity, *facts.rungs]}
    return manifest.model_copy(update=changes), {**files, **prefix_files(prompt, folder / _STATE)}


def write_prefix(
    folder: Path,
    prompt: SystemPrompt,
    place: SessionPlace,
    new_decoder: Callable[[], RestorableDecoder],
    question: Sequence[int],
    loose: bool,
    budget: Mapping[str, float] = ladder.FLOAT_LOWERING,
) -> None:
    """Compute the state, save it, and compare what follows it with what follows the computation.

    Args:
        folder: the stage's folder.
        prompt: the system prompt.
        place: which model and states the file belongs to.
        new_decoder: opens the artifact with an empty state.
        question: tokens to feed after the prompt; as many are used as one call and the context take.
        loose: the artifact rounds, so that other cuts into calls may differ by more than the order of sums.
        budget: how far they may differ.

    Raises:
        BudgetError: E201.
    """
    computed, restored = new_decoder(), new_decoder()
    start, limits = len(prompt.tokens), computed.limits
    asked = list(question[: min(limits.prefill_chunk, limits.logit_rows, limits.context - start)])
    computed.prefill(prompt.tokens, 0)
    size = save_session(computed, place, folder / _STATE)
    load_session(restored, place, folder / _STATE)
    after = Stage("prefix restored", _answer(restored, asked, start))
    whole = _at_once(new_decoder(), [*prompt.tokens, *asked], len(asked))
    rungs = [
        lowering_rung(Stage("computed prefix", _answer(computed, asked, start)), after, _SAME_BITS),
        lowering_rung(Stage("whole prompt", whole), after, budget, rounded=loose),
    ]
    ladder.gate(rungs)
    info = prefix_info(prompt, size, place.origin.fingerprint(prompt.tokens))
    (folder / _FACTS).write_text(PrefixFacts(info=info, rungs=rungs).model_dump_json())


def _answer(decoder: RestorableDecoder, question: Sequence[int], start: int) -> Tensor:
    """The logits that follow each token of a question, float32 [len(question), vocabulary]."""
    return torch.from_numpy(decoder.forward(question, start, range(len(question))))


def _at_once(decoder: RestorableDecoder, tokens: Sequence[int], rows: int) -> Tensor:
    """The logits of the last ``rows`` tokens, fed so that the last call is a full one."""
    chunk = min(decoder.limits.prefill_chunk, len(tokens))
    first = len(tokens) - chunk
    if first:
        decoder.prefill(tokens[:first], 0)
    return torch.from_numpy(decoder.forward(tokens[first:], first, range(chunk - rows, chunk)))


def _file_info(path: str, content: bytes | Path) -> FileInfo:
    if isinstance(content, bytes):
        return FileInfo(path=path, bytes=len(content), sha256=sha256(content).hexdigest())
    return FileInfo(path=path, bytes=content.stat().st_size, sha256=file_sha256(content))


def _key(place: SessionPlace, prompt: SystemPrompt, question: Sequence[int]) -> str:
    inputs = {"stage": "prefix", "origin": asdict(place.origin), "edgec": source_digest((__name__,), without=())}
    return stage_key({**inputs, "tokens": list(prompt.tokens), "question": list(question), "form": prompt.form})
