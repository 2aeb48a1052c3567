"""What rungs of other runtimes share: the texts that these continue, edgec's own continuations, and the rung's form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from edgec.bundle.encoding import decode_tokens, token_ids
from edgec.bundle.findings import Rung
from edgec.bundle.generation_config import GenerationConfig
from edgec.exporter.parity.sample import START, greedy
from edgec.exporter.request import ExportRequest
from edgec.exporter.runners.words import Agreement, OwnText
from edgec.ir.call_plan import DecoderStep

TOKENS: Final = 24
FIX: Final = "do not ship this artifact in that runtime: report it with the model's architecture and the recipe"


@dataclass(frozen=True)
class RunnerText:
    """A text, and the ids that edgec's tokenizer makes of it."""

    text: str
    ids: tuple[int, ...]


def runner_texts(request: ExportRequest) -> list[RunnerText]:
    """A few words, and a text longer than a chunk where the context has room for one."""
    tokenizer, limits, known = request.tokenizer, request.limits, request.spec.vocab_size
    chunk, room = limits.prefill_chunk, limits.context - TOKENS
    long = decode_tokens(tokenizer, request.probe.tokens[: chunk + chunk // 8])
    made = [RunnerText(text, tuple(token_ids(tokenizer, text))) for text in (START, long) if text.strip()]
    return [each for each in made if 0 < len(each.ids) <= room and max(each.ids) < known]


def ends_of(request: ExportRequest) -> tuple[int, ...]:
    """The ids that end the model's texts."""
    return tuple(GenerationConfig.model_validate(request.source.generation_config).stop_tokens)


def greedy_text(step: DecoderStep, prompt: Sequence[int], chunk: int, ends: Sequence[int]) -> OwnText:
    """The likeliest tokens after a prompt up to one that ends a text, by the calls that a runner makes."""
    return OwnText(*greedy(step, prompt, TOKENS, chunk, ends))


def agreed(stage: str, runtime: str, unit: str, found: Sequence[Agreement], epsilon: float) -> Rung:
    """The rung of texts that were compared: ``runtime`` and ``unit``, what was compared, stand in its note."""
    compared, ties = sum(each.compared for each in found), sum(each.near_tie for each in found)
    wrong, tied = sum(each.faults for each in found), f", up to {ties} near ties" if ties else ""
    note = f"{runtime}, {compared} tokens of {len(found)} texts{unit}{tied}"
    share = 1 - wrong / compared if compared else 1.0
    return told(stage, note, gated=True, passed=wrong == 0, positions=compared, share=share, epsilon=epsilon)


def told(
    stage: str,
    note: str,
    *,
    gated: bool,
    passed: bool = False,
    positions: int = 0,
    share: float | None = None,
    epsilon: float = 0.0,
) -> Rung:
    """A rung that compares words, or says why it does not."""
    return Rung(
        half="lowering",
        stage=stage,
        reference="artifact",
        effect="exact",
        positions=positions,
        max_abs=None,
        mean_abs=None,
        reference_max_abs=None,
        kl_mean=None,
        kl_max=None,
        top1_agreement=share,
        epsilon=epsilon,
        budget={"top1_agreement": 1.0} if gated else {},
        gated=gated,
        passed=passed,
        note=note,
        in_words=True,
    )
