"""An encoder-decoder's artifact: a source in, once; then tokens at positions in, logits out.

read(source)   encode, then cross: each layer's keys and values of the source, kept here
forward(...)   the decoder over these and its own KV cache; prompts and single tokens alike
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from edgec.bundle.entry_points import (
    ENCODER_DECODER_METHODS,
    STATIC_ENCODER_DECODER_METHODS,
    EncoderDecoderInfo,
    MethodInfo,
)
from edgec.errors import InputError
from edgec.runtime_py.decoding.stepper import Logits, prefill_in_chunks
from edgec.runtime_py.encoder_decoder.fixed_source import filled
from edgec.runtime_py.encoder_decoder.token_rules import TokenRules
from edgec.runtime_py.engines.choice import engine_for
from edgec.runtime_py.engines.executor import Array
from edgec.runtime_py.engines.open_artifact import open_artifact
from edgec.runtime_py.engines.threads import use_threads
from edgec.runtime_py.engines.trial import try_first
from edgec.runtime_py.sessions.cache_contents import CacheContents
from edgec.runtime_py.sessions.session import check_call
from edgec.runtime_py.structured.patience import require_wanted

if TYPE_CHECKING:
    from edgec.bundle.folder import Bundle


class EncoderDecoderSession:
    """One source and the text written after it, on a loaded artifact; for one thread at a time.

    Attributes:
        bundle: the bundle that was loaded.
        limits: the decoder's context, tokens per call, rows of logits per call.
        rules: what is done to logits before a token is chosen; empty at first.
        cache: the tokens that the decoder's KV cache holds.
    """

    def __init__(self, bundle: Bundle, threads: int | None = None) -> None:
        """Load the artifact.

        Raises:
            InputError: E155, the model is not an encoder-decoder; E157, E168, E169 as ``Session``.
            ToolError: E311 or E312, edgec's engine cannot be compiled.
        """
        self.info = encoder_decoder_info(bundle)
        self.bundle, self.limits, self.rules = bundle, self.info.limits, TokenRules()
        self.engine = engine_for(bundle)
        try_first(bundle, self.engine)
        self.threads = use_threads(self.engine, threads)
        self.cache = CacheContents(bundle.manifest.states)
        methods = (open_artifact(bundle, self.engine, name) for name in ENCODER_DECODER_METHODS)
        self._encode, self._cross, self._forward = methods
        self._memory: tuple[Array, ...] = ()
        fixed = tuple(method.name for method in bundle.manifest.methods) == STATIC_ENCODER_DECODER_METHODS
        self._filled = self.info.source_tokens if fixed else None

    def read(self, source: Array) -> None:
        """Read a source, which forgets the one before and what was written after it.

        Args:
            source: int64 [1, T] with T at most ``info.source_tokens``, float32 [1, mels, frames], or samples [1, N].

        Raises:
            InputError: E150, the source is too long; E152, it has another shape.
        """
        require_wanted()
        self.check_source(source)
        self._memory = ()
        self.cache = CacheContents(self.bundle.manifest.states)
        # Lent: keys and values of 30 s are as large as the weights of a small Whisper in 4 bits.
        inputs = self._inputs(source)
        states = self._encode.lend(inputs)[0]
        # Which tokens are padding is known of the source as well, where it is filled up.
        self._memory = (*self._cross.lend([states]), *inputs[1:])

    def states(self, source: Array) -> Array:
        """The states [1, T, C] that the encoder makes of a source, which is not kept; raises as ``read``."""
        self.check_source(source)
        made: Array = self._encode.run(self._inputs(source))[0]
        return made

    def _inputs(self, source: Array) -> tuple[Array, ...]:
        """What ``encode`` takes: where a text is filled up, also which of its tokens are padding."""
        return filled(source, self._filled) if self._filled else (source,)

    def forward(self, tokens: Sequence[int], start: int, rows: Sequence[int]) -> Logits:
        """Feed one chunk to the decoder and return the logits of some of its rows, float32 [len(rows), vocabulary].

        Raises:
            InputError: E150, E152, E153 as ``Session.forward``; E151, nothing was read.
        """
        require_wanted()
        if not self._memory:
            raise InputError("Nothing was read yet.", where="forward", fix="call read(source) first", code="E151")
        check_call(self, tokens, start, rows, self.bundle.manifest.model.vocab_size)
        places = np.arange(start, start + len(tokens), dtype=np.int64)
        self.cache.begin(start, len(tokens))
        inputs = (np.array([tokens], dtype=np.int64), places, *self._memory, np.array(rows, dtype=np.int64))
        logits = self._forward.run(inputs)[0]
        self.cache.write(start, tokens)
        result: Logits = logits[0].astype(np.float32, copy=False)
        return result

    def prefill(self, tokens: Sequence[int], start: int) -> Logits:
        """Feed any number of tokens and return the last one's logits after ``rules``, float32 [vocabulary].

        Raises as ``forward``, and E151 without tokens.
        """
        logits = prefill_in_chunks(self, tokens, start)
        return self.rules.applied(logits, self.cache.tokens)

    def reusable(self, tokens: Sequence[int]) -> int:
        """How many leading ``tokens`` the KV cache holds and can continue from; fewer than all of them."""
        return self.cache.reusable(tokens)

    def check_source(self, source: Array) -> None:
        """Refuse a source that ``read`` would refuse. Raises InputError E150, E152."""
        most = self.info.source_tokens
        if source.shape != self.info.source_shape(source.shape[-1]) or source.size == 0:
            raise InputError(
                f"The source has the shape {list(source.shape)}.",
                where="read",
                fix=f"give {_wanted(self.info)}",
                code="E152",
            )
        if most is not None and source.shape[-1] > most:
            raise InputError(
                f"The text has {source.shape[-1]} tokens, and the encoder reads {most}.",
                where="prompt",
                why="the artifact's memory is planned for that many",
                fix="shorten the text, or give it in parts",
                code="E150",
            )


def _wanted(info: EncoderDecoderInfo) -> str:
    """What a source should be."""
    if info.waveform is not None:
        few, most = info.waveform.fewest_samples, info.waveform.window_samples
        return f"samples [1, N] with N from {few} to {most}"
    return "tokens [1, T]" if info.sound is None else str(list(info.source_shape(0)))


def encoder_decoder_info(bundle: Bundle) -> EncoderDecoderInfo:
    """What a bundle's manifest says about its encoder and decoder.

    Raises:
        InputError: E155, the model is not an encoder-decoder.
    """
    if bundle.manifest.encoder_decoder is None:
        raise InputError(
            "This model has no encoder that reads a source.",
            where=str(bundle.path),
            why=f"its task is {bundle.manifest.model.task}",
            fix="use a bundle of Whisper, T5, BART, Marian or the like",
            code="E155",
        )
    return bundle.manifest.encoder_decoder


def encoded_states(session: EncoderDecoderSession, method: MethodInfo, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """The output of a model's encoder for its one input, both by their names in ``method``.

    Raises:
        InputError: E152, the method makes no states of a source alone, or the source does not have its shape.
    """
    if method.name != ENCODER_DECODER_METHODS[0] or (len(method.inputs), len(method.outputs)) != (1, 1):
        what, fix = f"{method.name} takes no source alone.", "export the model again"
        raise InputError(what, where=method.name, why="an encoder makes states of a source", fix=fix, code="E152")
    return {method.outputs[0].name: session.states(inputs[method.inputs[0].name])}
