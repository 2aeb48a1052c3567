"""The golden vectors of a tokenizer and its chat template: texts and conversations that readers get wrong.

A text's vector pins its ids, what decoding them gives, and what a stream of pieces shows; a conversation's pins what
the chat template writes. ``edgec verify`` compares all of it, and an app at the first start of a bundle.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import cycle
from typing import Annotated, Any, Final

from pydantic import Field

from edgec.bundle.chat_template import render_messages
from edgec.bundle.encoding import decode_tokens, token_ids
from edgec.bundle.part import JsonPart, TokenId
from edgec.errors import InputError

# Hard for tokenizers: scripts, joined characters, spaces, code, the tokenizer's own markers.
TEXTS: tuple[tuple[str, str], ...] = (
    ("english", "The quick brown fox jumps over the lazy dog, doesn't it?"),
    ("contractions", "I'll say we've been here; they'd agree, it's 3 o'clock."),
    ("accents", "Élève naïve, façade, señor, Straße, Ångström, žluťoučký kůň"),
    ("combining accents", "e\u0301 is not \u00e9, n\u0303 is not \u00f1"),
    ("greek and cyrillic", "Καλημέρα κόσμε. Широкая электрификация южных губерний."),
    ("chinese", "今天天气很好，我们去公园散步吧。"),
    ("japanese", "吾輩は猫である。名前はまだ無い。カタカナも。"),
    ("korean", "안녕하세요, 반갑습니다. 오늘은 날씨가 좋네요."),
    ("arabic", "مرحبًا بالعالم، كيف حالك اليوم؟ ١٢٣"),
    ("hebrew", "שלום עולם, מה שלומך?"),
    ("hindi", "नमस्ते दुनिया, आप कैसे हैं?"),
    ("tamil and thai", "வணக்கம் உலகம். สวัสดีชาวโลก"),
    ("vietnamese", "Tiếng Việt có nhiều dấu thanh điệu."),
    ("emoji", "😀 👍🏽 👩‍👩‍👧‍👦 🇺🇳 ❤️"),
    ("code", "def f(x):\n    return {k: v**2 for k, v in x.items()}  # comment\n"),
    ("markup", '<a href="https://example.org/?q=1&r=%20">link</a> \\frac{1}{2} $x_1$'),
    ("numbers", "3.14159 1,000,000 2026-11-21 0x7f 1e-9 -42 ½ ²"),
    ("inner spaces", "two  spaces, three   spaces,\ttab,\u00a0no-break"),
    ("outer spaces", "  leading and trailing  "),
    ("newlines", "one\n\ntwo\r\nthree\n"),
    ("spaces only", "     "),
    ("markers as text", "<s> </s> <unk> <|endoftext|> <pad> [CLS] [MASK] ▁"),
    ("rare characters", "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 \u200b\ufeff \u202e ﷽ \U0001f9ff"),
    ("long word", "pneumonoultramicroscopicsilicovolcanoconiosis" * 2),
    ("repetition", "a" * 60),
    ("commands", "cp -r . .. ; sed 's/a/b/' x ? 'm ' n't 're , 've !"),
)

CHAT: tuple[dict[str, str], ...] = (
    {"role": "user", "content": "What is the capital of France?"},
    {"role": "assistant", "content": "Paris."},
    {"role": "user", "content": "And of Italy? "},
)

# Whatever an app may send; templates differ most where a conversation does not go question, answer, question.
SHAPES: Final[Mapping[str, str]] = {
    "question": "user",
    "system": "system user",
    "turns": "user assistant user assistant user",
    "turns after system": "system user assistant user assistant user",
    "answer last": "user assistant",
    "answer last after system": "system user assistant",
    "answer first": "assistant user",
    "answer alone": "assistant",
    "answer first after system": "system assistant user",
    "system alone": "system",
    "two systems": "system system user",
    "two questions": "user user",
    "two questions after system": "system user user assistant user",
    "two answers": "user assistant assistant user",
    "late system": "user assistant system user",
    "system last": "user assistant user system",
    "tool result": "user assistant tool assistant user",
}
MARKERS: Final = "<think>a</think> [INST] <<SYS>> <|im_end|> <|eot_id|> </s> <end_of_turn> {{ x }} {% if y %}"
CONTENTS: Final[Mapping[str, tuple[str, ...]]] = {
    "": ("Hello  there.", "Is it 5 o'clock?", "Yes, it is!", "a : b", "last"),
    "empty": ("",),
    "padded": (" padded \n", "\n\ttab", "\u00a0no-break ", "\u2028line\u2029", "\x1fseparated\x85"),
    "unicode": ("多言語 é", "e\u0301 👩‍👩‍👧‍👦", '"quoted" \\ back', "<b>&amp;</b>", "\r\n windows"),
    "markers": (MARKERS, f"x {MARKERS} y"),
}
GOLDEN_DAY, _OTHER_DAY = "2026-01-05T07:08:09", "2027-12-26T17:18:19"


class TextVector(JsonPart):
    """A text, its token ids with the tokenizer's own leading tokens, and whether decoding gives the text back.

    ``decoded``: what decoding gives without special tokens, where that is not the text. ``streamed``: what a stream of
    pieces shows of the same ids, where that is not what decoding gives. Bundles of earlier versions have neither.
    """

    label: str
    text: str
    ids: list[TokenId]
    round_trip: bool
    decoded: str | None = Field(default=None, exclude_if=lambda value: value is None)
    streamed: str | None = Field(default=None, exclude_if=lambda value: value is None)

    @property
    def shown(self) -> str | None:
        """What decoding gives; None where an earlier version did not say."""
        return self.text if self.round_trip else self.decoded

    @property
    def pieces(self) -> str | None:
        """What a stream shows; None likewise."""
        return self.shown if self.streamed is None else self.streamed


class ChatVector(JsonPart):
    """A conversation as the chat template renders it for an answer; ``dated``: on one day, and otherwise on others."""

    label: str = Field(default="chat", exclude_if=lambda value: value == "chat")
    messages: Annotated[list[dict[str, str]], Field(min_length=1)]
    rendered: str
    ids: list[TokenId]
    dated: bool = Field(default=False, exclude_if=lambda value: not value)

    @property
    def clock(self) -> str | None:
        """The time at which it is rendered; None: any."""
        return GOLDEN_DAY if self.dated else None


Streamed = Callable[[Callable[[list[int]], str], Sequence[int]], str]


def text_vectors(tokenizer: Any, streamed: Streamed | None = None) -> tuple[TextVector, ...]:
    """The vectors of `TEXTS`, through a transformers tokenizer; ``streamed`` shows ids in pieces by a way to decode."""
    return tuple(_text_vector(tokenizer, label, text, streamed) for label, text in TEXTS)


def _text_vector(tokenizer: Any, label: str, text: str, streamed: Streamed | None) -> TextVector:
    ids = token_ids(tokenizer, text)
    decoded = decode_tokens(tokenizer, ids)
    pieces = decoded if streamed is None else streamed(lambda some: decode_tokens(tokenizer, some), ids)
    return TextVector(
        label=label,
        text=text,
        ids=ids,
        round_trip=decoded == text,
        decoded=None if decoded == text else decoded,
        streamed=None if pieces == decoded else pieces,
    )


def chat_vector(tokenizer: Any) -> ChatVector | None:
    """The vector of `CHAT` through the tokenizer's chat template, or None where it has none."""
    if not getattr(tokenizer, "chat_template", None):
        return None
    return _chat_vector(tokenizer, "chat", CHAT)


def chat_vectors(tokenizer: Any) -> tuple[ChatVector, ...]:
    """A vector of each shape of `SHAPES`, but for those that the template refuses; none without a template."""
    if not getattr(tokenizer, "chat_template", None):
        return ()
    made = []
    for label, messages in _mixed():
        try:
            made.append(_chat_vector(tokenizer, label, messages))
        except InputError:  # it takes no such conversation, and whoever renders it has to say so as well
            continue
    return tuple(made)


def _mixed() -> Iterator[tuple[str, list[dict[str, str]]]]:
    """Every shape once, with contents of all kinds in turn."""
    contents = [texts[0] for texts in CONTENTS.values()]
    for place, (label, roles) in enumerate(SHAPES.items()):
        pairs = enumerate(roles.split())
        yield label, [{"role": role, "content": contents[(place + at) % len(contents)]} for at, role in pairs]


def conversations() -> Iterator[tuple[str, list[dict[str, str]]]]:
    """Conversations by their labels: every shape of `SHAPES` with every kind of `CONTENTS`."""
    for shape, roles in SHAPES.items():
        for kind, contents in CONTENTS.items():
            pairs = zip(roles.split(), cycle(contents), strict=False)
            yield f"{shape}, {kind}".rstrip(", "), [{"role": role, "content": text} for role, text in pairs]


def _chat_vector(tokenizer: Any, label: str, messages: Sequence[Mapping[str, str]]) -> ChatVector:
    text, other = (render_messages(tokenizer, messages, clock=day) for day in (GOLDEN_DAY, _OTHER_DAY))
    ids = token_ids(tokenizer, text, special=False)
    told = [dict(message) for message in messages]
    return ChatVector(label=label, messages=told, rendered=text, ids=ids, dated=text != other)
