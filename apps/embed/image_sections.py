"""What the READMEs of both platforms say of images, where the model takes images."""

from __future__ import annotations

from edgec.apps.embed.app_facts import AppFacts
from edgec.apps.embed.kotlin_text import package_name
from edgec.apps.embed.prompt_pieces import IMAGE

_KOTLIN = """
```kotlin
import {package}.generate

val image = EncodedImage(contentResolver, uri) // what a photo picker gave; also EncodedImage(file), BitmapImage, Pixels
model.generate("What is this?", images = listOf(image)).collect {{ print(it) }}
model.chat(listOf(ChatMessage(ChatMessage.Role.user, "What is this?", images = listOf(image)))).collect {{ print(it) }}
```
"""
_SWIFT = """
```swift
let image = ModelImage(data: data)  // what a photo picker gave; also (file:), (cgImage:), (width:height:rgb:)
for try await piece in model.generate(prompt: "What is this?", images: [image]) { print(piece, terminator: "") }
let asked = ChatMessage(.user, "What is this?", images: [image])
for try await piece in model.generate(messages: [asked]) { print(piece, terminator: "") }
```
"""
_SWIFT_ERRORS = "`EdgecError.imageRefused(.tooLarge, why:)`, `.animated`, `.unreadable`"
_IMAGES = """
## Images
{use}
An image takes {tokens:,} tokens of the context{grid}. Files are decoded by the system and turned as the camera noted;
transparency is dropped. Images come before the text of a prompt, unless it names their places by the model's
placeholder, `{placeholder}`. Above 100 million pixels, or where one side is over 100 times the other, an image is
refused before it is decoded, and so is an animated one: {errors}.
{talk}
"""
_TALK = """Messages of a conversation may show images, each of them in its own place. While the images stay the same,
they are read once, and the cache is kept."""
_FIRST = "The first message of a conversation may show images; in a later one they are refused ({refused})."
_NONE = "This model's chat template cannot be rendered with images in an app: {refused}. `generate` with a text works."


def kotlin_image_section(facts: AppFacts) -> str:
    """The Gradle modules' section on images; empty where the model does not see."""
    use = _KOTLIN.format(package=package_name(facts.manifest.name))
    return _section(facts, use, "`ImageTooLarge`, `ImageAnimated`, `ImageUnreadable`", "`MessageRefused`")


def swift_image_section(facts: AppFacts) -> str:
    """The Swift package's section on images; empty where the model does not see."""
    return _section(facts, _SWIFT, _SWIFT_ERRORS, "`EdgecError.messageRefused`")


def _section(facts: AppFacts, use: str, errors: str, refused: str) -> str:
    vision, plain = facts.vision, facts.replies.plain[0]
    if vision is None:
        return ""
    joins = plain.joins if plain is not None else {}
    shown = {kind for kind, following in joins if following == IMAGE}
    talk = _TALK if "assistant" in shown else _FIRST if shown else _NONE
    grid = ", or as many for each of the tiles that it is cut into" if vision.several_tiles else ""
    return _IMAGES.format(
        use=use,
        tokens=vision.tile_tokens,
        grid=grid,
        placeholder="".join(each for each in vision.placeholder if each.isprintable() and each != "`"),
        errors=errors,
        talk=talk.format(refused=refused),
    )
