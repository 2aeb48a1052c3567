"""The chat template of a speech-language model: the tokenizer's own, or that of its processor's class.

Qwen2-Audio's tokenizer was published with a template of texts alone; transformers keeps one with places for sounds in
its processor's class, as ``default_chat_template``.
"""

from __future__ import annotations

from typing import Any, Final

from edgec.bundle.chat_template import render_parts
from edgec.bundle.prefix import Files
from edgec.errors import EdgecError
from edgec.exporter.sources.ears import Ears

_FILE: Final = "tokenizer/chat_template.jinja"


def teach_sounds(tokenizer: Any, ears: Ears) -> None:
    """Give a tokenizer the template of its model's processor, where its own has no place for a sound."""
    if ears.template and not _writes_sounds(tokenizer, ears.audio_token):
        tokenizer.chat_template = ears.template


def template_file(tokenizer: Any, ears: Ears | None) -> Files:
    """The file of a template that ``teach_sounds`` gave, by its path in the bundle; none where it gave none."""
    if ears is None or not ears.template or getattr(tokenizer, "chat_template", None) != ears.template:
        return {}
    return {_FILE: ears.template.encode()}


def _writes_sounds(tokenizer: Any, audio_token: int) -> bool:
    """Whether a template writes one placeholder for the sound of a message."""
    if not getattr(tokenizer, "chat_template", None):
        return False
    parts = [{"type": "audio"}, {"type": "text", "text": "a"}]
    try:
        text = render_parts(tokenizer, [{"role": "user", "content": parts}])
    except EdgecError:
        return False
    return text.count(str(tokenizer.convert_ids_to_tokens(audio_token))) == 1
