"""A bundle's tokenizer from its tokenizer.json alone, without transformers, whose import takes longer than an answer.

An export writes a tokenizer.json that reads and writes the golden texts as transformers does with all the files
(`exporter/bundled_tokenizer.py`), and states the special tokens in tokenizer_config.json; so these two say everything
that generating text asks for. The object answers to the names that transformers' tokenizers have.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from edgec.bundle.limited_tokenizer import LimitedTokenizer
from edgec.bundle.tokenizer_checks import runs_quickly

FILE: Final = "tokenizer.json"
NAMED: Final = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
_FURTHER: Final = ("extra_special_tokens", "additional_special_tokens")
_TEMPLATE, _TEMPLATES = "chat_template.jinja", "additional_chat_templates"


class PlainTokenizer:
    """The tokenizers library's tokenizer, under the names of transformers.

    Attributes:
        backend_tokenizer: the library's object.
        special_tokens_map: the named special tokens by their names.
        chat_template: the template, several by name, or None.
    """

    truncation_side = "right"

    def __init__(self, backend: Any, config: Mapping[str, Any], chat_template: str | dict[str, str] | None) -> None:
        """Make one of what a folder holds."""
        self.backend_tokenizer, self.chat_template = backend, chat_template
        self.special_tokens_map = {name: text for name in NAMED if (text := _text(config.get(name))) is not None}
        further = [_text(each) for name in _FURTHER for each in _listed(config.get(name))]
        self._special = list(dict.fromkeys([*self.special_tokens_map.values(), *filter(None, further)]))

    def __call__(self, text: str, add_special_tokens: bool = True) -> dict[str, list[int]]:
        """The token ids of a text."""
        return {"input_ids": self.backend_tokenizer.encode(text, add_special_tokens=add_special_tokens).ids}

    def __len__(self) -> int:
        """The number of tokens, added ones included."""
        return int(self.backend_tokenizer.get_vocab_size(with_added_tokens=True))

    def decode(
        self, tokens: Sequence[int], skip_special_tokens: bool = False, clean_up_tokenization_spaces: bool = False
    ) -> str:
        """The text of token ids; edgec never cleans up."""
        assert not clean_up_tokenization_spaces
        return str(self.backend_tokenizer.decode(list(tokens), skip_special_tokens=skip_special_tokens))

    def get_chat_template(self, tools: Sequence[Any] | None = None) -> str:
        """The template that is used, where there are several.

        Raises:
            ValueError: there is none.
        """
        held = self.chat_template
        if isinstance(held, dict):
            held = held.get("tool_use" if tools is not None and "tool_use" in held else "default")
        if held is None:
            raise ValueError("the tokenizer has no chat template, or several and none is the default")
        return held

    def get_vocab(self) -> dict[str, int]:
        """The ids by token."""
        vocabulary: dict[str, int] = self.backend_tokenizer.get_vocab(with_added_tokens=True)
        return vocabulary

    def convert_tokens_to_ids(self, token: str) -> int | None:
        """The id of a token; the unknown token's where there is none, which may be none itself."""
        index = self.backend_tokenizer.token_to_id(token)
        result: int | None = self.unk_token_id if index is None else index
        return result

    @property
    def added_tokens_decoder(self) -> dict[int, Any]:
        """The added tokens by id."""
        added: dict[int, Any] = self.backend_tokenizer.get_added_tokens_decoder()
        return added

    @property
    def all_special_ids(self) -> list[int]:
        """The ids of all special tokens that have one."""
        ids = (self.backend_tokenizer.token_to_id(token) for token in self._special)
        return [index for index in ids if index is not None]

    def __getattr__(self, name: str) -> Any:
        """``bos_token``, ``bos_token_id`` and so on; None where there is none."""
        token = name.removesuffix("_id")
        if token not in NAMED:
            raise AttributeError(name)
        text = self.special_tokens_map.get(token)
        if token == name or text is None:
            return text
        return self.backend_tokenizer.token_to_id(text)


def plain_tokenizer(folder: Path, config: Mapping[str, Any]) -> PlainTokenizer:
    """Read a folder that was checked; a tokenizer that is not known to be quick runs in a process of its own.

    Args:
        folder: with a tokenizer.json.
        config: what its tokenizer_config.json holds.

    Raises:
        OSError: a file cannot be read.
        ValueError: it is damaged, or a text may grow beyond the limits.
    """
    from tokenizers import Tokenizer

    try:
        backend = Tokenizer.from_buffer((folder / FILE).read_bytes())
    except Exception as error:  # the library raises bare Exceptions on damaged files.
        raise ValueError(" ".join(str(error).split())[:300]) from error
    backend.no_truncation()
    backend.no_padding()
    quick = runs_quickly(backend)
    return PlainTokenizer(backend if quick else LimitedTokenizer(backend), config, _chat_template(folder, config))


def _chat_template(folder: Path, config: Mapping[str, Any]) -> str | dict[str, str] | None:
    """The files' templates, which come before the config's."""
    further = {file.stem: file.read_text(encoding="utf-8") for file in sorted((folder / _TEMPLATES).glob("*.jinja"))}
    own = folder / _TEMPLATE
    if own.is_file():
        text = own.read_text(encoding="utf-8")
        return {"default": text, **further} if further else text
    if further:
        return further
    held = config.get("chat_template")
    return {each["name"]: each["template"] for each in held} if isinstance(held, list) else held


def _text(token: Any) -> str | None:
    """A token's text, which may stand in an object with its flags."""
    held = token.get("content") if isinstance(token, Mapping) else token
    return held if isinstance(held, str) else None


def _listed(tokens: Any) -> list[Any]:
    """Tokens in a list, or by name."""
    return list(tokens.values()) if isinstance(tokens, Mapping) else tokens if isinstance(tokens, list) else []
