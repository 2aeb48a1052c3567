"""Which token ids end a model's texts: decided here, at export, and written into the bundle's generation_config.json.

Published models name them in up to four places that need not agree: generation_config.json, config.json, the
tokenizer, and what the chat template writes after an answer. Every reader of a bundle takes what the export wrote.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import takewhile
from typing import Any, Final

from edgec.bundle.chat_template import render_messages
from edgec.bundle.generation_config import GenerationConfig
from edgec.errors import InputError

_KEY: Final = "eos_token_id"
_MOST: Final = (1 << 31) - 1
_MARK: Final = "\ue010answer\ue011"
_QUESTION: Final = {"role": "user", "content": "x"}
_TALK: Final = (_QUESTION, {"role": "assistant", "content": _MARK})


def end_tokens(config: GenerationConfig, tokenizer: Callable[[], Any] | None) -> tuple[int, ...]:
    """The ids that end a bundle's texts.

    Args:
        config: the bundle's.
        tokenizer: opens the bundle's; asked only where the config names no ids, as in bundles of earlier versions.
    """
    if config.eos_token_id is not None or tokenizer is None:
        return config.stop_tokens
    return _own(tokenizer())


def with_named_ends(generation_config: Mapping[str, Any], config: Mapping[str, Any]) -> dict[str, Any]:
    """A model's generation config with the ids of its config.json, where it names none itself.

    Args:
        generation_config: generation_config.json as written, or empty.
        config: config.json as written; a model of images or audio may name the ids in its ``text_config``.
    """
    if generation_config.get(_KEY) is not None:
        return dict(generation_config)
    nested = config.get("text_config")
    places = (config, nested if isinstance(nested, Mapping) else {})
    ids = next((ids for place in places if (ids := _ids(place.get(_KEY)))), ())
    return _with_ids(generation_config, ids)


def with_tokenizer_ends(generation_config: Mapping[str, Any], tokenizer: Any) -> dict[str, Any]:
    """A generation config with every id that ends a text of the model.

    A model of conversations also ends where its tokenizer's texts end, and where its chat template ends an answer;
    any other model only there where its config says so, or else its tokenizer.

    Args:
        generation_config: of the model, with what its config.json names.
        tokenizer: of transformers; None for none.
    """
    named = GenerationConfig.model_validate(generation_config)
    if tokenizer is None or (named.eos_token_id is not None and not _has_template(tokenizer)):
        return dict(generation_config)
    return _with_ids(generation_config, (*named.stop_tokens, *_own(tokenizer), *turn_ends(tokenizer)))


def turn_ends(tokenizer: Any) -> tuple[int, ...]:
    """The id of the token that a chat template writes at the end of an answer; none where it writes no token.

    It is the last of those that follow an answer both at the end of a conversation and before another question: what
    stands there only once begins the next message, or ends the whole.
    """
    if not _has_template(tokenizer):
        return ()
    try:
        last, inner = (
            render_messages(tokenizer, talk, answer=False).rpartition(_MARK)[2] for talk in (_TALK, (*_TALK, _QUESTION))
        )
    except InputError:  # it refuses such a conversation, which then ends as its config says
        return ()
    marks = {token.content: number for number, token in tokenizer.added_tokens_decoder.items()}
    pairs = zip(_leading(last, marks), _leading(inner, marks), strict=False)
    return tuple(marks[mark] for mark, _ in takewhile(lambda pair: pair[0] == pair[1], pairs))[-1:]


def _leading(text: str, marks: Iterable[str]) -> list[str]:
    """The tokens with which a text begins, with nothing but white space between them."""
    found: list[str] = []
    longest_first = sorted(filter(str.strip, marks), key=len, reverse=True)
    while (mark := next(filter(text.lstrip().startswith, longest_first), None)) is not None:
        found.append(mark)
        text = text.lstrip().removeprefix(mark)
    return found


def _has_template(tokenizer: Any) -> bool:
    return bool(getattr(tokenizer, "chat_template", None))


def _own(tokenizer: Any) -> tuple[int, ...]:
    return _ids(tokenizer.eos_token_id)


def _ids(value: Any) -> tuple[int, ...]:
    """The ids among what a file holds; some files hold -1 for none."""
    given = value if isinstance(value, list) else [value]
    return tuple(each for each in given if type(each) is int and 0 <= each <= _MOST)


def _with_ids(generation_config: Mapping[str, Any], ids: Iterable[int]) -> dict[str, Any]:
    """The config with ids in their order, each once; a single one as a number, as the files have it."""
    different = list(dict.fromkeys(ids))
    if not different:
        return dict(generation_config)
    return {**generation_config, _KEY: different[0] if len(different) == 1 else different}
