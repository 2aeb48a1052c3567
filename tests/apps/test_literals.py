"""Odd values in Swift and Kotlin source: each becomes a literal of its type, or is refused."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest

from edgec.apps.embed import kotlin_text, swift_text
from edgec.apps.embed.gradle_modules import gradle_modules
from edgec.apps.embed.number_types import INT_BITS, integer, integers, single
from edgec.apps.embed.swift_package import swift_package
from edgec.errors import InputError
from tests.apps.android_bundles import CPU, android_bundle
from tests.apps.ios_bundles import bundle_of, decoder_manifest
from tests.apps.project_files import facts_of
from tests.apps.swift_syntax import faults

NO_INTEGERS = [True, False, 1.0, math.nan, math.inf, None, "7", [7], 2**63, -(2**63) - 1, 10**5000]
NO_FLOATS = [
    True,
    None,
    "1",
    [1.0],
    math.nan,
    math.inf,
    -math.inf,
    1e400,
    1e39,
    -1e300,
    1e-50,
    10**400,
    {"a": "b" * 999},
]
ODD_TEXTS = [
    '"',
    '\\("x")',
    "${x}",
    "$x",
    "\n",
    "\r\n",
    "\u2028",
    "\ud800",
    "\\u{41}",
    "\\u0041",
    "\0",
    "\U0001f600",
    '"""',
    "@@",
]


@pytest.mark.parametrize("value", NO_INTEGERS, ids=lambda value: str(type(value)))
def test_other_values_have_no_integer_literal(value: Any) -> None:
    with pytest.raises(InputError) as caught:
        integer("eos_token_id", value)
    assert caught.value.code == "E469" and caught.value.where == "eos_token_id" and len(caught.value.why) < 120


@pytest.mark.parametrize("value", NO_FLOATS, ids=lambda value: str(type(value)))
def test_values_that_are_not_32_bit_floats_have_no_literal(value: Any) -> None:
    with pytest.raises(InputError) as caught:
        single("repetition_penalty", value)
    assert caught.value.code == "E469" and len(caught.value.why) < 120


def test_numbers_are_written_as_they_are() -> None:
    numbers = [0, -1, 2**63 - 1, -(2**63)]
    assert integers("ids", numbers) == numbers
    assert [single("x", value) for value in (1, 1.1, 1e-05, 3e38, 0, -0.5)] == [1.0, 1.1, 1e-05, 3e38, 0.0, -0.5]
    with pytest.raises(InputError):
        integer("context", 2**31, INT_BITS)


@pytest.mark.parametrize("text", ODD_TEXTS, ids=ascii)
def test_texts_are_written_as_they_are(text: str) -> None:
    """The text becomes one literal that holds the same text and nothing that its language would interpolate."""
    whole = re.sub("[\ud800-\udfff]", "\ufffd", text)
    swift, kotlin = swift_text.string(text), kotlin_text.string(text)
    assert not faults(f"let text = {swift}")
    for literal, escape in ((swift, r"\\u\{([0-9A-F]+)\}"), (kotlin, r"\\u([0-9A-F]{4})")):
        inside = re.fullmatch(rf'"((?:[^"\\\n]|{escape})*)"', literal)
        assert inside is not None and literal.isascii()
        units = re.sub(escape, lambda match: chr(int(match[1], 16)), inside[1])
        assert units.encode("utf-16", "surrogatepass").decode("utf-16") == whole
    assert "$" not in kotlin


CONFIGS = [
    '{"repetition_penalty": NaN}',
    '{"repetition_penalty": Infinity}',
    '{"repetition_penalty": 1e400}',
    '{"repetition_penalty": 1e-60}',
    '{"eos_token_id": true}',
    '{"eos_token_id": 18446744073709551616}',
]


def _facts(platform: str, config: str, folder: Path) -> Any:
    """The facts that hold stop tokens and penalty."""
    extra = {"generation_config.json": config.encode()}
    bundle = (
        bundle_of(decoder_manifest("mlpackage"), folder, extra) if platform == "ios" else android_bundle(folder, CPU)
    )
    (folder / "generation_config.json").write_text(config)
    return facts_of(swift_package(bundle) if platform == "ios" else gradle_modules(bundle))["decoder"]


@pytest.mark.parametrize("platform", ["ios", "android"])
@pytest.mark.parametrize("config", CONFIGS)
def test_an_odd_generation_config_is_refused(platform: str, config: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        _facts(platform, config, tmp_path)
    assert caught.value.code in ("E463", "E469")


@pytest.mark.parametrize("platform", ["ios", "android"])
def test_a_generation_config_is_among_the_facts(platform: str, tmp_path: Path) -> None:
    facts = _facts(platform, json.dumps({"eos_token_id": [2, 7], "repetition_penalty": 1.25}), tmp_path)
    assert (facts["stopTokens"], facts["repetitionPenalty"]) == ([2, 7], 1.25)


@pytest.mark.parametrize("platform", ["ios", "android"])
def test_limits_beyond_the_type_are_refused(platform: str, tmp_path: Path) -> None:
    manifest = decoder_manifest("pte-cpu")
    assert manifest.limits is not None
    limits = manifest.limits.model_copy(update={"context": 2**63})
    with pytest.raises(InputError) as caught:
        if platform == "ios":
            swift_package(bundle_of(manifest.model_copy(update={"limits": limits}), tmp_path))
        else:
            gradle_modules(android_bundle(tmp_path, CPU, limits=limits))
    assert caught.value.code == "E469" and caught.value.where == "context"
