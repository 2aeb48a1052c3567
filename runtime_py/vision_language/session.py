"""A vision-language model's artifact: tiles in, rows of features out; then a decoder that reads them among tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from edgec.bundle.entry_points import VISION_ENCODER, Limits, MethodInfo, VisionLanguageInfo
from edgec.bundle.folder import Bundle
from edgec.bundle.mrope import mrope_positions
from edgec.bundle.noncausal_spans import span_ends, whole_calls
from edgec.errors import InputError
from edgec.runtime_py.decoding.stepper import Logits, check_context
from edgec.runtime_py.engines.executor import Array, EngineName, Executor
from edgec.runtime_py.engines.open_artifact import open_artifact
from edgec.runtime_py.sessions.placed_rows import RowsSession
from edgec.runtime_py.sessions.session import Session
from edgec.runtime_py.vision_language.processor import Prompt


class VisionLanguageSession(RowsSession):
    """A sequence of text and images on a loaded model, for one thread at a time.

    Attributes:
        info: sizes of a tile, its rows, the image token.
    """

    def __init__(self, bundle: Bundle, threads: int | None = None, engine: EngineName | None = None) -> None:
        """Load the decoder; the image encoder is loaded with the first image.

        Raises:
            InputError: E658, the model has no vision; else as ``Session``.
        """
        self.info = vision_language_info(bundle)
        super().__init__(bundle, threads, engine)
        self._vision_encoder: Executor | None = None
        self._reach = np.arange(self.limits.context)
        self._mrope = self._mrope_positions(())

    def encode_images(self, pixels: Array) -> NDArray[np.float32]:
        """The rows of tiles: float32 [N, C, H, W] -> [N * rows, hidden].

        Raises:
            InputError: E152, the tiles have another shape or type; E157, the artifact's rows are not the manifest's.
        """
        wanted = (self.info.channels, self.info.height, self.info.width)
        if pixels.dtype != np.float32 or pixels.ndim != 4 or pixels.shape[1:] != wanted:
            what, fix = f"The tiles are {pixels.dtype} {list(pixels.shape)}.", f"give float32 [N, *{list(wanted)}]"
            raise InputError(what, where="vision_encoder", fix=fix, code="E152")
        if self._vision_encoder is None:
            self._vision_encoder = open_artifact(self.bundle, self.engine, VISION_ENCODER)
        rows = [self._rows_of(tile, self._vision_encoder) for tile in pixels]
        return np.concatenate([np.zeros((0, self._width), np.float32), *rows])

    def _rows_of(self, tile: Array, encoder: Executor) -> Array:
        """The rows of one tile, as many and as wide as the manifest says.

        Raises:
            InputError: E157.
        """
        rows, wanted = encoder.run([tile[None]])[0], (1, self.info.rows, self._width)
        if rows.shape != wanted:
            what, fix = "The image encoder does not fit its bundle.", "export the model again"
            why = f"it makes rows {list(rows.shape)} of a tile, and the manifest has {list(wanted)}"
            raise InputError(what, where=VISION_ENCODER, why=why, fix=fix, code="E157")
        return rows.reshape(wanted[1:])

    def look(self, tokens: Sequence[int], pixels: Array | None) -> None:
        """Put images in the place of a prompt's image tokens; what the KV cache holds from there on is forgotten.

        Args:
            tokens: the whole prompt, from position 0.
            pixels: its tiles, as for ``see``; None for a prompt without images.

        Raises:
            InputError: E657, tiles and image tokens do not agree, or the model needs an image; E152 as ``see``.
        """
        places = np.flatnonzero(np.asarray(tokens) == self.info.image_token)
        count = 0 if pixels is None else len(pixels)
        if len(places) != count * self.info.rows:
            raise InputError(
                "Images and their places in the text do not agree.",
                where="prompt",
                why=f"there are {count} tiles of {self.info.rows} rows, and {len(places)} image tokens",
                fix="give images with the prompt that names them, as edgec.load(bundle).generate(text, images=[...])",
                code="E657",
            )
        if not count:
            refuse_without_images(self.info)
        self._forget_rows()
        self._reach, self._mrope = np.arange(self.limits.context), self._mrope_positions(tokens)
        if pixels is None or not count:
            return
        span_end = span_ends(self.info.ahead, tokens, self.info.image_token, len(tokens))
        self._check_calls(span_end)
        self._reach[: len(tokens)] = span_end
        # What sees an image, and all after it, is computed again with it.
        ahead = np.flatnonzero(span_end > np.arange(len(span_end)))
        del self.cache.tokens[min([int(places[0]), *ahead[:1].tolist()]) :]
        self._put_rows(places, self.encode_images(pixels))

    def take(self, tokens: Sequence[int], prompt: Prompt | None) -> None:
        """Look at what a prompt came with, as ``look``."""
        self.look(tokens, None if prompt is None else prompt.pixels)

    def prefill(self, tokens: Sequence[int], start: int) -> Logits:
        """Feed tokens in calls that hold all that their tokens see, and return the last one's logits [vocabulary]."""
        if self.info.ahead == "none" or not tokens:
            return super().prefill(tokens, start)
        check_context(start + len(tokens), self.limits.context)
        for size in whole_calls(self._reach[: start + len(tokens)], start, self.limits.prefill_chunk):
            part, tokens = tokens[:size], tokens[size:]
            logits = self.forward(part, start, (size - 1,))
            start += size
        result: Logits = logits[0]
        return result

    def _check_calls(self, span_end: NDArray[np.int64]) -> None:
        """Refuse a prompt whose tokens see more tokens than a call takes.

        Raises:
            InputError: E150.
        """
        largest = max(whole_calls(span_end, 0, self.limits.prefill_chunk), default=0)
        if largest > self.limits.prefill_chunk:
            raise InputError(
                f"{largest} tokens of the prompt see each other, and a call takes {self.limits.prefill_chunk}.",
                where="prompt",
                why="this model reads a prompt with an image as a whole, in both directions",
                fix="shorten the prompt, or export with more prefill tokens in a recipe",
                code="E150",
            )

    def _limits(self) -> Limits:
        return self.info.limits

    def _beside(self, start: int, count: int) -> tuple[Array, ...]:
        part = slice(start, start + count)
        span_end = () if self.info.ahead == "none" else (self._reach[part],)
        mrope = () if self.info.grid is None else (self._mrope[:, part].copy(),)
        return *span_end, *mrope

    def _mrope_positions(self, tokens: Sequence[int]) -> NDArray[np.int64]:
        """The positions of three parts of a prompt and of all text after it, [3, context]; none where they have one."""
        if self.info.grid is None:
            return np.zeros((3, 0), np.int64)
        return mrope_positions(tokens, self.info.image_token, self.info.grid, self.limits.context)


def seen_rows(session: Session, method: MethodInfo, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
    """The output of a model's image encoder for its one input, both by their names in ``method``.

    Raises:
        InputError: E152, the method makes no rows of a tile, or the tile does not have its shape; E157 as ``see``.
    """
    assert isinstance(session, VisionLanguageSession)
    if method.name != VISION_ENCODER or (len(method.inputs), len(method.outputs)) != (1, 1):
        what, fix = f"{method.name} takes no tile alone.", "export the model again"
        raise InputError(what, where=method.name, why="an image encoder makes rows of a tile", fix=fix, code="E152")
    return {method.outputs[0].name: session.encode_images(inputs[method.inputs[0].name])[None]}


def refuse_without_images(info: VisionLanguageInfo) -> None:
    """Refuse text alone where the model has no order of its own for it.

    Raises:
        InputError: E657.
    """
    if info.ahead == "prompt":
        what, fix = "This model answers about images only.", "give an image with the prompt"
        why = "it reads a prompt and its images in both directions, and was made for prompts with images"
        raise InputError(what, where="prompt", why=why, fix=fix, code="E657")


def vision_language_info(bundle: Bundle) -> VisionLanguageInfo:
    """What a bundle's manifest says about its vision.

    Raises:
        InputError: E658, the model has none.
    """
    if bundle.manifest.vision_language is None:
        raise InputError(
            "This model has no vision.",
            where=str(bundle.path),
            why=f"its task is {bundle.manifest.model.task}",
            fix="give text alone, or use a bundle of LLaVA, SmolVLM, Qwen3-VL or the like",
            code="E658",
        )
    return bundle.manifest.vision_language
