"""Model cards: they say what the manifest says, the hub can index them, and nothing in a manifest becomes markup."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from markdown_it import MarkdownIt

from edgec.bundle.findings import Delegation, DeviceCheck, Fallback, LintFinding
from edgec.bundle.hub.address import HubAddress
from edgec.bundle.manifest import Build, Manifest, ModelInfo, Runtime
from edgec.errors import InputError
from edgec.exporter.publish.card import MARK, model_card_of
from edgec.exporter.publish.markdown import code, plain, table
from edgec.runtime_py.runners.executorch_llm import runner_name
from tests.bundle.bundle_samples import PARITY, sample_manifest

ADDRESS = HubAddress("max/tiny")
COMMIT = "0123456789abcdef0123456789abcdef01234567"


def model(**fields: Any) -> ModelInfo:
    known = {"name": "tiny", "source": "models/tiny", "family": "llama", "parameters": 1000, "licence": "mit"}
    return ModelInfo.model_validate(known | fields)


def header(manifest: Manifest, base: str | None = None) -> dict[str, Any]:
    text = model_card_of(manifest, ADDRESS, base)
    assert text.startswith("---\n")
    fields = yaml.safe_load(text[4:].partition("\n---\n")[0])
    assert isinstance(fields, dict)
    return fields


def rendered(text: str) -> str:
    """What a reader of the page sees as HTML; raw HTML in the text would pass through."""
    return str(MarkdownIt("commonmark", {"html": True}).enable("table").render(text.partition("\n---\n")[2]))


def test_the_header_names_what_the_hub_indexes() -> None:
    source = model(source="Qwen/Qwen3-0.6B", revision=COMMIT, licence="Apache-2.0")
    fields = header(sample_manifest(model=source))
    assert fields == {
        "library_name": "edgec",
        "base_model": "Qwen/Qwen3-0.6B",
        "base_model_relation": "quantized",
        "license": "apache-2.0",
        "pipeline_tag": "text-generation",
        "tags": ["edgec", "on-device", "executorch", "float", "llama"],
    }


def test_a_folder_that_is_named_like_an_id_is_not_a_base_model() -> None:
    manifest = sample_manifest(model=model(source="examples/tiny-stories"))
    assert "base_model" not in header(manifest)
    assert header(manifest, "max/tiny-float")["base_model"] == "max/tiny-float"
    with pytest.raises(InputError, match="E873"):
        header(manifest, "no id\nlicense: mit")


def test_a_licence_that_the_hub_does_not_know_has_a_name() -> None:
    fields = header(sample_manifest(model=model(licence="see LICENSE, Acme v2")))
    assert (fields["license"], fields["license_name"]) == ("other", "see-license-acme-v2")
    assert "license" not in header(sample_manifest(model=model(licence=None)))


def test_a_task_that_the_hub_has_no_pipeline_for_is_left_out() -> None:
    assert "pipeline_tag" not in header(sample_manifest(model=model(task="module")))


def test_the_page_has_the_ladder_the_sizes_and_what_was_executed() -> None:
    added = {"stage": runner_name("TextLLMRunner"), "reference": "artifact", "in_words": True, "note": "48 tokens"}
    words = PARITY[2].model_copy(update=added)
    ran = PARITY[2].model_copy(update={"note": "executed by ExecuTorch on this machine"})
    page = rendered(model_card_of(sample_manifest(parity=[*PARITY[:2], ran, PARITY[3], words]), ADDRESS))
    assert page.partition("Parity ladder</h2>")[2].partition("</table>")[0].count("<tr>") == len(PARITY) + 2
    for told in (
        "1,402,880 bytes (measured)",
        "0.021",
        "95.3 %",
        "quality: passed",
        "artifact, against quantize: executed by ExecuTorch on this machine.",
        "edgec run hub:max/tiny -p",
        "512 tokens",
        f"In {runner_name('TextLLMRunner')}",
    ):
        assert told in page, told


def test_what_was_not_executed_is_told() -> None:
    build = Build(created="2026-11-21T13:00:00Z", not_emulated="qemu is not installed")
    checks = [
        DeviceCheck(name="compile", status="passed", machine="a Mac"),
        DeviceCheck(name="predict", status="not run", note="there is no phone"),
    ]
    runtime = Runtime(name="coremltools", version="9.0", backends=["CoreML"], operators=[])
    text = model_card_of(
        sample_manifest(
            parity=PARITY[:2],
            build=build,
            device_checks=checks,
            runtime=runtime,
            target="iphone-16-pro",
            format="mlpackage",
            delegation=Delegation(
                backend="coreml",
                delegates=1,
                delegated_operators=9,
                delegated_share=0.9,
                fallbacks=[Fallback(operator="sort", count=1, reason="no such operator", share=0.1)],
            ),
        ),
        ADDRESS,
    )
    done, _, missing = text.partition("Not executed:")
    assert "compile on a Mac: passed." in done and "compile on a Mac" not in missing
    for told in ("the compiled program was not executed", "there is no phone", "qemu is not installed", "no speed is"):
        assert told in missing, told
    assert "edgec's interpreter of Core ML programs" in missing and "--platform ios" in text and "android" not in text
    assert "10.0 % of the arithmetic runs outside the accelerator: sort, no such operator." in text
    assert f"In {runner_name('TextLLMRunner')}" not in text and "In Core ML, without" in text


def test_a_missed_rung_and_random_weights_stand_out() -> None:
    missed = PARITY[3].model_copy(update={"passed": False})
    text = model_card_of(sample_manifest(parity=[missed], model=model(trained=False)), ADDRESS)
    assert "quality: **missed**" in text and "weights are random" in text
    assert "50 more are in the manifest" in model_card_of(sample_manifest(parity=[missed] * 250), ADDRESS)
    assert "Nothing was compared" in model_card_of(sample_manifest(parity=[]), ADDRESS)


def test_the_path_of_a_folder_is_not_told() -> None:
    assert "/home/max" not in model_card_of(sample_manifest(model=model(source="/home/max/secret/tiny")), ADDRESS)


NASTY = [
    "<script>alert(1)</script>",
    "[click](https://evil.example)",
    "![picture](https://evil.example/x.png)",
    "https://evil.example www.evil.example max@evil.example @everyone",
    "# heading\n\n---\nlicense: mit\n---\n",
    "a | b | c",
    "`code` ``more`` \\` end\\",
    "*bold* __under__ ~~gone~~ $x^2$ <!-- hidden -->",
    "\u202eright to left\x1b[31m\0",
    "x" * 100_000,
]


@pytest.mark.parametrize("nasty", NASTY, ids=range(len(NASTY)))
def test_no_text_of_a_manifest_becomes_markup(nasty: str) -> None:
    rung = PARITY[2].model_copy(update={"stage": f"artifact {nasty}", "reference": nasty, "note": nasty})
    plain_page = rendered(model_card_of(hostile("word", PARITY[2].model_copy(update={"note": "word"})), ADDRESS))
    page = rendered(model_card_of(hostile(nasty, rung), ADDRESS))
    for tag in ("<a ", "<img", "<script", "<h1", "<h2", "<h3", "<hr", "<del", "<td", "<tr", "<li", "<!--", "<strong"):
        assert page.count(tag) == plain_page.count(tag), tag
    assert "\x1b" not in page and "\u202e" not in page and len(page) < 60_000


def hostile(text: str, rung: Any) -> Manifest:
    """A manifest with a text wherever there may be any."""
    info = model(name=text, source=text, family=text, task=text, licence=text)
    lint = [LintFinding(rule=text, severity="warning", place=text, found=text, fix=text)]
    checks = [DeviceCheck(name="compile", status="not run", note=text, machine=text)]
    runtime = Runtime(name=text, version=text, backends=["CoreMLBackend"], operators=[text])
    delegation = Delegation(
        backend=text,
        delegates=1,
        delegated_operators=1,
        delegated_share=0.5,
        fallbacks=[Fallback(operator=text, count=1, reason=text, share=0.5)],
    )
    return sample_manifest(
        name=text,
        model=info,
        lint=lint,
        device_checks=checks,
        runtime=runtime,
        delegation=delegation,
        parity=[rung],
        target=text,
        target_choice=text,
        context_note=text,
        wider_layers=text,
        artifact="model.pte",
        recipe={"name": text, "description": text},
        tools={"edgec": text},
        build=Build(created=text, not_emulated=text),
    )


@pytest.mark.parametrize("nasty", NASTY, ids=range(len(NASTY)))
def test_no_text_of_a_manifest_becomes_a_field_of_the_header(nasty: str) -> None:
    fields = header(hostile(nasty, PARITY[2]))
    assert set(fields) <= {"library_name", "license", "license_name", "tags", "pipeline_tag"}
    assert all(isinstance(tag, str) and len(tag) <= 60 for tag in fields["tags"])


def test_marks_of_a_text_stand_for_themselves() -> None:
    assert MarkdownIt().render(plain("a_b_c *d* <e> & #f")) == "<p>a_b_c *d* &lt;e&gt; &amp; #f</p>\n"
    assert code("a_b") == "`a_b`" and code("a`b") == "a\\`b"
    assert table(("x", "y"), [("1", "2")]) == "| x | y |\n| --- | --- |\n| 1 | 2 |"


def test_the_mark_is_in_the_page_and_not_shown() -> None:
    assert MARK in model_card_of(sample_manifest(), ADDRESS) and MARK.startswith("<!--")
