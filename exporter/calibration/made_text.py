"""The text that an export makes: what the model writes of itself, and a short built-in text in several registers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from torch import nn

from edgec.bundle.encoding import token_ids
from edgec.bundle.manifest import CalibrationText
from edgec.errors import EdgecError, InputError
from edgec.exporter.calibration.starts import WritingBatch, batches
from edgec.exporter.calibration.writing import NotFiniteError, WrittenTexts, write_texts
from edgec.exporter.request import ExportRequest
from edgec.exporter.resolve.memory_forecast import MOST_WRITING_BYTES
from edgec.exporter.sources.model_build import put_weights
from edgec.exporter.sources.model_source import ModelSource
from edgec.free_memory import return_free_memory

SEED = 0
MOST_BUILT_IN = 1024
PLAIN = Path(__file__).parent / "plain_text.txt"
ShareTold = Callable[[float], None]


class MadeText(BaseModel):
    """Tokens that were made, in the order in which they are read."""

    written: list[int] = []
    built_in: list[int] = []
    notice: str = ""

    @property
    def tokens(self) -> tuple[int, ...]:
        """All of them."""
        return (*self.written, *self.built_in)

    @property
    def told(self) -> CalibrationText | None:
        """What reports say; None where nothing could be made."""
        if not self.tokens:
            return None
        written, built_in = len(self.written), len(self.built_in)
        return CalibrationText(tokens=written + built_in, written=written, built_in=built_in, notice=self.notice)


def make_text(request: ExportRequest, told: ShareTold) -> MadeText:
    """Make the text for a decoder; it is the same for the same model, seed and machine.

    Args:
        request: names the model.
        told: is told of the share, 0..1, that is written.

    Returns:
        At most 4,096 tokens. Without a tokenizer the model writes and nothing is built in; where it cannot write, the
        built-in text stands alone and the notice says why.
    """
    built_in = _built_in(request.tokenizer, request.spec.vocab_size)
    if why := _why_not(request.source):
        return MadeText(built_in=built_in, notice=why)
    asked, notice = batches(request.tokenizer, request.source.config, request.spec.vocab_size, request.limits.context)
    try:
        written = _written(request.source, asked, told)
    except NotFiniteError:
        return MadeText(built_in=built_in, notice="the model's logits are not finite")
    except InputError as error:
        if error.code != "E769":
            raise
        return MadeText(built_in=built_in, notice=f"the model's own code fails where it writes: {error.why}")
    return MadeText(written=list(chain.from_iterable(written)), built_in=built_in, notice=notice)


def _built_in(tokenizer: Any, vocab_size: int) -> list[int]:
    """The built-in text's tokens; none without a tokenizer, or where it cannot read."""
    if tokenizer is None:
        return []
    try:
        return [token for token in token_ids(tokenizer, PLAIN.read_text()) if token < vocab_size][:MOST_BUILT_IN]
    except EdgecError:
        return []


def _why_not(source: ModelSource) -> str:
    """Why a model writes nothing; empty where it does."""
    size = 4 * sum(source.weight_sizes)
    if not source.trained:
        return "random weights write no text"
    return f"the model is too large to write here ({size / 1e9:.1f} GB in float32)" if size > MOST_WRITING_BYTES else ""


def _written(source: ModelSource, asked: Sequence[WritingBatch], told: ShareTold) -> WrittenTexts:
    """The texts of all batches, by transformers' own model in float32, which is let go before the export goes on."""
    model = float_model(source)
    steps = [batch.length - min(map(len, batch.starts)) for batch in asked]
    texts: WrittenTexts = ()
    for number, batch in enumerate(asked):
        share = partial(_tell, told, sum(steps[:number]), sum(steps))
        texts += write_texts(model, batch.starts, batch.length, SEED + number, share)
    del model
    return_free_memory()
    return texts


def float_model(source: ModelSource) -> nn.Module:
    """Transformers' own model in float32; weights that are stored so are shared with their file."""
    assert source.weights is not None
    model: nn.Module = source.build_on("cpu")
    put_weights(model, source.weights)
    return model


def _tell(told: ShareTold, before: int, steps: int, step: int) -> None:
    told((before + step) / steps)
