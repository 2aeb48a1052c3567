"""The parts of a message's content: text, and images and sounds that come with the request itself.

Nothing is fetched: an address would let whoever asks have the server visit machines that only it can reach.
"""

from __future__ import annotations

import binascii
import re
from base64 import b64decode
from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Field

from edgec.runtime_py.serve.problems import unusable_media
from edgec.runtime_py.serve.strict import MOST_TEXT, Strict

_MOST_ENCODED: Final = 1 << 30
_DATA: Final = re.compile(r"data:image/[a-z0-9.+-]{1,32};base64,", re.IGNORECASE)


class ContentPart(Strict):
    """A part of a message's content that is text."""

    type: Literal["text"]
    text: str = Field(max_length=MOST_TEXT)


class ImageAddress(Strict):
    """An image as a ``data:`` URL; how exactly it is looked at is the model's own choice."""

    url: str = Field(max_length=_MOST_ENCODED)
    detail: Any = None


class ImagePart(Strict):
    """An image, as chats have it."""

    type: Literal["image_url"]
    image_url: Annotated[ImageAddress, BeforeValidator(lambda held: {"url": held} if isinstance(held, str) else held)]

    def raw(self) -> bytes:
        """The bytes of its file.

        Raises:
            RequestError: E895, it is not in the request.
        """
        head = _DATA.match(self.image_url.url)
        if head is None:
            raise unusable_media("image_url", "it is not a data: URL with base64, and the server fetches nothing")
        return _decoded(self.image_url.url[head.end() :], "image_url")


class SoundData(Strict):
    """A WAV file in base64."""

    data: str = Field(max_length=_MOST_ENCODED)
    format: Literal["wav"]


class SoundPart(Strict):
    """A sound, as chats have it."""

    type: Literal["input_audio"]
    input_audio: SoundData

    def raw(self) -> bytes:
        """The bytes of its file; raises as `ImagePart.raw`."""
        return _decoded(self.input_audio.data, "input_audio")


MessagePart = Annotated[ContentPart | ImagePart | SoundPart, Field(discriminator="type")]
MessageParts = str | list[MessagePart]


def image_of(url: str) -> ImagePart:
    """An image that another protocol names by its URL."""
    return ImagePart(type="image_url", image_url=ImageAddress(url=url))


def _decoded(text: str, param: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except (binascii.Error, ValueError) as cause:
        raise unusable_media(param, f"it is not base64: {cause}") from cause
