"""Tools of an app: fixed when its package is written, as the chat template shows them, and refused where it cannot."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from edgec.devices.embed.embed import embed
from edgec.devices.embed.reply_facts import reply_facts
from edgec.errors import InputError
from tests.devices.embed.kotlin_bundles import byte_tokenizer_files
from tests.devices.embed.reply_talks import TEMPLATE, TOOLS, rendered, talking_bundle
from tests.runtime_py.messages.talk import NOW, WEATHER

COAT = {"role": "user", "content": "Coat?"}


def _tokenizer(folder: Path, template: str) -> Path:
    folder.mkdir()
    for name, content in byte_tokenizer_files(template).items():
        (folder / name).write_bytes(content)
    return folder


def test_a_package_holds_the_tools_and_says_how_to_use_them(tmp_path: Path) -> None:
    bundle = talking_bundle(tmp_path / "tiny.edgec")
    (tmp_path / "tools.json").write_text(json.dumps([WEATHER, NOW]))
    out = embed(bundle, "android", tmp_path / "with", tools=tmp_path / "tools.json").path
    (facts,) = out.rglob("ReplyFacts.kt")
    source = facts.read_text()
    assert 'mapOf<String, Set<String>>("weather" to setOf<String>("city", "unit"), "now" to setOf<String>())' in source
    assert "JsonCall(" in source and "The weather of a place." in source
    assert "`weather`, `now`" in (out / "README.md").read_text()
    without = embed(bundle, "android", tmp_path / "without").path
    (facts,) = without.rglob("ReplyFacts.kt")
    assert "val calls: CallNotation? = null" in facts.read_text() and "weather" not in facts.read_text()
    assert "--tools FILE" in (without / "README.md").read_text()


def test_the_facts_are_the_templates(tmp_path: Path) -> None:
    facts = reply_facts(_tokenizer(tmp_path / "words", TEMPLATE), TOOLS)
    assert facts.thinking is not None and facts.thinking.name == "think" and facts.switches == ("enable_thinking",)
    assert bytes(facts.close_tokens).decode() == "</think>"
    assert facts.calls is not None and facts.calls.name == "hermes"
    assert (facts.keeps_thought, facts.keeps_old_thought) == (True, False)
    variants: tuple[dict[str, bool], ...] = ({}, {"enable_thinking": True}, {"enable_thinking": False})
    for place, options in enumerate(variants):
        for prompts, tools in ((facts.plain, False), (facts.with_tools, True)):
            pieces = prompts[place]
            assert pieces is not None and pieces.render([("user", "Coat?")]) == rendered([COAT], tools, **options)


def test_tools_that_the_template_does_not_take_are_refused(tmp_path: Path) -> None:
    for place, (template, code) in enumerate(
        (
            ("{{ messages[0].content }}", "E760"),
            (TEMPLATE.replace("<tool_call>", "<call>").replace("</tool_call>", "</call>"), "E760"),
            (TEMPLATE.replace("<result>", "<result>{{ m.tool_call_id }}"), "E761"),
            (TEMPLATE.replace("{{- m.content }}", "<think></think>{{ m.content }}"), "E761"),
        )
    ):
        with pytest.raises(InputError, match=code):
            reply_facts(_tokenizer(tmp_path / str(place), template), TOOLS)
    bundle = talking_bundle(tmp_path / "tiny.edgec")
    with pytest.raises(InputError, match="E620"):
        embed(bundle, "android", tmp_path / "out", tools=[{"type": "retrieval"}])
    assert not (tmp_path / "out").exists()
