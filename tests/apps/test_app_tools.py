"""Tools of an app: fixed when its package is written, as the chat template shows them, and refused where it cannot."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from edgec.apps.embed.constrained_calls import VOCABULARY, ConstrainedCalls, HoldCalls
from edgec.apps.embed.embed import embed
from edgec.apps.embed.gradle_modules import gradle_modules
from edgec.apps.embed.reply_facts import reply_facts
from edgec.apps.embed.swift_package import swift_package
from edgec.apps.embed.written_package import AppPackage
from edgec.bundle.folder import Bundle
from edgec.bundle.tools import Tool
from edgec.errors import InputError
from tests.apps.android_bundles import CPU, tokenizer_config
from tests.apps.ios_bundles import bundle_of, decoder_manifest
from tests.apps.kotlin_bundles import byte_tokenizer_files
from tests.apps.project_files import facts_of
from tests.apps.reply_talks import TEMPLATE, TOOLS, rendered, talking_bundle
from tests.runtime_py.messages.talk import NOW, WEATHER

COAT = {"role": "user", "content": "Coat?"}


def _tokenizer(folder: Path, template: str) -> Path:
    folder.mkdir()
    for name, content in byte_tokenizer_files(template).items():
        (folder / name).write_bytes(content)
    return folder


@pytest.mark.long
def test_a_package_holds_the_tools_and_says_how_to_use_them(tmp_path: Path) -> None:
    bundle = talking_bundle(tmp_path / "tiny.edgec")
    (tmp_path / "tools.json").write_text(json.dumps([WEATHER, NOW]))
    out = embed(bundle, "android", tmp_path / "with", tools=tmp_path / "tools.json").path
    (path,) = out.rglob("facts.json")
    facts = json.loads(path.read_text())["replies"]
    assert facts["tools"] == {"weather": ["city", "unit"], "now": []}
    assert facts["calls"]["body"]["kind"] == "json" and "The weather of a place." in str(facts["withTools"])
    assert "`weather`, `now`" in (out / "README.md").read_text()
    without = embed(bundle, "android", tmp_path / "without").path
    (path,) = without.rglob("facts.json")
    assert json.loads(path.read_text())["replies"]["calls"] is None and "weather" not in path.read_text()
    assert "--tools FILE" in (without / "README.md").read_text()


@pytest.mark.long
@pytest.mark.parametrize("platform", ["ios", "android"])
def test_calls_are_held_where_edgecs_engine_executes_the_bundle(platform: str, tmp_path: Path) -> None:
    asked = list[str]()

    def hold(bundle: Bundle, tools: Sequence[Tool]) -> ConstrainedCalls:
        asked.append(bundle.manifest.name)
        return ConstrainedCalls({"0.grammar": b"x", VOCABULARY: b"y"}, {"auto": "0.grammar"})

    for artifact in (b"EdgecLinear", b"XnnpackBackend"):
        own = artifact == b"EdgecLinear"
        package = _package(platform, tmp_path / artifact.decode(), artifact, hold)
        shipped = {path.rpartition("/")[2]: path for path in package.files if "calls/" in path and "swift" not in path}
        assert set(shipped) == ({"0.grammar", VOCABULARY} if own else set())
        facts = str(facts_of(package)["replies"])
        assert ("0.grammar" in facts) == own and (hashlib.sha256(b"y").hexdigest() in facts) == own
        readme = package.files["README.md"]
        assert isinstance(readme, bytes) and (b"engine holds calls to the tools" in readme) == own
        assert (b"not held to the schema" in readme) != own
        if platform == "ios":
            manifest = package.files["Package.swift"]
            assert isinstance(manifest, bytes) and (b'"calls"]' in manifest) == own
    assert len(asked) == 1


def _package(platform: str, folder: Path, artifact: bytes, hold: HoldCalls) -> AppPackage:
    """The package of a bundle whose artifact names the runtime that it needs, with tools."""
    manifest = CPU if platform == "android" else decoder_manifest("pte-cpu")
    own = {"tokenizer/tokenizer.json": byte_tokenizer_files(TEMPLATE)["tokenizer.json"]}
    own["tokenizer/tokenizer_config.json"] = tokenizer_config(TEMPLATE)
    bundle = bundle_of(manifest, folder, {**own, manifest.artifact: artifact})
    return (
        gradle_modules(bundle, tools=TOOLS, hold=hold)
        if platform == "android"
        else swift_package(bundle, None, TOOLS, hold)
    )


def test_the_facts_are_the_templates(tmp_path: Path) -> None:
    facts = reply_facts(_tokenizer(tmp_path / "words", TEMPLATE), TOOLS)
    assert facts.thinking is not None and facts.thinking.name == "think" and facts.switches == ("enable_thinking",)
    assert (bytes(facts.open_tokens).decode(), bytes(facts.close_tokens).decode()) == ("<think>", "</think>")
    assert facts.heads == ((), ()) and facts.held is None
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
