"""A vision-language model's artifact in ExecuTorch's own multimodal runner: a rung of the parity ladder.

    tokens, a tile, tokens -> edgec            vision_encoder, forward                       -> the likeliest tokens -+
                           -> MultimodalRunner token_embedding, vision_encoder, text_decoder -> pieces of text -------+

Both make the same calls: one for each piece of a prompt, then single tokens. A prompt that begins with the tile follows
one that has it between words.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, cycle, islice
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from torch import Tensor

from edgec.bundle.entry_points import TEXT_DECODER, VISION_LANGUAGE_METHODS
from edgec.bundle.findings import Rung
from edgec.exporter.parity.placed_rows import rows_placed
from edgec.exporter.parity.rows_and_text import ExecutedRows
from edgec.exporter.request import ExportRequest
from edgec.exporter.runners.executorch import Continued, asked_facts, runner_rung
from edgec.exporter.runners.texts import TOKENS, told
from edgec.exporter.runners.words import OwnText
from edgec.exporter.stages.compiled import Facts
from edgec.ir.call_plan import Call
from edgec.runtime_py.runners.executorch_llm import RunnerPrompt, runner_name

NAME = runner_name("MultimodalRunner")
# Tokens before and after the tile of each prompt.
_AROUND = ((3, 2), (0, 12))


@dataclass(frozen=True)
class TilePrompt:
    """Tokens before a tile [1, C, H, W], and after it."""

    before: tuple[int, ...]
    tile: Tensor
    after: tuple[int, ...]

    def pieces(self, file: Path) -> RunnerPrompt:
        """The prompt as the runner takes it, the tile in a file."""
        np.save(file, self.tile.numpy())
        pieces: list[tuple[int, ...] | Path] = [self.before, file, self.after]
        return [each for each in pieces if each != ()]


def multimodal_rung(artifact: Path, facts: Facts, request: ExportRequest, epsilon: float) -> Rung | None:
    """Let the runner continue two prompts with a tile, and compare with what edgec's own runtime writes.

    Args:
        artifact: the .pte file of a vision-language model for a CPU; it passed the other rungs.
        facts: of it.
        request: what is exported.
        epsilon: how far two logits of right executions may differ.

    Returns:
        None where it is turned off, and where the runner cannot take such a bundle: without a tokenizer.json.
    """
    if asked_facts(request) is None:
        return None
    rows = int(facts.methods[0].outputs[0].shape[1])
    if reason := _unfit(artifact, request, rows):
        return told(NAME, f"not run: {reason}", gated=False)
    prompts = tile_prompts(request)
    counts = [len(each.before) + rows + len(each.after) for each in prompts]
    tokens = min(TOKENS, request.limits.context - max(counts))
    with TemporaryDirectory() as folder:
        given = [each.pieces(Path(folder) / f"{index}.npy") for index, each in enumerate(prompts)]
        asked = Continued(
            "MultimodalRunner", 0, given, counts, tokens, lambda: _own_texts(artifact, request, prompts, tokens)
        )
        return runner_rung(artifact, facts.operators, request, asked, epsilon)


def tile_prompts(request: ExportRequest) -> list[TilePrompt]:
    """The prompts that are continued, of the ladder's words and two tiles."""
    vision = request.source.vision
    assert vision is not None
    words = [token for token in request.probe.tokens if token != vision.image_token] or [0]
    made = []
    for index, (before, after) in enumerate(_AROUND):
        tile = torch.randn(1, *vision.shape, generator=torch.Generator().manual_seed(index))
        text = list(islice(cycle(words), before + after))
        made.append(TilePrompt(tuple(text[:before]), tile, tuple(text[before:])))
    return made


def _unfit(artifact: Path, request: ExportRequest, rows: int) -> str:
    """Why the runner cannot take the artifact, in words; empty where it can."""
    from edgec.bundle.pte_layout import method_names

    if TEXT_DECODER not in method_names(artifact):
        return "its decoder reads more than embeddings and positions, which is all that the runner gives"
    chunk = request.limits.prefill_chunk
    if rows > chunk:
        return f"an image has {rows} rows, and a call takes {chunk} (a recipe's prefill_chunk)"
    return ""


def _own_texts(artifact: Path, request: ExportRequest, prompts: Sequence[TilePrompt], tokens: int) -> list[OwnText]:
    vision, facts = request.source.vision, asked_facts(request)
    assert vision is not None and facts is not None
    methods = ExecutedRows.of_program(artifact, VISION_LANGUAGE_METHODS)
    return [_own_text(methods, each, vision.image_token, tokens, facts.ends) for each in prompts]


def _own_text(methods: ExecutedRows, prompt: TilePrompt, mark: int, count: int, ends: Sequence[int]) -> OwnText:
    """The likeliest tokens after a prompt up to one that ends a text, by the calls that the runner makes."""
    made = methods.rows([prompt.tile])
    tokens = [*prompt.before, *[mark] * len(made), *prompt.after]
    # No token that is written is a row, whichever it is.
    placed = rows_placed([*tokens, *[mark ^ 1] * count], mark, made)
    sizes = [size for size in (len(prompt.before), len(made), len(prompt.after)) if size]
    calls = [Call(end - size, size, 1) for end, size in zip(accumulate(sizes), sizes, strict=True)]
    logits = [methods.text.logits(tuple(tokens), call, placed)[0] for call in calls][-1:]
    written = [int(logits[0].argmax())]
    while len(written) < count and written[-1] not in ends:
        call = Call(len(tokens) + len(written) - 1, 1, 1)
        logits.append(methods.text.logits((*tokens, *written), call, placed)[0])
        written.append(int(logits[-1].argmax()))
    return OwnText(written, logits)
