"""The chat template of a speech-language model: the tokenizer's own, or that of its processor's class.

Qwen2-Audio's tokenizer was published with a template of texts alone; transformers keeps one with places for sounds in
its processor's class, as ``default_chat_template``.
"""

from __future__ import annotations

from typing import Any, Final

from edgec.bundle.chat_template import render_parts
from edgec.bundle.prefix import Files
from edgec.errors import EdgecError
from edgec.exporter.sources.multimodal.audio_input import AudioInput

_FILE: Final = "tokenizer/chat_template.jinja"


def teach_sounds(tokenizer: Any, audio: AudioInput) -> None:
    """Give a tokenizer the template of its model's processor, where its own has no place for a sound."""
    if audio.template and not _writes_sounds(tokenizer, audio.audio_token):
        tokenizer.chat_template = audio.template


def template_file(tokenizer: Any, audio: AudioInput | None) -> Files:
    """The file of a template that ``teach_sounds`` gave, by its path in the bundle; none where it gave none."""
    if audio is None or not audio.template or getattr(tokenizer, "chat_template", None) != audio.template:
        return {}
    return {_FILE: audio.template.encode()}


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
