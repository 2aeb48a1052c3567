"""What the samples of bundles differ in: pictures where the model takes images, recording where it takes audio."""

from __future__ import annotations

from collections.abc import Mapping

from edgec.apps.embed.app_facts import AppFacts
from edgec.apps.embed.kotlin_text import package_name

_NAMES = (
    *("sample_imports", "line_pictures", "state_pictures", "sent_pictures", "shown_pictures", "asked_pictures"),
    *("kept_pictures", "attach_picture", "picture_button", "picture_count"),
)
_NONE: Mapping[str, str] = dict.fromkeys(_NAMES, "")
_KOTLIN: Mapping[str, str] = {
    "line_pictures": ", val pictures: List<ModelImage> = listOf()",
    "state_pictures": ", val chosen: List<ModelImage> = listOf()",
    "sent_pictures": ", named(shown.value.chosen), shown.value.chosen",
    "shown_pictures": ", images = it.pictures",
    "asked_pictures": "messages.last().images, ",
    "attach_picture": """    /** A picture that the next message shows. */
    fun attach(picture: ModelImage) {
        if (shown.value.stage == Stage.Ready) shown.update { it.copy(chosen = it.chosen + picture) }
    }

    private fun named(pictures: List<ModelImage>) = "pictures: ${pictures.size}".takeIf { pictures.isNotEmpty() }

""",
    "picture_button": "\n        PictureButton(stage == Stage.Ready, chat::attach)",
    "picture_count": (
        '\n            if (state.chosen.isNotEmpty()) Text("Pictures with the next message: ${state.chosen.size}")'
    ),
}
_SWIFT: Mapping[str, str] = {
    "state_pictures": """
    /// The pictures that the next message shows.
    private(set) var chosen: [ModelImage] = []
    @ObservationIgnored private var pictures: [Int: [ModelImage]] = [:]""",
    "sent_pictures": """
        pictures[lines.count - 1] = chosen
        if !chosen.isEmpty { lines[lines.count - 1].note = "pictures: \\(chosen.count)" }
        chosen = []""",
    "shown_pictures": ", images: pictures[$0.id] ?? []",
    "asked_pictures": "images: messages.last?.images ?? [], ",
    "kept_pictures": "\n        pictures = [:]",
    "attach_picture": """    /// A picture that the next message shows.
    func attach(_ picture: ModelImage) {
        if stage == .ready { chosen.append(picture) }
    }

    /// What was chosen cannot be read.
    func cannotAttach(_ error: any Error) { notice = "The picture cannot be read: \\(error.localizedDescription)" }

""",
    "picture_button": "\n                PictureButton(chat: chat)",
    "picture_count": (
        "\n            if !chat.chosen.isEmpty {"
        '\n                Text("Pictures with the next message: \\(chat.chosen.count)").font(.caption)'
        "\n            }"
    ),
}


_CHAT = {"sample_label": "edgec chat", "sample_activity": "ChatActivity", "sample_permission": ""}
_TRANSCRIBE = {
    "sample_label": "edgec transcribe",
    "sample_activity": "TranscribeActivity",
    "sample_permission": '\n    <uses-permission android:name="android.permission.RECORD_AUDIO" />\n',
}
MICROPHONE: Mapping[str, str] = {
    "INFOPLIST_KEY_NSMicrophoneUsageDescription": "What you say is written down on this device.",
}
"""What an app that records states in its Info.plist."""


def kotlin_sample(facts: AppFacts) -> Mapping[str, str]:
    """The placeholders of the sample in Kotlin."""
    if facts.audio is not None:
        return _TRANSCRIBE
    if facts.vision is None:
        return {**_CHAT, **_NONE}
    package = package_name(facts.manifest.name)
    imports = f"\nimport {package}.ModelImage\nimport {package}.generate"
    return {**_CHAT, **_NONE, **_KOTLIN, "sample_imports": imports}


def swift_sample(facts: AppFacts) -> Mapping[str, str]:
    """The placeholders of the sample in Swift."""
    if facts.audio is not None:
        return {"sample_model": "TranscribeModel"}
    return {"sample_model": "ChatModel", **_NONE, **(_SWIFT if facts.vision is not None else {})}


def kotlin_sources(facts: AppFacts) -> tuple[str, ...]:
    """The folders of the sample's sources in Kotlin; none where there is no sample."""
    if facts.audio is not None:
        return ("sample/src/transcribe",)
    if facts.texts is None:
        return ()
    return ("sample/src/chat", *(("sample/src/vision",) if facts.vision is not None else ()))


def swift_sources(facts: AppFacts) -> tuple[str, tuple[str, ...]] | None:
    """The name of the sample's app in Swift, and the folders of its sources; None where there is no sample."""
    if facts.audio is not None:
        return "EdgecTranscribe", ("Sample/Shared", "Sample/EdgecTranscribe")
    if facts.texts is None:
        return None
    pictures = ("Sample/Vision",) if facts.vision is not None else ()
    return "EdgecChat", ("Sample/EdgecChat", "Sample/Shared", *pictures)
