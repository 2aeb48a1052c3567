"""The report is one valid, safe, deterministic file that says what the manifest says."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

from edgec.bundle.findings import Delegation, Fallback
from edgec.bundle.manifest import Build, Manifest, ModelInfo
from edgec.exporter.report.estimates import Estimate
from edgec.exporter.report.memory import kv_bytes
from edgec.exporter.report.page import render_report
from edgec.exporter.report.parts import LogScale, number, percent, size, ticks
from edgec.exporter.report.sections import ReportSamples
from tests.bundle.bundle_samples import PARITY, STATES, sample_manifest

_VOID = {"meta", "br", "wbr"}


class _Checker(HTMLParser):
    """Collects text, and fails on tags that do not close in order or load something."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag not in {"script", "link", "img", "iframe", "object"}, tag
        assert not {"src", "href", "onload", "onclick"} & {name for name, _ in attrs}, attrs
        if tag not in _VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag == "polyline"

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.text.append(data)


def _text(manifest: Manifest, bench: tuple[ReportSamples, ...] = ()) -> str:
    checker = _Checker()
    checker.feed(render_report(manifest, bench))
    checker.close()
    assert checker.open == []
    return " ".join("".join(checker.text).split())


def test_every_section_is_there_and_says_what_the_manifest_says() -> None:
    text = _text(sample_manifest())
    for title in ("Summary", "Parity ladder", "Size ledger", "Delegation", "KV memory", "Passes", "Methods and limits"):
        assert title in text
    for fact in ("stories260K-host", "260,032", "97.3 %", "1.40 MB", "model.embed_tokens.weight", "stored 2x", "0.021"):
        assert fact in text
    assert "logits: float32 [1, K, 512]" in text and "S: 1 to 128" in text and "11.0 s" in text
    assert "Bench" not in text


def test_the_same_manifest_gives_the_same_bytes() -> None:
    manifest = sample_manifest()
    again = Manifest.model_validate_json(manifest.model_dump_json())
    assert render_report(manifest) == render_report(again)


def test_it_loads_nothing_and_stays_small() -> None:
    html = render_report(sample_manifest())
    assert not re.search(r"https?:|@import|url\(|<script", html)
    assert len(html) < 100_000


def test_names_from_a_model_cannot_become_markup() -> None:
    nasty = '<script>alert(1)</script>"&'
    model = ModelInfo(name=nasty, source=nasty, family=nasty, licence=nasty, parameters=1)
    html = render_report(sample_manifest(name=nasty, model=model, recipe={"name": nasty}, tools={nasty: nasty}))
    assert "<script" not in html and html.count("&lt;script&gt;") >= 8
    assert nasty in _text(sample_manifest(name=nasty, model=model))


def test_what_was_not_measured_is_unavailable_and_never_zero() -> None:
    build = Build(created="2026-11-21T13:00:00Z")
    rung = PARITY[2].model_copy(update={"max_abs": None, "kl_mean": None, "top1_agreement": None, "passed": False})
    text = _text(sample_manifest(build=build, delegation=None, ledger=None, parity=[rung]))
    assert text.count("unavailable") >= 6
    assert "over budget: artifact" in text and "Export time" not in text and "Size ledger" not in text


def test_a_failed_rung_is_marked_and_an_ungated_one_is_not_a_pass() -> None:
    failed = PARITY[0].model_copy(update={"passed": False, "first_diverging_layer": 3})
    ungated = PARITY[3].model_copy(update={"gated": False})
    text = _text(sample_manifest(parity=[failed, ungated]))
    assert "failed" in text and "first diverging layer: 3" in text and "not gated" in text
    assert "over budget: captured" in text
    assert "3 of 3 comparisons within budget" in _text(sample_manifest(parity=[*PARITY[:3], ungated]))


def test_operators_outside_the_accelerator_are_grouped_by_reason() -> None:
    fallbacks = [
        Fallback(operator=name, count=count, reason=reason, share=share)
        for name, count, reason, share in (
            ("sdpa", 5, "reads state", 0.3),
            ("mul", 25, "too small", 0.006),
            ("add", 22, "too small", 0.002),
        )
    ]
    delegated = Delegation(
        backend="xnnpack", delegates=3, delegated_operators=9, delegated_share=0.692, fallbacks=fallbacks
    )
    text = _text(sample_manifest(delegation=delegated))
    assert "mul ×25, add ×22 0.8 % too small" in text.replace("0.8 %", " 0.8 % ").replace("  ", " ")
    assert "other operators 0.8 %" in text and "sdpa 30 %" in text


def test_measured_samples_show_their_median_and_range() -> None:
    text = _text(sample_manifest(), (ReportSamples("ttft_ms", "ms", (12.0, 14.0, 13.0), "measured on host"),))
    assert "ttft ms" in text and "13 ms" in text and "12 to 14, n = 3" in text and "measured on host" in text


def test_a_model_without_states_or_limits_has_a_report_too() -> None:
    text = _text(sample_manifest(states=[], limits=None, parity=[], passes=[]))
    assert "not a decoder" in text and "not compared" in text and "KV memory" not in text


def test_kv_memory_grows_until_the_ring_is_full() -> None:
    full = sum(state.bytes for state in STATES if state.layout == "full")
    ring = sum(state.bytes for state in STATES if state.layout == "ring")
    assert kv_bytes(STATES, 0) == 0
    assert kv_bytes(STATES, 64) == full * 64 / 512 + ring / 2
    assert kv_bytes(STATES, 512) == kv_bytes(STATES, 999) == full + ring


def test_the_budget_line_and_the_dot_share_a_scale() -> None:
    scale = LogScale.around([3e-7, 1e-4, 0.0])
    assert (scale.low, scale.high) == (-7, -4)
    assert scale.share(1e-7) == 0 and scale.share(1e-4) == 1 and scale.share(0) == 0
    assert scale.share(1e-5) == pytest.approx(2 / 3)
    assert LogScale.around([]) == LogScale(0, 1)
    assert len(LogScale(-30, 2).decades()) <= 7


@pytest.mark.parametrize(("top", "last"), [(1, 1), (164_000, 200_000), (7, 8), (0, 0), (2.5e9, 3e9)])
def test_ticks_are_round_and_cover_the_top(top: float, last: float) -> None:
    values = ticks(top)
    assert values[-1] >= top and len(values) <= 6
    assert values[-1] == pytest.approx(last)


def test_numbers_claim_no_more_digits_than_they_have_and_keep_their_unit() -> None:
    assert [size(n) for n in (0, 999, 1000, 99_960, 123_456, 1.5e6, 2_345_678_901)] == [
        *("0 B", "999 B", "1.00 kB", "100 kB", "123 kB", "1.50 MB", "2.35 GB")
    ]
    assert [percent(share) for share in (0, 2.5e-6, 0.00526, 0.027, 0.8336, 0.99999, 1)] == [
        *("0 %", "below 0.1 %", "0.53 %", "2.7 %", "83.4 %", "99.9 %", "100 %")
    ]
    assert [number(value) for value in (0, 1.53e-7, 0.257, 528.4, 12345.0)] == ["0", "1.5e-07", "0.26", "528", "12,300"]


def test_a_phone_has_estimates() -> None:
    took = Delegation(backend="coreml", delegates=1, delegated_operators=9, delegated_share=1.0, fallbacks=[])
    manifest = sample_manifest(target="iphone-13-npu-mlpackage", delegation=took, target_choice="it is the oldest")
    html = render_report(
        manifest, phone=(Estimate("decode", (30.0, 40.0, 50.0), "tokens/s"), Estimate("memory", None, "MB"))
    )
    assert "40 tokens/s" in html and "30 to 50" in html and "On the phone" in html and "unavailable" in html
    text = _text(manifest)
    assert "accelerator" not in text and "On the phone" not in text
    assert "Why this target: it is the oldest." in text


def test_what_is_outside_on_this_machine_is_the_same_cpu() -> None:
    assert "runs on the same CPU" in _text(sample_manifest(target="host"))
    assert "runs on the same CPU" not in _text(sample_manifest(target="android-cpu"))
