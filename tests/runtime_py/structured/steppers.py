"""A model of random logits over a real vocabulary, and tokenizers to hold texts to a structure with."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from edgec.bundle.encoding import decode_tokens
from edgec.bundle.entry_points import Limits
from edgec.runtime_py.decoding.sampling import Sampling
from edgec.runtime_py.decoding.stepper import Logits, prefill_in_chunks
from edgec.runtime_py.generation.generate import Generation, GenerationRequest, generate
from edgec.runtime_py.sessions.cache_contents import CacheContents
from edgec.runtime_py.speculation.speculator import Speculator
from edgec.runtime_py.structured.structures import Structures
from edgec.runtime_py.structured.vocabulary import vocabulary_of
from edgec.runtime_py.structured.wanted import wanted

EXAMPLE = Path(__file__).parents[3] / "examples" / "tiny-stories"
PROMPT = (5, 6, 7)


class RandomStepper:
    """Draws the logits of a position from the sum of the tokens before it: a model with random weights."""

    def __init__(self, vocab_size: int, seed: int = 0, context: int = 4096) -> None:
        self.limits = Limits(context=context, prefill_chunk=16, logit_rows=16)
        self.cache = CacheContents(())
        self.calls = 0
        self._size, self._seed = vocab_size, seed

    def forward(self, tokens: Sequence[int], start: int, rows: Sequence[int]) -> Logits:
        assert self.cache.continues_at(start)
        self.calls += 1
        self.cache.write(start, tokens)
        return np.stack([self._logits(start + row + 1) for row in rows])

    def _logits(self, end: int) -> Logits:
        key = sum((place + 1) * token for place, token in enumerate(self.cache.tokens[:end]))
        return np.random.default_rng((self._seed, key)).normal(0, 2, self._size).astype(np.float32)

    def prefill(self, tokens: Sequence[int], start: int) -> Logits:
        return prefill_in_chunks(self, tokens, start)

    def reusable(self, tokens: Sequence[int]) -> int:
        return self.cache.reusable(tokens)


@lru_cache(maxsize=1)
def example_tokenizer() -> Any:
    """The byte-level tokenizer of the example model."""
    return AutoTokenizer.from_pretrained(EXAMPLE)


@lru_cache(maxsize=1)
def fallback_tokenizer() -> Any:
    """A made-up tokenizer as sentencepiece makes them: pieces with a mark for spaces, and a token for each byte."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers

    mark = "\N{LOWER ONE EIGHTH BLOCK}"
    pieces = [f"<0x{byte:02X}>" for byte in range(256)]
    pieces += [chr(byte) for byte in range(0x21, 0x7F)] + [mark, "ä", "name", '":', f"{mark}the", "tr", "ue"]
    names = {"<unk>": 0, "<s>": 1, "</s>": 2} | {piece: place + 3 for place, piece in enumerate(pieces)}
    tokenizer = Tokenizer(models.BPE(vocab=names, merges=[], unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    tokenizer.normalizer = normalizers.Replace(" ", mark)
    steps = [decoders.Replace(mark, " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    tokenizer.decoder = decoders.Sequence(steps)
    tokenizer.add_special_tokens([AddedToken(name, special=True) for name in ("<unk>", "<s>", "</s>")])
    tokenizer.add_tokens([AddedToken("<tool>", special=False)])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>", bos_token="<s>", eos_token="</s>")


@lru_cache(maxsize=4)
def structures(name: str = "example", with_eos: bool = True) -> Structures:
    """What compiles for one of the tokenizers."""
    tokenizer = example_tokenizer() if name == "example" else fallback_tokenizer()
    return Structures(vocabulary_of(tokenizer, len(tokenizer), frozenset([tokenizer.eos_token_id] if with_eos else ())))


def tokenizer_of(made: Structures) -> Any:
    """The tokenizer that a vocabulary is of."""
    return next(one for one in (example_tokenizer(), fallback_tokenizer()) if len(one) == len(made.vocabulary.tokens))


def written(
    made: Structures,
    most: int | None,
    sampling: Sampling | None = None,
    *,
    seed: int = 0,
    speculate: Speculator | None = None,
    stepper: RandomStepper | None = None,
    **asked: Any,
) -> Generation:
    """A text of a random model, held to what is asked."""
    tokenizer = tokenizer_of(made)
    one = wanted(**asked)
    structure = made.compiled(one) if one is not None else None
    request = GenerationRequest(most, sampling or Sampling(), (), made.vocabulary.eos, structure)
    model = stepper or RandomStepper(len(tokenizer), seed)
    return generate(model, PROMPT, request, lambda ids: decode_tokens(tokenizer, ids), speculate=speculate)
