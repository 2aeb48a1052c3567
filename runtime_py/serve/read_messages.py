"""A request's messages as chat templates read them, and with what is among them as tokens."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock
from typing import Any, Final

from edgec.bundle.chat_template import Message
from edgec.bundle.limited_json import parse_json
from edgec.runtime_py.audio_language.prompt import SoundPrompt
from edgec.runtime_py.messages.message_format import ChatOptions
from edgec.runtime_py.model import Model
from edgec.runtime_py.serve.bodies import Said
from edgec.runtime_py.serve.content_parts import ContentPart, ImagePart, SoundPart
from edgec.runtime_py.serve.problems import malformed_body
from edgec.runtime_py.vision_language.processor import Prompt

Media = Prompt | SoundPrompt
# The pixels of one request at a time are in memory.
_MEDIA_TURN: Final = Lock()


def read_prompt(model: Model, said: Sequence[Said], chat_options: ChatOptions) -> tuple[Sequence[int], Media | None]:
    """The tokens of a conversation, and its images or its sounds.

    Raises:
        RequestError: E632, calls or results that have no place; E895, an image or a sound that is not in the request.
        InputError: as `MessageFormat.prompt`, `Model.encode_image_messages` or `Model.encode_audio_messages`.
    """
    images, sounds = _raw(said, ImagePart), _raw(said, SoundPart)
    messages = _messages(said, parts=bool(images or sounds))
    if not images and not sounds:
        return model.message_format.prompt(messages, chat_options, model.session.limits.context), None
    with _MEDIA_TURN:
        prompt: Media = (
            model.encode_image_messages(messages, images, chat_options)
            if images
            else model.encode_audio_messages(messages, sounds, chat_options)
        )
    return prompt.tokens, prompt


def _raw(said: Sequence[Said], kind: type[ImagePart] | type[SoundPart]) -> list[bytes]:
    parts = (part for one in said if isinstance(one.content, list) for part in one.content)
    return [part.raw() for part in parts if isinstance(part, kind)]


def _messages(said: Sequence[Said], *, parts: bool) -> list[Message]:
    """Messages as chat templates read them."""
    names: dict[str, str] = {}
    out: list[Message] = []
    for place, one in enumerate(said):
        content = _parts(one) if parts else _text(one)
        message: Message = {"role": "system" if one.role == "developer" else one.role, "content": content}
        if one.reasoning_content and one.role == "assistant":
            message["reasoning_content"] = one.reasoning_content
        if one.tool_calls:
            message["tool_calls"] = [
                _call(call.id, call.function.name, call.function.arguments) for call in one.tool_calls
            ]
            names |= {call.id: call.function.name for call in one.tool_calls}
        if one.role == "tool":
            if one.tool_call_id not in names:
                raise malformed_body(f"message {place} answers no call before it", "messages")
            message |= {"tool_call_id": one.tool_call_id, "name": names[one.tool_call_id]}
        out.append(message)
    return out


def _text(one: Said) -> str:
    if isinstance(one.content, str):
        return one.content
    return "".join(part.text for part in one.content or () if isinstance(part, ContentPart))


def _parts(one: Said) -> list[dict[str, str]]:
    """A content as a list of parts, in which an image or a sound has its place."""
    if not isinstance(one.content, list):
        return [{"type": "text", "text": one.content or ""}]
    return [_part(part) for part in one.content]


def _part(part: ContentPart | ImagePart | SoundPart) -> dict[str, str]:
    if isinstance(part, ContentPart):
        return {"type": "text", "text": part.text}
    return {"type": "image" if isinstance(part, ImagePart) else "audio"}


def _call(number: str, name: str, arguments: str) -> dict[str, Any]:
    try:
        held = parse_json(arguments.encode())
    except ValueError as cause:
        raise malformed_body(f"the arguments of {name!r:.60} are not JSON: {cause}", "messages") from cause
    if not isinstance(held, dict):
        raise malformed_body(f"the arguments of {name!r:.60} are not an object", "messages")
    return {"id": number, "type": "function", "function": {"name": name, "arguments": held}}
