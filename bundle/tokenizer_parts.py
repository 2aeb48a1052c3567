"""What the parts of a tokenizer.json may make of a text: bounds that are read from the file, before anything is run.

A part that replaces text may replace a character by thousands, and the next part each of these: three such normalizers
take all memory. Here the growths of parts that follow one another are multiplied.
"""

from __future__ import annotations

import unicodedata
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from edgec.bundle.charsmap import longest_replacement
from edgec.bundle.pattern_cost import CHEAP, pattern_work, shortest_match

MOST_GROWTH: Final = 256
MOST_ADDED_TOKENS: Final = 1 << 17
_MOST_FRAME: Final = 4096
Part = Mapping[str, Any]
_MEMBERS: Final = ("normalizers", "pretokenizers", "decoders", "processors")


def check_parts(parts: Part) -> bool:
    """Check a tokenizer's normalizer, pre-tokenizer, post-processor and decoder, as tokenizer.json has them.

    Returns:
        Whether all of them are known to be quick on any text; what is not must be run under limits.

    Raises:
        ValueError: a text may grow beyond the limits, or a part is damaged.
    """
    read = [one for name in ("normalizer", "pre_tokenizer") for one in _flat(parts.get(name))]
    written = list(_flat(parts.get("decoder")))
    framing = list(_flat(parts.get("post_processor")))
    for row in (read, written):
        _check_growth(row)
    if (frame := sum(map(_frame, framing))) > _MOST_FRAME:
        raise ValueError(f"its post_processor adds {frame:,} tokens; at most {_MOST_FRAME:,} are taken")
    known = all(one.get("type") in (_GROWTH | _FRAMES) for one in (*read, *written, *framing))
    return known and all(pattern_work(pattern) <= CHEAP for one in (*read, *written) for pattern in _patterns(one))


def check_added_tokens(count: int) -> None:
    """Refuse a tokenizer that would take minutes to open.

    Raises:
        ValueError: it has too many added tokens.
    """
    if count > MOST_ADDED_TOKENS:
        raise ValueError(f"it has {count:,} added tokens; at most {MOST_ADDED_TOKENS:,} are taken")


def _flat(part: Any) -> Iterator[Part]:
    """The parts of a part, in order."""
    pending = [part]
    while pending:
        one = pending.pop()
        if isinstance(one, list):
            pending.extend(reversed(one))
        elif isinstance(one, dict):
            members = [one[name] for name in _MEMBERS if name in one]
            if one.get("type") == "Sequence" or (members and "type" not in one):
                pending.extend(reversed(members))
            else:
                yield one
        elif one is not None:
            raise ValueError("a part of it is not an object")


def _check_growth(row: list[Part]) -> None:
    """Multiply the growths of parts, but for a text that is replaced and that nothing before it can have written."""
    growth, written, anything = 1.0, set[str](), False
    for one in row:
        factor = max(1.0, _GROWTH.get(_kind(one), _unchanged)(one))
        text = _replaced_text(one)
        growth = growth * factor if text is None or anything or written & set(text) else max(growth, factor)
        content = one.get("content")
        if isinstance(content, str):
            written |= set("".join(_forms(content)))
        anything |= factor > 1 and not isinstance(content, str)
    if growth > MOST_GROWTH:
        raise ValueError(
            f"its parts may make {growth:.3g} characters of one, at most {MOST_GROWTH} are taken: "
            + ", ".join(dict.fromkeys(map(_kind, row)))[:120]
        )


def _kind(part: Part) -> str:
    """A part's type; the library reads some parts without one by their fields."""
    return str(part.get("type") or next((kind for field, kind in _BY_FIELD.items() if field in part), "unknown"))


def _unchanged(_: Part) -> float:
    return 1.0


def _doubled(_: Part) -> float:
    return 2.0


def _replaced(part: Part) -> float:
    """A replacement's size for each character that it takes; where it takes none, it comes before every character."""
    pattern, size, text = part.get("pattern"), _size(part.get("content")), _replaced_text(part)
    expression = pattern.get("Regex") if isinstance(pattern, dict) else None
    least = len(text) if text is not None else shortest_match(expression) if isinstance(expression, str) else 0
    return size / least if least else 1.0 + size


def _replaced_text(part: Part) -> str | None:
    """The text that a part replaces, if it is one that is known."""
    pattern = part.get("pattern")
    text = pattern.get("String") if isinstance(pattern, dict) and "Regex" not in pattern else None
    return text if isinstance(text, str) and text and "content" in part else None


def _prepended(part: Part) -> float:
    return 1.0 + _size(part.get("prepend"))


def _precompiled(part: Part) -> float:
    held = part.get("precompiled_charsmap")
    if held is not None and not isinstance(held, str):
        raise ValueError("precompiled_charsmap is not text")
    return float(longest_replacement(b64decode(held or "", validate=True)))


def _size(text: Any) -> int:
    """Characters of a text after whatever parts that know letters may make of it."""
    if not isinstance(text, str):
        raise ValueError("a replacement is not text")
    return max(map(len, _forms(text)))


def _forms(text: str) -> tuple[str, str, str]:
    whole = unicodedata.normalize("NFKD", text)
    return text, whole, unicodedata.normalize("NFKD", whole.lower())


_BY_FIELD: Final = {"content": "Replace", "prepend": "Prepend", "precompiled_charsmap": "Precompiled"}
_GROWTH: Final[dict[str, Callable[[Part], float]]] = {
    **dict.fromkeys(("NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "Nmt", "Strip"), _unchanged),
    **dict.fromkeys(("Split", "Punctuation", "Whitespace", "WhitespaceSplit", "Digits"), _unchanged),
    **dict.fromkeys(("CharDelimiterSplit", "BertPreTokenizer", "UnicodeScripts", "FixedLength"), _unchanged),
    **dict.fromkeys(("ByteFallback", "Fuse"), _unchanged),
    # Bytes as characters of two bytes; a space before a word, or on both sides of a character.
    **dict.fromkeys(("ByteLevel", "Metaspace", "WordPiece", "BPEDecoder", "CTC"), _doubled),
    "BertNormalizer": lambda _: 3.0,
    "Replace": _replaced,
    "Prepend": _prepended,
    "Precompiled": _precompiled,
}
_FRAMES: Final = dict.fromkeys(("ByteLevel", "RobertaProcessing", "BertProcessing", "TemplateProcessing"))


def _frame(part: Part) -> int:
    """Tokens that a post-processor puts around a text."""
    if part.get("type") != "TemplateProcessing":
        return 4
    special = part.get("special_tokens")
    sizes = {name: len(one.get("ids", ())) for name, one in special.items()} if isinstance(special, dict) else {}
    pieces = [piece for name in ("single", "pair") for piece in part.get(name) or () if isinstance(piece, dict)]
    named = [piece["SpecialToken"] for piece in pieces if isinstance(piece.get("SpecialToken"), dict)]
    # A template that names the text itself several times copies it as often.
    copies = max(0, sum("Sequence" in piece for piece in pieces) - 3)
    return sum(sizes.get(str(one.get("id")), 1) for one in named) + _MOST_FRAME * copies


def _patterns(part: Part) -> Iterator[str]:
    """The regular expressions of a part; an empty text matches everywhere, as an empty one does."""
    pattern = part.get("pattern")
    if isinstance(pattern, dict):
        if "Regex" in pattern:
            yield str(pattern["Regex"])
        elif pattern.get("String") == "":
            yield ""
