"""A decoder's artifact in ExecuTorch's runtime: tokens at positions in, logits out, keys and values kept inside."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from edgec.errors import InputError
from edgec.exporter.bundle.manifest import Limits
from edgec.runtime_py.cache_contents import CacheContents
from edgec.runtime_py.native import Method, set_threads
from edgec.runtime_py.stepper import Logits, check_context, prefill_in_chunks

if TYPE_CHECKING:
    from edgec.exporter.bundle.folder import Bundle


def opened(bundle: Path | str | Bundle) -> Bundle:
    """A bundle given as a path or already opened; opening checks every file's checksum."""
    from edgec.exporter.bundle.folder import open_bundle

    return open_bundle(Path(bundle)) if isinstance(bundle, str | Path) else bundle


class Session:
    """One loaded decoder. Not for concurrent use: its KV cache is one sequence.

    Attributes:
        bundle: what was loaded.
        limits: context, tokens per call, rows of logits per call.
        threads: size of the runtime's thread pool, shared by all sessions of the process.
        cache: the tokens the KV cache holds.
    """

    def __init__(self, bundle: Path | str | Bundle, threads: int | None = None) -> None:
        """Load the artifact.

        Args:
            bundle: a bundle folder, or one opened before.
            threads: CPU threads; None leaves the runtime's own choice.

        Raises:
            InputError: E155 when the model is not a decoder, E157 when the runtime refuses the artifact.
        """
        self.bundle = opened(bundle)
        self.limits = decoder_limits(self.bundle)
        self.threads = set_threads(threads)
        self.cache = CacheContents(self.bundle.manifest.states)
        self._vocab_size = self.bundle.manifest.model.vocab_size
        self._method = Method(self.bundle.artifact_path)

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
        self._check(tokens, start, rows)
        import torch

        inputs = (
            torch.tensor([list(tokens)], dtype=torch.int64),
            torch.arange(start, start + len(tokens), dtype=torch.int64),
            torch.tensor(list(rows), dtype=torch.int64),
        )
        logits: Logits = self._method(inputs)[0][0].numpy().astype(np.float32, copy=False)
        self.cache.write(start, tokens)
        return logits

    def prefill(self, tokens: Sequence[int], start: int) -> Logits:
        """Feed any number of tokens; float32 logits [vocabulary] of the last. Raises as ``forward``, and E151."""
        return prefill_in_chunks(self, tokens, start)

    def reusable(self, tokens: Sequence[int]) -> int:
        """How many leading ``tokens`` the KV cache holds and can continue from; fewer than all of them."""
        return self.cache.reusable(tokens)

    def _check(self, tokens: Sequence[int], start: int, rows: Sequence[int]) -> None:
        check_context(start + len(tokens), self.limits.context)
        _check_count("tokens", len(tokens), self.limits.prefill_chunk)
        _check_count("rows of logits", len(rows), self.limits.logit_rows)
        _check_range("row", rows, len(tokens))
        if self._vocab_size is not None:
            _check_range("token id", tokens, self._vocab_size)
        if not self.cache.continues_at(start):
            raise _cannot_continue(start, self.cache)


def decoder_limits(bundle: Bundle) -> Limits:
    """The limits of a decoder's bundle.

    Raises:
        InputError: E155, the model is not a decoder.
    """
    if bundle.manifest.limits is None:
        raise InputError(
            "This model does not generate text.",
            where=str(bundle.path),
            why=f"its task is {bundle.manifest.model.task}",
            fix="call it with edgec.load(bundle).run(name=array, ...)",
            code="E155",
        )
    return bundle.manifest.limits


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
        "and a sliding-window ring forgets what lies behind its window",
        fix="feed the sequence again from position 0",
        code="E153",
    )
