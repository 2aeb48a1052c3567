"""The parts of a tokenizer.json as steps that the app takes; unknown parts are refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from edgec.apps.embed.character_classes import Atom, character_map
from edgec.apps.embed.text_pattern import PatternParts, UnknownPattern, translated

Json = Mapping[str, Any]
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_FORMS = ("NFC", "NFD", "NFKC", "NFKD")
# Normalizers that look at one character at a time, whatever its neighbours are.
_MAPS = ("Lowercase", "Nmt")
# Chinese characters as the library's BertNormalizer lists them.
_CHINESE = (
    r"[一-\x{9FFF}㐀-\x{4DBF}\x{20000}-\x{2A6DF}\x{2A700}-\x{2B73F}\x{2B740}-\x{2B81F}\x{2B920}-\x{2CEAF}"
    r"\x{F900}-\x{FAFF}\x{2F800}-\x{2FA1F}]"
)
_BEHAVIOURS = {
    "Removed": "REMOVED",
    "Isolated": "ISOLATED",
    "MergedWithPrevious": "MERGED_WITH_PREVIOUS",
    "MergedWithNext": "MERGED_WITH_NEXT",
    "Contiguous": "CONTIGUOUS",
}


class UnknownPart(Exception):
    """A part of tokenizer.json that the app's tokenizer does not support."""


@dataclass(frozen=True)
class TokenizerStep:
    """One step of the app's tokenizer.

    Attributes:
        kind: the name of its class in the app's code.
        values: what it is made with, beside a pattern or a table of characters.
        pattern: that it looks for.
        table: of characters that it changes.
        inner: the step that it applies to the parts of a text.
    """

    kind: str
    values: Mapping[str, str | int | bool] = field(default_factory=dict)
    pattern: PatternParts | None = None
    table: str | None = None
    inner: TokenizerStep | None = None

    @property
    def whole_pattern(self) -> PatternParts:
        """The pattern that it or its inner step looks for; empty where there is none."""
        return self.pattern or (self.inner.whole_pattern if self.inner is not None else ())


def flat(part: Json | None, field: str) -> Iterator[Json]:
    """The part itself, or the parts of a ``Sequence``, in order."""
    if part is not None and part["type"] == "Sequence":
        for each in part[field]:
            yield from flat(each, field)
    elif part is not None:
        yield part


def normalizer(part: Json) -> list[TokenizerStep]:
    """The steps of one normalizer."""
    kind = part["type"]
    if kind in _FORMS:
        return [_unicode(kind)]
    if kind in _MAPS:
        return [_mapped(kind)]
    made = _NORMALIZERS.get(kind)
    if made is None:
        raise UnknownPart(f"the normalizer {kind}")
    return made(part)


def splitter(part: Json) -> list[TokenizerStep]:
    """The steps of one pre-tokenizer."""
    made = _SPLITTERS.get(part["type"])
    if made is None:
        raise UnknownPart(f"the pre-tokenizer {part['type']}")
    return made(part)


def decoder(part: Json) -> list[TokenizerStep]:
    """The steps of one decoder."""
    made = _DECODERS.get(part["type"])
    if made is None:
        raise UnknownPart(f"the decoder {part['type']}")
    return made(part)


def _mapped(kind: str) -> TokenizerStep:
    from tokenizers import normalizers

    return TokenizerStep("CharacterMap", table=character_map(getattr(normalizers, kind)().normalize_str))


def _unicode(form: str) -> TokenizerStep:
    return TokenizerStep("UnicodeForm", {"form": form})


def _replaced(new: str, pattern: PatternParts) -> TokenizerStep:
    return TokenizerStep("ReplacePattern", {"new": new}, pattern)


def _dropped(kind: str) -> TokenizerStep:
    return _replaced("", (Atom(kind),))


def _bert_normalizer(part: Json) -> list[TokenizerStep]:
    steps = []
    if part["clean_text"]:
        steps += [_dropped("unclean"), _replaced(" ", (Atom("space"),))]
    if part["handle_chinese_chars"]:
        steps.append(TokenizerStep("SpacesAround", pattern=_pattern(_CHINESE)))
    if part["lowercase"] if part["strip_accents"] is None else part["strip_accents"]:
        steps += [_unicode("NFD"), _dropped("nonspacing")]
    return [*steps, _mapped("Lowercase")] if part["lowercase"] else steps


def _replace(part: Json) -> list[TokenizerStep]:
    if "String" in part["pattern"]:
        return [TokenizerStep("ReplaceText", {"old": part["pattern"]["String"], "new": part["content"]})]
    return [_replaced(part["content"], _pattern(part["pattern"]["Regex"]))]


def _strip(part: Json) -> list[TokenizerStep]:
    return [TokenizerStep("StripSpaces", {"left": bool(part["strip_left"]), "right": bool(part["strip_right"])})]


_NORMALIZERS: Mapping[str, Callable[[Json], list[TokenizerStep]]] = {
    "BertNormalizer": _bert_normalizer,
    "StripAccents": lambda _: [_dropped("accent")],
    "Replace": _replace,
    "Prepend": lambda part: [TokenizerStep("Prepend", {"beginning": part["prepend"]})],
    "Strip": _strip,
    "ByteLevel": lambda _: [TokenizerStep("BytesAsCharacters")],
}


def _split(pattern: PatternParts, behaviour: str = "Isolated", inverted: bool = False) -> TokenizerStep:
    if behaviour not in _BEHAVIOURS:
        raise UnknownPart(f"the behaviour {behaviour}")
    return TokenizerStep("Split", {"matches": _BEHAVIOURS[behaviour], "inverted": inverted}, pattern)


def _pattern(written: str) -> PatternParts:
    try:
        return translated(written)
    except UnknownPattern as error:
        raise UnknownPart(f"{error} in the regular expression {written[:80]!r}") from error


def _written(pattern: Json) -> PatternParts:
    """The pattern of a ``Split``, written as a text or a regular expression."""
    if "String" in pattern:
        return tuple(Atom("character", character) for character in pattern["String"])
    return _pattern(pattern["Regex"])


def _byte_level(part: Json) -> list[TokenizerStep]:
    leading = [TokenizerStep("LeadingSpace")] if part["add_prefix_space"] else []
    words = [_split(_pattern(GPT2))] if part["use_regex"] else []
    return [*leading, *words, TokenizerStep("OnEachPart", inner=TokenizerStep("BytesAsCharacters"))]


def _metaspace(part: Json) -> list[TokenizerStep]:
    scheme, splits = part["prepend_scheme"].upper(), bool(part["split"])
    return [TokenizerStep("Metaspace", {"space": part["replacement"], "prepended": scheme, "splits": splits})]


def _digits(part: Json) -> list[TokenizerStep]:
    return [_split((Atom("numeric"),), "Isolated" if part["individual_digits"] else "Contiguous")]


_SPACES, _PUNCTUATION = (Atom("space"),), (Atom("punctuation"),)
_SPLITTERS: Mapping[str, Callable[[Json], list[TokenizerStep]]] = {
    "ByteLevel": _byte_level,
    "Metaspace": _metaspace,
    "Digits": _digits,
    "Split": lambda part: [_split(_written(part["pattern"]), part["behavior"], part["invert"])],
    "Punctuation": lambda part: [_split(_PUNCTUATION, part["behavior"])],
    "WhitespaceSplit": lambda _: [_split(_SPACES, "Removed")],
    "BertPreTokenizer": lambda _: [_split(_SPACES, "Removed"), _split(_PUNCTUATION)],
    "CharDelimiterSplit": lambda part: [_split((Atom("character", part["delimiter"]),), "Removed")],
}


def _metaspace_decoder(part: Json) -> list[TokenizerStep]:
    drops = part["prepend_scheme"] != "never"
    return [TokenizerStep("MetaspaceAsSpace", {"space": part["replacement"], "dropsFirst": drops})]


def _strip_decoder(part: Json) -> list[TokenizerStep]:
    sides = {"start": int(part["start"]), "end": int(part["stop"])}
    return [TokenizerStep("StripCharacter", {"character": part["content"], **sides})]


_DECODERS: Mapping[str, Callable[[Json], list[TokenizerStep]]] = {
    "ByteLevel": lambda _: [TokenizerStep("CharactersAsBytes")],
    "ByteFallback": lambda _: [TokenizerStep("ByteFallback")],
    "Fuse": lambda _: [TokenizerStep("Fuse")],
    "Replace": lambda part: [TokenizerStep("InEachToken", inner=each) for each in _replace(part)],
    "Strip": _strip_decoder,
    "Metaspace": _metaspace_decoder,
    "WordPiece": lambda part: [TokenizerStep("WordPieces", {name: part[name] for name in ("prefix", "cleanup")})],
    "BPEDecoder": lambda part: [TokenizerStep("WordEnds", {"suffix": part["suffix"]})],
}
