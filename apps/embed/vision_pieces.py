"""What the Swift code of all decoders has in addition where the model takes images."""

from __future__ import annotations

from collections.abc import Mapping

from edgec.apps.embed.app_facts import AppFacts
from edgec.apps.embed.glue import ROW_INPUTS, Glue
from edgec.apps.embed.number_text import LONG_BITS
from edgec.apps.embed.swift_text import string
from edgec.apps.embed.vision_facts import vision_values

_WITHOUT_VISION: Mapping[str, str] = {
    "encode_messages": "tokenization.encode(afterSystemPrompt: messages)",
    "encode_pieces": "tokenization.encode(plain: try pieces.render(turns))",
    "unpieced": "tools",
    "opened_methods": "ModelFacts.methods",
    **dict.fromkeys(("begin_prompt", "begin_golden", "or_images", "render_images"), ""),
    **dict.fromkeys(("images_property", "images_parameter", "images_kept"), ""),
}
_WITH_VISION: Mapping[str, str] = {
    "encode_messages": "prompt(messages)",
    "encode_pieces": "try session.prompt(turns, pieces, tokenization)",
    "unpieced": "tools and images",
    # Its vision open the image encoder themselves; the decoder comes last.
    "opened_methods": "ModelFacts.methods.suffix(1)",
    "begin_prompt": "\n        try await session.begin(prompt, isolation: self)",
    "begin_golden": "\n        try await session.beginProbe(tokens, isolation: isolation)",
    "or_images": " || !$0.images.isEmpty",
    "images_property": (
        "\n    /// What a user's message shows, in front of its text.\n    public let images: [ModelImage]"
    ),
    "images_parameter": ", images: [ModelImage] = []",
    "images_kept": "\n        self.images = images",
    "render_images": (
        "\n            for _ in message.images {"
        '\n                text += try join(last, "image", "") + VisionFacts.placeholder'
        '\n                last = "image"'
        "\n            }"
    ),
}
# Of a decoder with static methods, which reads rows of images among its tokens.
_ROWS: Mapping[str, str] = {
    "vision_property": "\n    let vision: Vision",
    "vision_argument": ", bundle",
    "vision_parameter": ", _ bundle: CheckedBundle",
    "vision_opened": "\n        vision = try Vision(runtime, bundle)",
    "row_values": (
        "\n            if let values = vision.values(facts, start: start, count: last + 1) {"
        "\n                return try InputTensor(facts, values)"
        "\n            }"
    ),
    "row_inputs": "".join(f', "{name}"' for name in ROW_INPUTS),
}
_NO_ROWS: Mapping[str, str] = dict.fromkeys(_ROWS, "")


def swift_vision(facts: AppFacts, glue: Glue) -> Mapping[str, str]:
    """The placeholders of code that other decoders have, too, and those of the code of images."""
    if facts.vision is None:
        return {**_WITHOUT_VISION, **_NO_ROWS}
    return {**_WITH_VISION, **(_ROWS if glue.static else _NO_ROWS), **vision_values(facts.vision, LONG_BITS, string)}
