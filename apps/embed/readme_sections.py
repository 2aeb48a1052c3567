"""What the READMEs of both platforms have where it applies: schemas, replies, a pinned key, models of speech."""

from __future__ import annotations

from edgec.apps.embed.app_facts import AppFacts
from edgec.apps.embed.audio_facts import AudioFacts
from edgec.apps.embed.schema_constants import first_constant, kotlin_schemas, swift_schemas

_SWIFT_USE = """
```swift
struct Answer: Decodable, Sendable {{ /* the schema's properties */ }}

let answer = try await model.generate(prompt: "...", as: Answer.self, schema: .{constant})
for try await piece in model.generate(prompt: "...", schema: .{constant}) {{
    print(piece, terminator: "")
}}
```

The first call decodes the whole answer, the second gives its JSON piece by piece; `generate(messages:)` takes the
same arguments. Tokens that run out first leave the JSON unfinished: `lastFinish` is then `length` or `context`
instead of `complete` or `endOfText`, and the first call throws `answerUnfinished`. `EdgecError.schemaRefused` is
the error of a schema that cannot be used."""
_KOTLIN_USE = """
```kotlin
val json = model.generateJson("...", Schemas.{constant})
model.generate("...", schema = Schemas.{constant}).collect {{ print(it) }}
```

The first call returns the whole JSON, for the app's own parser, the second gives it piece by piece; `chatJson`
and `chat` take the same arguments. Tokens that run out first leave the JSON unfinished: `lastFinish` is then
`LENGTH` or `CONTEXT` instead of `COMPLETE` or `END_OF_TEXT`, and the first call throws `AnswerUnfinished`.
`SchemaRefused` is the error of a schema that cannot be used.

`model_json/` is a module apart that decodes such answers by kotlinx.serialization into a class with `@Serializable`
(the app applies the plug-in `org.jetbrains.kotlin.plugin.serialization`):
`model.generateValue<Answer>("...", Schemas.{constant})`, `chatValue` likewise. Leave it out for another parser."""
_SCHEMAS = """
## Schemas

The bundle ships JSON Schemas ({names}), and edgec's engine can hold answers to them: such an answer is JSON that
fulfils its schema.
{use}

A model does not see the schema: say in the prompt what the answer is to hold. Stop texts would cut an answer and
are refused.
"""
_NO_SCHEMAS = """
## Schemas

The bundle ships JSON Schemas ({names}), but only edgec's engine holds answers to them, and this artifact has
another runtime.
"""
_SWIFT_REPLY = """
```swift
for try await piece in model.reply(to: [ChatMessage(.user, "...")], thinkingBudget: 200) {
    if case .text(let text) = piece { print(text, terminator: "") }
}
let reply = await model.lastReply  // reasoning, text, calls, and the message for the conversation
```
"""
_KOTLIN_REPLY = """
```kotlin
model.reply(listOf(ChatMessage(ChatMessage.Role.user, "...")), thinkingBudget = 200).collect { piece ->
    if (piece is ReplyPiece.Text) print(piece.text)
}
val reply = model.lastReply // reasoning, text, calls, and the message for the conversation
```
"""
_REPLIES = """
## Reasoning and tools

`reply` tells the parts of an answer apart by the markers of the model's chat template, as they come.
{use}
{thinking}
{tools}
"""
_THINKING = """A budget closes the reasoning after exactly so many tokens; 0 switches it off where the template can,
and else closes it at once. The reasoning is held to nothing else."""
_NO_THINKING = (
    "This model's template has none of the markers of reasoning that edgec knows: a budget above 0 is refused."
)
_TOOLS = """The model sees these tools: {names}. After a reply with calls, put its message into the conversation,
then a message with the result of each call ({result}), and ask for the next reply. Arguments are JSON text.
{held} A call that the model opened and did not write is {error}, which has all of its text."""
_HELD = """edgec's engine holds calls to the tools: they fulfil the schemas. `toolChoice` says what the model may or
must call ({choices}); {once} allows one call at most."""
_NOT_HELD = "The model wrote them, and they are not held to the schema: check them."
_NO_TOOLS = "It calls no tools: `edgec embed --tools FILE` writes a package whose model may."
_KEY = """
## Signed bundles

A public key is pinned in this package (`{source}`; sha256 of its PEM text: `{sha256}`). `load()` also takes other
bundles that this key signed, from the folder in {options}, where they fit what this code was made for: newer
weights need no new app. Their signature is checked before anything in them is read. A signature has no date, so
older bundles pass too: the app decides what it downloads.
"""


def swift_schema_section(facts: AppFacts) -> str:
    """The Swift package's section on schemas; empty where the bundle has none."""
    return _schema_section(facts, _SWIFT_USE, swift_schemas(facts))


def kotlin_schema_section(facts: AppFacts) -> str:
    """The Gradle modules' section on schemas; empty where the bundle has none."""
    return _schema_section(facts, _KOTLIN_USE, kotlin_schemas(facts))


def swift_reply_section(facts: AppFacts) -> str:
    """The Swift package's section on replies; empty where the bundle has no conversations."""
    held = _HELD.format(choices='`.auto`, `.none`, `.required`, `.tool("...")`', once="`parallelCalls: false`")
    rendered = facts.has_chat_template or facts.replies.plain[0] is not None
    return (
        _reply_section(facts, _SWIFT_REPLY, "`ChatMessage(result:of:)`", "`EdgecError.malformedCall`", held)
        if rendered
        else ""
    )


def kotlin_reply_section(facts: AppFacts, has_chat: bool) -> str:
    """The Gradle modules' section on replies; empty where the bundle has no conversations an app can render."""
    if not has_chat:
        return ""
    choices = '`ToolChoice.AUTO`, `NONE`, `REQUIRED`, `ToolChoice.tool("...")`'
    held = _HELD.format(choices=choices, once="`parallelCalls = false`")
    return _reply_section(facts, _KOTLIN_REPLY, "`ChatMessage.result(call, text)`", "`MalformedCall`", held)


def _reply_section(facts: AppFacts, use: str, result: str, error: str, held: str) -> str:
    replies = facts.replies
    names = ", ".join(f"`{tool.name}`" for tool in replies.tools)
    return _REPLIES.format(
        use=use,
        thinking=_THINKING if replies.close_tokens else _NO_THINKING,
        tools=_TOOLS.format(names=names, result=result, error=error, held=held if replies.held else _NOT_HELD)
        if names
        else _NO_TOOLS,
    )


def _schema_section(facts: AppFacts, use: str, constants: str) -> str:
    names = ", ".join(f"`{name}`" for name in facts.manifest.schemas)
    if not names or facts.texts is None:
        return ""
    if not constants:
        return _NO_SCHEMAS.format(names=names)
    return _SCHEMAS.format(names=names, use=use.format(constant=first_constant(constants)))


def key_section(facts: AppFacts, source: str, options: str) -> str:
    """The section on the pinned key; empty where none is pinned.

    Args:
        facts: about the bundle.
        source: the file that holds the key.
        options: how the code gives a folder to `load()`.
    """
    if facts.key is None:
        return ""
    return _KEY.format(source=source, sha256=facts.key.fingerprint, options=options)


_SHOWN_LANGUAGES = 12


def audio_readme_values(audio: AudioFacts) -> dict[str, str]:
    """The placeholders about speech: rate, where the text is cut, and the languages."""
    seconds = audio.window_samples / audio.sampling_rate
    cut = "cut by the model's timestamps" if audio.timestamps else f"a segment for each window of {seconds:g} s"
    return {"sampling_rate": f"{audio.sampling_rate:,}", "cut": cut, "languages": _languages(audio.languages)}


def _languages(names: tuple[str, ...]) -> str:
    plain = [name for name in names if name.replace("-", "").isalnum()]
    if not plain:
        return "The model knows one language: give none."
    more = f" and {len(plain) - _SHOWN_LANGUAGES} more" if len(plain) > _SHOWN_LANGUAGES else ""
    return f"The model knows {', '.join(f'`{name}`' for name in plain[:_SHOWN_LANGUAGES])}{more}."
