"""A decoder's artifact in ExecuTorch's runtime: tokens at positions in, logits out, keys and values kept inside."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from edgec.bundle.entry_points import Limits
from edgec.bundle.folder import Bundle, open_bundle
from edgec.bundle.hub.located import bundle_folder
from edgec.errors import InputError
from edgec.runtime_py.adapters.use import UsedAdapter, opened_adapter, use_adapter
from edgec.runtime_py.decoding.stepper import Logits, check_context, prefill_in_chunks
from edgec.runtime_py.engines.choice import engine_for
from edgec.runtime_py.engines.executor import Array, EngineName, Executor
from edgec.runtime_py.engines.open_artifact import open_artifact
from edgec.runtime_py.engines.threads import use_threads
from edgec.runtime_py.engines.trial import try_first
from edgec.runtime_py.sessions.cache_contents import CacheContents
from edgec.runtime_py.sessions.hidden_rows import HiddenRows


def opened(bundle: Path | str | Bundle) -> Bundle:
    """Open a bundle, given by its path or its address on the hub, checking every file; an open one is returned.

    Raises:
        InputError: E130 to E137; of an address what `bundle_folder` raises.
    """
    if isinstance(bundle, str | Path):
        return open_bundle(bundle_folder(bundle))
    if not isinstance(bundle, Bundle):
        raise InputError("Not an edgec bundle.", repr(bundle)[:60], "", "give the path of a NAME.edgec folder", "E130")
    return bundle


class Session:
    """One sequence on a loaded decoder, for one thread at a time; several sessions of one bundle share its weights.

    Attributes:
        bundle: the bundle that was loaded.
        limits: context, tokens per call, rows of logits per call.
        threads: size of the runtime's thread pool, shared by all sessions of the process.
        engine: ``edgec``, or ``executorch`` where edgec's engine cannot be compiled (docs/runner.md); ``apple`` where a
            Mac itself executes what is made for Apple's chips; ``simulated`` for units that this machine lacks
            (docs/iphone.md).
        cache: the tokens the KV cache holds.
        hidden: the hidden states of the text, where the artifact has a predictor that goes on from them; else None.
    """

    def __init__(
        self, bundle: Path | str | Bundle, threads: int | None = None, engine: EngineName | None = None
    ) -> None:
        """Load the artifact.

        Args:
            bundle: a bundle folder, or one opened before.
            threads: CPU threads; None leaves the choice to the runtime.
            engine: insist on one; None takes edgec's where it can be compiled.

        Raises:
            InputError: E155 when the model is not a decoder, E157 when the runtime refuses the artifact, E168 or E169
                when its first execution on this machine ended the process that tried it, or did not end.
            ToolError: E311 or E312 when the artifact needs edgec's engine and it cannot be compiled.
        """
        self.bundle = opened(bundle)
        self.limits = self._limits()
        manifest = self.bundle.manifest
        self.engine = engine_for(self.bundle, engine)
        try_first(self.bundle, self.engine)
        self.threads = use_threads(self.engine, threads)
        self.cache = CacheContents(manifest.states)
        self._vocab_size = manifest.model.vocab_size
        self._heads: tuple[list[int], Logits] | None = None
        self.hidden = self._no_hidden()
        self._executor = open_artifact(self.bundle, self.engine)
        self._adapter: UsedAdapter | None = None

    @property
    def adapter(self) -> UsedAdapter | None:
        """The adapter whose changes are added to the matrices, or None.

        Set an `Adapter`, the path of its file, or None; where the artifact has functions under adapters, the name of
        one. Another adapter empties the KV cache, which it did not compute.

        Raises:
            InputError: E695, the file is damaged; E696, it belongs to another bundle; E767, the artifact has no
                functions under it. The session stays as it was.
            ToolError: E697, something else than edgec's engine executes the artifact.
        """
        return self._adapter

    @adapter.setter
    def adapter(self, adapter: UsedAdapter | Path | str | None) -> None:
        wanted = None if adapter is None else opened_adapter(adapter, self.bundle)
        digest = wanted.digest if wanted else ""
        if digest == self.cache.adapter:
            return
        use_adapter(self._executor, wanted)
        self._adapter, self._heads, self.hidden = wanted, None, self._no_hidden()
        self.cache = CacheContents(self.bundle.manifest.states, digest)

    @property
    def arena(self) -> NDArray[np.uint8] | None:
        """All states in place, uint8 [bytes], writable between calls; None where the runtime keeps them out of reach.

        ``StateInfo.offset`` of the manifest gives the place where each state begins.
        """
        return self._executor.state

    @property
    def executor(self) -> Executor:
        """What executes the artifact, with this session's state."""
        return self._executor

    def check(self, tokens: Sequence[int], start: int, rows: Sequence[int]) -> None:
        """Refuse a call that ``forward`` refuses, with its errors; nothing is executed."""
        check_call(self, tokens, start, rows, self._vocab_size)

    def forward(self, tokens: Sequence[int], start: int, rows: Sequence[int]) -> Logits:
        """Feed one chunk and return the logits of some of its rows.

        Args:
            tokens: 1..limits.prefill_chunk token ids.
            start: position of the first; 0 begins a new sequence, an earlier position rewinds.
            rows: 1..limits.logit_rows indices into ``tokens``.

        Returns:
            float32 [len(rows), vocabulary].

        Raises:
            InputError: E150 beyond the context, E152 outside the call's limits, E153 when ``start`` is not a position
                that the KV cache can continue from. Nothing has been executed then.
        """
        self.check(tokens, start, rows)
        inputs = self._inputs(tokens, start, rows)
        self.cache.begin(start, len(tokens))
        self._heads = None
        logits, *more = self._executor.run(inputs)
        self.cache.write(start, tokens)
        if self.hidden is not None:
            self.hidden.write(start, tokens, more[0][0])
        elif more:
            self._heads = ([start + row for row in rows], more[0][0])
        result: Logits = logits[0].astype(np.float32, copy=False)
        return result

    def _no_hidden(self) -> HiddenRows | None:
        predictor = self.bundle.manifest.predictor
        return None if predictor is None else HiddenRows(self.limits.context, predictor.width)

    def _limits(self) -> Limits:
        return decoder_limits(self.bundle)

    def _inputs(self, tokens: Sequence[int], start: int, rows: Sequence[int]) -> tuple[Array, ...]:
        """The method's inputs, in its order: tokens [1, S], positions [S], and what else it reads, rows [K]."""
        return (
            np.array([tokens], dtype=np.int64),
            np.arange(start, start + len(tokens), dtype=np.int64),
            np.array(rows, dtype=np.int64),
        )

    def head_logits(self, position: int) -> Logits | None:
        """The logits of the artifact's draft heads after a position, float32 [heads, vocabulary].

        None where there are no heads, or where the last call did not give the position's logits.
        """
        if self._heads is None or position not in self._heads[0]:
            return None
        positions, logits = self._heads
        result: Logits | None = logits[positions.index(position)]
        return result

    def prefill(self, tokens: Sequence[int], start: int) -> Logits:
        """Feed any number of tokens and return the last one's logits, float32 [vocabulary].

        Raises as ``forward``, and E151 without tokens.
        """
        return prefill_in_chunks(self, tokens, start)

    def reusable(self, tokens: Sequence[int]) -> int:
        """How many leading ``tokens`` the KV cache holds and can continue from; fewer than all of them."""
        return self.cache.reusable(tokens)


class Continuing(Protocol):
    """A session as far as the check of its calls goes."""

    @property
    def limits(self) -> Limits:
        """The context, tokens per call, rows of logits per call."""

    @property
    def cache(self) -> CacheContents:
        """The tokens the KV cache holds."""


def check_call(
    session: Continuing, tokens: Sequence[int], start: int, rows: Sequence[int], vocab_size: int | None
) -> None:
    """Refuse a call that the artifact or the cache cannot serve.

    Raises:
        InputError: E150, E152, E153 as ``Session.forward``.
    """
    check_context(start + len(tokens), session.limits.context)
    _check_count("tokens", len(tokens), session.limits.prefill_chunk)
    _check_count("rows of logits", len(rows), session.limits.logit_rows)
    _check_range("row", rows, len(tokens))
    if vocab_size is not None:
        _check_range("token id", tokens, vocab_size)
    if not session.cache.continues_at(start):
        raise _cannot_continue(start, session.cache)


def decoder_limits(bundle: Bundle) -> Limits:
    """The limits of a decoder's bundle.

    Raises:
        InputError: E155, the model is not a decoder.
    """
    if bundle.manifest.limits is None:
        writes = bundle.manifest.writing_limits is not None
        senses = "vision" if bundle.manifest.vision_language else "audio"
        kind = "is an encoder-decoder" if bundle.manifest.encoder_decoder else f"is a decoder with {senses}"
        raise InputError(
            f"This model {kind}." if writes else "This model does not generate text.",
            where=str(bundle.path),
            why=f"its task is {bundle.manifest.model.task}",
            fix="call edgec.load(bundle).generate(text) or .transcribe(file), or use edgec run"
            if writes
            else "call it with edgec.load(bundle).run(name=array, ...)",
            code="E155",
        )
    return bundle.manifest.limits


def text_limits(bundle: Bundle) -> Limits:
    """The limits of a bundle that continues text, with or without vision or audio.

    Raises:
        InputError: E155, the model is neither.
    """
    senses = bundle.manifest.vision_language or bundle.manifest.audio_language
    return decoder_limits(bundle) if senses is None else senses.limits


def _check_count(what: str, count: int, limit: int) -> None:
    if not 1 <= count <= limit:
        raise InputError(f"{count} {what} in one call; the artifact takes 1 to {limit}.", where="forward", code="E152")


def _check_range(what: str, values: Sequence[int], size: int) -> None:
    if min(values) < 0 or max(values) >= size:
        raise InputError(
            f"A {what} lies outside 0..{size - 1}.",
            where="forward",
            why=f"values from {min(values)} to {max(values)} were given",
            fix="use the tokenizer of this bundle",
            code="E152",
        )


def _cannot_continue(start: int, cache: CacheContents) -> InputError:
    return InputError(
        f"The KV cache cannot continue at position {start}.",
        where="forward",
        why=f"it holds {len(cache.tokens)} positions (at most {cache.high_water} so far); later ones would be a gap, "
        "a sliding-window ring forgets positions outside its window, and a recurrence takes back tokens of its last "
        "call only",
        fix="feed the sequence again from position 0",
        code="E153",
    )
