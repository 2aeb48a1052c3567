"""A tile and a text with its rows, and what transformers' own vision-language model computes of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle, islice

import torch
from torch import Tensor

from edgec.bundle.entry_points import Ahead, Limits
from edgec.bundle.mrope import mrope_positions
from edgec.bundle.noncausal_spans import span_ends
from edgec.errors import InputError
from edgec.exporter.parity.float32_mode import InFloat32
from edgec.exporter.parity.own_code import own_code
from edgec.exporter.parity.placed_rows import rows_placed
from edgec.exporter.parity.probe import Probe
from edgec.exporter.parity.rows_and_text import RowsReference
from edgec.exporter.sources.model_build import put_weights
from edgec.exporter.sources.model_source import ModelSource
from edgec.exporter.sources.multimodal.vision_families import rows_of
from edgec.exporter.sources.multimodal.vision_language import VisionInput
from edgec.exporter.sources.weights.streamed import Weights
from edgec.ir.attention import SPAN_END
from edgec.ir.call_plan import Call, call_plan, compared_positions, static_plan
from edgec.ir.row_inputs import MROPE

# Tokens before an image and, at least, after it.
_BEFORE, _AFTER = 3, 16
# Tokens of the prompt after an image.
_INSIDE = 2


@dataclass(frozen=True)
class ImageProbe:
    """A tile, and a text with its rows.

    Attributes:
        pixels: float32 [1, C, H, W].
        tokens: ids, among them the image token once for each row.
        plan: the calls that feed them.
        image_token: the id that stands for a row.
        ahead: what sees tokens after itself.
        prompt: tokens of the prompt; what follows is an answer.
        grid: the tile's rows, high and wide, where positions have three parts.
    """

    pixels: Tensor
    tokens: tuple[int, ...]
    plan: tuple[Call, ...]
    image_token: int
    ahead: Ahead
    prompt: int
    grid: tuple[int, int] | None = None

    @property
    def whole(self) -> Sequence[Tensor]:
        """The inputs of encoder."""
        return [self.pixels]

    @property
    def in_text(self) -> Sequence[Tensor]:
        """The same: a tile is all image."""
        return self.whole

    @property
    def rows(self) -> int:
        """The rows of the tile in the text."""
        return self.tokens.count(self.image_token)

    @property
    def after_rows(self) -> int:
        """The position of the first token after the rows."""
        return self.tokens.index(self.image_token) + self.rows

    @property
    def seen(self) -> Tensor:
        """Which tokens are rows, bool [1, L]."""
        return torch.tensor([self.tokens]) == self.image_token

    def placed(self, rows: Tensor) -> dict[str, Tensor]:
        """What the whole text has beside tokens and positions, by the inputs' names; tokens are in dimension 1."""
        reach = span_ends(self.ahead, self.tokens, self.image_token, self.prompt)
        ahead = {} if self.ahead == "none" else {SPAN_END: torch.from_numpy(reach)[None]}
        mrope = (
            {MROPE: torch.from_numpy(mrope_positions(self.tokens, self.image_token, self.grid))} if self.grid else {}
        )
        return {**rows_placed(self.tokens, self.image_token, rows), **ahead, **mrope}


def image_probe(
    vision: VisionInput, rows: int, text: Probe, limits: Limits, *, static: bool = False, window: int = 0
) -> ImageProbe:
    """Choose a tile and a text; the rows follow the text's first tokens.

    Args:
        vision: gives the tile's shape and the image token.
        rows: tokens of a tile.
        text: the ladder's text.
        limits: of the decoder.
        static: it has methods of fixed shapes.
        window: tokens that its longest sliding window and what it always keeps hold; 0 where there is none.

    Raises:
        InputError: E651, the context cannot hold a tile.
    """
    least = _BEFORE + rows + _AFTER
    if least > limits.context:
        raise InputError(
            f"A context of {limits.context} tokens cannot hold an image.",
            where="--context",
            why=f"an image takes {rows} tokens or more, and text before and after it at least {_BEFORE + _AFTER}",
            fix=f"use --context {least} or more",
            code="E651",
        )
    words = [token for token in text.tokens if token != vision.image_token] or [0]
    length = min(limits.context, max(len(text.tokens), least))
    around = list(islice(cycle(words), length - rows))
    tokens = (*around[:_BEFORE], *[vision.image_token] * rows, *around[_BEFORE:])
    pixels = torch.randn(1, *vision.shape, generator=torch.Generator().manual_seed(0))
    ahead, prompt = vision.asked.ahead, _BEFORE + rows + _INSIDE
    chunk = limits.prefill_chunk
    # Whole chunks go on behind the image, however many rows it has: what follows it is compared as well.
    beyond = max(window, prompt)
    plan = static_plan(length, chunk, beyond) if static else call_plan(length, chunk, limits.logit_rows)
    plan = plan if ahead == "none" else _whole_prompt(prompt, length, limits, static)
    return ImageProbe(pixels, tokens, plan, vision.image_token, ahead, prompt, vision.grid)


def _whole_prompt(prompt: int, length: int, limits: Limits, static: bool) -> tuple[Call, ...]:
    """The prompt in one call, then calls of every size; none of them begins again.

    Raises:
        InputError: E651, a call does not take as many tokens.
    """
    if prompt > limits.prefill_chunk:
        raise InputError(
            f"A call of {limits.prefill_chunk} tokens cannot hold an image.",
            where="prefill_chunk",
            why=f"{prompt} tokens, an image and what is around it, see each other and are computed at once",
            fix=f"write a recipe with prefill_chunk = {prompt} or more, and a --context as long",
            code="E651",
        )
    left, chunk = length - prompt, limits.prefill_chunk
    after = static_plan(left, chunk) if static else call_plan(left, chunk, limits.logit_rows)
    again = after[-1].start == 0 and len(after) > 1
    calls = (Call(prompt + call.start, call.size, call.rows) for call in (after[:-1] if again else after))
    return (Call(0, prompt, min(prompt, limits.logit_rows)), *calls)


class EagerModel:
    """Transformers' own model in float32 over the weights as they are stored."""

    def __init__(self, source: ModelSource, weights: Weights) -> None:
        """Build the model."""
        assert source.vision is not None
        self.vision, self._model = source.vision, source.build_on("cpu", attn_implementation="eager")
        put_weights(self._model, weights, as_stored=True)

    def features(self, pixels: Tensor) -> Tensor:
        """The rows of a tile, float32 [T, hidden], by the model's own function.

        Raises:
            InputError: E769, it fails.
        """
        with own_code(self._model, "an image"), torch.no_grad(), InFloat32(None):
            given = self.vision.asked.given(self.vision.patches, pixels)
            return rows_of(self._model.get_image_features(**given, return_dict=True)).float()

    def reference(self, probe: ImageProbe) -> RowsReference:
        """The model's own answers from pixels and tokens, without a cache.

        Raises:
            InputError: E769, its code fails.
        """
        with own_code(self._model, "an image and a text"), torch.no_grad(), InFloat32(None):
            asked, tokens = self.vision.asked, torch.tensor([list(probe.tokens)])
            given = {**asked.given(self.vision.patches, probe.pixels), **asked.kinds(probe.seen, probe.prompt)}
            logits: Tensor = self._model(input_ids=tokens, use_cache=False, **given).logits
        features = self.features(probe.pixels)
        return RowsReference(features, features, logits[0, compared_positions(probe.plan)].float())
