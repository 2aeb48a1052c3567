"""What LiteRT-LM must know of a model: tokens that begin and end texts, chat template, context, ways to choose."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from edgec.backends.litert.container import TOKENIZER, LanguageFacts, pack, unreadable_tokenizer
from edgec.bundle.chat_template import render_messages
from edgec.bundle.encoding import token_ids
from edgec.bundle.generation_config import GenerationConfig
from edgec.bundle.golden_texts import CHAT
from edgec.exporter.bundled_tokenizer import tokenizer_contents
from edgec.exporter.request import ExportRequest

PLAIN: Final = "{% for message in messages %}{{ message['content'] }}{% endfor %}"
"""The texts of a conversation one after the other, for models that have no chat template."""
_TEXTS: Final = (
    "{%- set own = namespace(all=[]) -%}{%- for message in messages -%}"
    "{%- if message['content'] is sequence and message['content'] is not string -%}"
    "{%- set said = namespace(text='') -%}"
    "{%- for part in message['content'] -%}{%- set said.text = said.text ~ part['text'] -%}{%- endfor -%}"
    "{%- set own.all = own.all + [{'role': message['role'], 'content': said.text}] -%}"
    "{%- else -%}{%- set own.all = own.all + [message] -%}{%- endif -%}"
    "{%- endfor -%}{%- set messages = own.all -%}"
)
"""LiteRT-LM hands templates lists of parts, of which most templates make nothing, or their notation: here, texts."""
_SPECIAL: Final = ("bos_token", "eos_token", "pad_token", "unk_token")
_CHOICE: Final = ("temperature", "top_k", "top_p")
_ANY: Final = "a"


def language_facts(request: ExportRequest) -> LanguageFacts:
    """The facts, as the model's own files and edgec's manifest have them."""
    tokenizer, given = request.tokenizer, request.source.generation_config
    template, begins = getattr(tokenizer, "chat_template", None), _beginning(request)
    own = template if isinstance(template, str) and template else PLAIN
    return LanguageFacts(
        begins=begins,
        ends=GenerationConfig.model_validate(given).stop_tokens,
        pad=getattr(tokenizer, "pad_token_id", None),
        context=request.limits.context,
        template=_TEXTS + _special(tokenizer, begins is not None) + own,
        sampling={name: float(given[name]) for name in _CHOICE if isinstance(given.get(name), int | float)},
        greedy=not given.get("do_sample", False),
    )


def _special(tokenizer: Any, begun: bool) -> str:
    """What a template knows of the tokenizer's own tokens, which LiteRT-LM does not tell it.

    ``begun``: it puts what begins a text before conversations, too, so that a template must not.
    """
    known = {**tokenizer.special_tokens_map, **({"bos_token": ""} if begun else {})}
    named = {name: str(known[name]) for name in _SPECIAL if known.get(name) is not None}
    return "".join(f"{{%- set {name} = {json.dumps(text, ensure_ascii=False)} -%}}" for name, text in named.items())


def _beginning(request: ExportRequest) -> int | None:
    """The id that LiteRT-LM puts before every prompt, text and conversation alike.

    None where the tokenizer puts none before a text, and where the model's conversations begin without it: LiteRT-LM
    has no other way to leave it out there, and conversations are what chat models were trained on.
    """
    own = text_beginning(request.tokenizer)
    return None if own is None or _begins_otherwise(request.tokenizer, own) else own


def text_beginning(tokenizer: Any) -> int | None:
    """The id that the tokenizer puts before every text."""
    with_mark, without = (token_ids(tokenizer, _ANY, special=special) for special in (True, False))
    own = with_mark[: len(with_mark) - len(without)]
    return own[0] if len(own) == 1 and with_mark[1:] == without else None


def _begins_otherwise(tokenizer: Any, own: int) -> bool:
    if not getattr(tokenizer, "chat_template", None):
        return False
    said = render_messages(tokenizer, CHAT[:1])
    return token_ids(tokenizer, said, special=False)[:1] != [own]


def pack_language(request: ExportRequest, model: Path, path: Path) -> None:
    """Write the ``.litertlm`` of a ``.tflite``.

    Raises:
        ToolError: E900, the packer is not installed.
    """
    content = tokenizer_steps(request)
    with TemporaryDirectory() as folder:
        steps = Path(folder) / TOKENIZER
        steps.write_bytes(content)
        pack(model, steps, language_facts(request), path)


def tokenizer_steps(request: ExportRequest) -> bytes:
    """The tokenizer.json that a bundle of this model has.

    Raises:
        InputError: E906, it has none.
    """
    files = tokenizer_contents(request.source.tokenizer_files, request.tokenizer)
    content = files.get(f"tokenizer/{TOKENIZER}")
    if request.tokenizer is None or content is None:
        raise unreadable_tokenizer(request.source.name)
    return content.read_bytes() if isinstance(content, Path) else content
