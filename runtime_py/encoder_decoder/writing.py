"""Text after a source: read it, then write token by token, as `pieces` does for decoders."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from edgec.bundle.generation_config import GenerationConfig
from edgec.errors import InputError
from edgec.runtime_py.decoding.prompt_cache import PromptCache
from edgec.runtime_py.encoder_decoder.session import EncoderDecoderSession
from edgec.runtime_py.encoder_decoder.token_rules import TokenRules
from edgec.runtime_py.engines.executor import Array
from edgec.runtime_py.generation.generate import Decode, Generation, GenerationRequest, pieces


def first_tokens(config: GenerationConfig) -> list[int]:
    """What the decoder is given before its first token, as in transformers: the start token, else the begin token.

    Raises:
        InputError: E141, the generation config names neither.
    """
    start = config.bos_token_id if config.decoder_start_token_id is None else config.decoder_start_token_id
    if start is None:
        raise InputError(
            "The bundle does not say with which token its decoder begins.",
            where="generation_config.json",
            why="decoder_start_token_id is absent",
            fix="put decoder_start_token_id into the model's generation_config.json, and export it again",
            code="E141",
        )
    return [start]


def pieces_after(
    session: EncoderDecoderSession,
    source: Sequence[int],
    request: GenerationRequest,
    config: GenerationConfig,
    decode: Decode,
    *,
    first: int | None = None,
) -> Generator[str, None, Generation]:
    """Write the text that follows a source of tokens, piece by piece; wrong arguments are refused at once.

    Args:
        session: the loaded model; nothing changes in it before the first piece is asked for.
        source: token ids that the encoder reads; that is part of the time to the first token.
        request: how long, how chosen, where to stop.
        config: the bundle's.
        decode: token ids to text.
        first: the first new token, such as the language to translate into; None: the config's own.

    Raises:
        InputError: E141, E150, E151, E152; nothing has been executed then.
    """
    if not source:
        raise InputError("There is no text to read.", where="prompt", fix="give a prompt", code="E151")
    prompt, read = first_tokens(config), np.array([source], dtype=np.int64)
    session.check_source(read)
    rules = TokenRules.of(config, len(prompt), most_tokens(session, prompt, request))
    return _written(
        session, read, prompt, rules if first is None else replace(rules, forced_first=first), request, decode
    )


def language_token(tokenizer: Any, language: str) -> int:
    """The id of a language's token in the model's own vocabulary.

    Raises:
        InputError: E156, the vocabulary has no such token.
    """
    vocabulary = tokenizer.get_vocab()
    names = (language, f"<|{language}|>", f">>{language}<<", f"__{language}__")
    token = next((vocabulary[name] for name in names if name in vocabulary), None)
    if token is None:
        raise InputError(
            f"The model has no token for the language {language!r:.60}.",
            where="language",
            fix="give the model's own name of it, such as fra_Latn (NLLB) or fr (Whisper)",
            code="E156",
        )
    return int(token)


def most_tokens(session: EncoderDecoderSession, prompt: Sequence[int], request: GenerationRequest) -> int:
    """Tokens of prompt and text together, at most."""
    asked = session.limits.context if request.max_new_tokens is None else len(prompt) + request.max_new_tokens
    return min(session.limits.context, asked)


def _written(
    session: EncoderDecoderSession,
    source: Array,
    prompt: Sequence[int],
    rules: TokenRules,
    request: GenerationRequest,
    decode: Decode,
) -> Generator[str, None, Generation]:
    def read(_: Sequence[int]) -> int:
        """Read the source where ``pieces`` would restore a cache, so that its time counts."""
        session.read(source)
        return 0

    session.rules = rules
    made = yield from pieces(session, prompt, request, decode, prompt_cache=PromptCache(read))
    return replace(made, prompt_tokens=source.shape[-1])
