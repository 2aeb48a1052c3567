"""The generated Swift, compiled and run over a scripted model, does what the Python runtime does over the same one."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from edgec.apps.embed import app_facts
from edgec.apps.embed.swift_package import swift_package
from edgec.apps.embed.written_package import write_package
from edgec.bundle.folder import open_bundle
from tests.apps import swift_cases as python
from tests.apps.ios_bundles import CONTEXT, target
from tests.apps.swift_bundles import KINDS, LIMITS, for_linux, run_manifest, write_broken, write_good
from tests.apps.swift_toolchain import Swift

pytestmark = pytest.mark.slow

DRIVER = Path(__file__).parent / "swift_behaviour"
LOADS: list[dict[str, Any]] = [
    {"name": "first start", "bundle": "bundle", "fresh": True},
    {"name": "flipped later", "bundle": "flipped"},
    {"name": "flipped, always hashed", "bundle": "flipped", "hashAlways": True},
    {"name": "flipped, first start", "bundle": "flipped", "fresh": True},
    *({"name": name, "bundle": name} for name in ("short", "missing", "bare", "other manifest")),
    {"name": "poor", "bundle": "bundle", "availableMemory": 1000},
    {"name": "other tokenizer", "bundle": "bundle", "fresh": True, "oddText": "é"},
    {"name": "other tokenizer, accepted", "bundle": "bundle", "fresh": True, "oddText": "é", "accepted": ["accent"]},
    {"name": "other model, replayed before", "bundle": "bundle", "shift": 1},
    {"name": "other model", "bundle": "bundle", "fresh": True, "shift": 1},
    {"name": "no numbers", "bundle": "bundle", "fresh": True, "saysNothing": True},
]


def _prompt(first: int, count: int) -> list[int]:
    return [first, *(40 + i % 50 for i in range(count - 1))]


LONG = _prompt(35, 100)
REQUESTS: list[dict[str, Any]] = [
    {"name": "one token", "tokens": [65], "maxNewTokens": 5},
    *({"name": f"{n} tokens", "tokens": _prompt(n, n), "maxNewTokens": 4} for n in (63, 64, 65)),
    {"name": "long", "tokens": LONG, "maxNewTokens": 3},
    {"name": "again", "tokens": LONG, "maxNewTokens": 3},
    {"name": "rewound", "tokens": [*LONG[:70], *_prompt(36, 20)], "maxNewTokens": 3},
    {"name": "to the end", "tokens": _prompt(37, 120)},
    {"name": "full", "tokens": _prompt(38, CONTEXT)},
    {"name": "penalty", "tokens": _prompt(39, 60), "maxNewTokens": 30, "repetitionPenalty": 2.5},
    *({"name": f"text {name}", "text": name, "maxNewTokens": 60} for name in python.TEXTS),
    {"name": "stop", "text": "plain", "maxNewTokens": 60, "stop": ["User:", "mehr"]},
    {"name": "stop at a line's end", "text": "lines", "maxNewTokens": 60, "stop": ["\r\n"]},
    {"name": "stop at a flag", "text": "flags", "maxNewTokens": 60, "stop": ["\U0001f1e9\U0001f1ea"]},
    {"name": "inside a character", "text": "plain", "maxNewTokens": 3},
    {"name": "conversation", "chat": [["user", "Hi"], ["assistant", "Yes?"], ["user", "So"]], "maxNewTokens": 8},
]
# Each follows an answer that ended well, whose reason must not remain.
FAILURES: dict[str, tuple[dict[str, Any], str]] = {
    "empty": ({"tokens": []}, "promptEmpty"),
    "too long": ({"tokens": _prompt(33, CONTEXT + 1)}, f"promptTooLong(tokens: {CONTEXT + 1}, context: {CONTEXT})"),
    "above the vocabulary": ({"tokens": [33, 34, 512]}, "tokenUnknown(512)"),
    "below the vocabulary": ({"tokens": [33, -1]}, "tokenUnknown(-1)"),
    "option": ({"text": "plain", "topP": 0}, 'optionOutOfRange("topP")'),
    "schema": (
        {"text": "plain", "schema": "person"},
        # Swift describes a quote in a text as an escaped one.
        r'schemaRefused("only edgec\'s engine does that, and this artifact has another runtime")',
    ),
    "model fails": ({"tokens": [33, 34], "maxNewTokens": 9, "failAt": 4}, "ModelFails()"),
}
LEFT = {
    "left": {"tokens": [34, 35], "maxNewTokens": 100, "secondsPerCall": 0.01, "leaveAfter": 2},
    "cancelled": {"tokens": [34, 36], "maxNewTokens": 100, "secondsPerCall": 0.01, "cancelAfter": 2},
    "text cancelled": {"text": "plain", "maxNewTokens": 100, "secondsPerCall": 0.01, "cancelAfter": 2},
}
# In this order: the adapters of the artifact, by name, after which the model is as it was.
_ASKED: dict[str, dict[str, Any]] = {
    "pirate": {"adapter": "pirate"},
    "pirate, a text that goes on": {"tokens": _prompt(33, 12)},
    "cowboy": {"adapter": "cowboy"},
    "still pirate": {},
    "without": {"adapter": ""},
}
ADAPTED = {name: {"tokens": _prompt(33, 9), "maxNewTokens": 2, **asked} for name, asked in _ASKED.items()}
SCORES: dict[str, dict[str, Any]] = {
    name: {"name": name, "text": "plain", "continuations": texts}
    for name, texts in {
        "scores": ["Grüße", "Gras", "x"],
        "no scores": [],
        "empty continuation": ["a", ""],
        "long continuation": ["a", "a" * CONTEXT],
    }.items()
}
TOGETHER = [{"name": str(i), "tokens": [50 + i, 40, 41], "maxNewTokens": 12} for i in range(10)]
PIECES = {
    "stops": python.stop_cases(4000),
    "streams": python.stream_cases(1500),
    "choices": python.choice_cases(300),
}


def _requests() -> Iterator[dict[str, Any]]:
    """All requests; each one that fails is followed by one that must succeed again."""
    yield from REQUESTS
    odd = {**{name: request for name, (request, _) in FAILURES.items()}, **LEFT}
    for name, request in odd.items():
        yield {"name": name, **request}
        yield {"name": f"after {name}", "tokens": _prompt(33, 9), "maxNewTokens": 4}
    yield from SCORES.values()
    for name, request in ADAPTED.items():
        yield {"name": name, **request}


@pytest.fixture(scope="module", params=KINDS)
def said(swift: Swift, request: pytest.FixtureRequest) -> dict[str, Any]:
    """The answers of the generated kit to all requests."""
    work = swift.work / request.param
    work.mkdir()
    bundle = write_good(work / "bundle", request.param)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(app_facts, "load_target", target)
        package = swift_package(open_bundle(bundle))
    write_package(package, work / "kit")
    write_broken(bundle)
    sources = work / "kit" / "Sources" / package.module
    for_linux(sources)
    shutil.copytree(DRIVER, work / "driver")
    told = swift.compile(package.module, [*sources.glob("*.swift"), *(work / "driver").glob("*.swift")])
    assert told == ""
    cases = {
        "pieces": PIECES,
        "scripts": python.SCRIPTS,
        "loads": LOADS,
        "requests": [*_requests()],
        "together": TOGETHER,
    }
    (work / "cases.json").write_text(json.dumps(cases))
    return {**_run(swift, package.module, work), "kind": request.param}


def _run(swift: Swift, module: str, work: Path) -> dict[str, Any]:
    """Link and run the kit, with a separate home folder in which it keeps what it has checked."""
    names = (module, "ExecuTorch", "CryptoKit", "os", "Tokenizers", "Hub", "Darwin")
    facts: dict[str, Any] = swift.wrote(work.name, names, "facts.json", 300)
    return facts


def test_the_hash_of_the_stand_in_is_right(said: dict[str, Any]) -> None:
    assert said["sha256"] == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda request: request["name"])
def test_an_answer_is_pythons(said: dict[str, Any], request_: dict[str, Any]) -> None:
    """The same pieces of text or tokens in the same order, and the same reason to stop."""
    answer = said["answers"][request_["name"]]
    assert answer.get("error") is None
    assert (answer["pieces"], answer.get("finish")) == python.answer(request_, LIMITS)


CALLS = {
    "static": {
        "one token": ["decode 0 1", "decode 1 1"],
        "63 tokens": ["prefill 0 63", "decode 63 1"],
        "64 tokens": ["prefill 0 64", "decode 64 1"],
        "65 tokens": ["prefill 0 64", "decode 64 1", "decode 65 1"],
        "long": ["prefill 0 64", "prefill 64 36", "decode 100 1", "decode 101 1"],
        "again": ["decode 99 1", "decode 100 1", "decode 101 1"],
        # A chunk whose padding would reach past the end of the cache is fed token by token.
        "rewound": [f"decode {position} 1" for position in range(70, 92)],
        "full": ["prefill 0 64", "prefill 64 64"],
    },
    # A ring forgets, so a prompt that does not continue the last one starts over.
    "dynamic": {
        "one token": ["forward 0 1", "forward 1 1"],
        "65 tokens": ["forward 0 64", "forward 64 1", "forward 65 1"],
        "long": ["forward 0 64", "forward 64 36", "forward 100 1", "forward 101 1"],
        "again": ["forward 0 64", "forward 64 36", "forward 100 1", "forward 101 1"],
        "rewound": ["forward 0 64", "forward 64 26", "forward 90 1", "forward 91 1"],
        "full": ["forward 0 64", "forward 64 64"],
    },
}


def test_prompts_go_in_chunks_and_the_cache_is_reused(said: dict[str, Any]) -> None:
    wanted = CALLS[said["kind"]]
    assert {name: said["answers"][name]["calls"][: len(wanted[name])] for name in wanted} == wanted
    assert len(said["answers"]["to the end"]["calls"]) == 2 + 8
    assert len(said["answers"]["again"]["calls"]) == len(wanted["again"])


@pytest.mark.parametrize("name", FAILURES)
def test_a_failure_has_its_error_and_no_reason_of_an_earlier_answer(said: dict[str, Any], name: str) -> None:
    answer = said["answers"][name]
    assert (answer.get("error"), answer.get("finish")) == (FAILURES[name][1], None)
    assert name == "model fails" or answer["calls"] == []


@pytest.mark.parametrize("name", LEFT)
def test_who_leaves_or_cancels_ends_the_answer(said: dict[str, Any], name: str) -> None:
    answer = said["answers"][name]
    assert answer.get("error") is None and answer.get("finish") is None
    assert answer["pieces"] and len(answer["calls"]) < 50


@pytest.mark.parametrize("name", [*FAILURES, *LEFT])
def test_the_answer_after_one_that_failed_is_right(said: dict[str, Any], name: str) -> None:
    answer = said["answers"][f"after {name}"]
    request = {"tokens": _prompt(33, 9), "maxNewTokens": 4}
    assert (answer["pieces"], answer.get("finish"), answer.get("error")) == (*python.answer(request, LIMITS), None)


def test_functions_under_an_adapter_are_called_from_an_empty_cache(said: dict[str, Any]) -> None:
    answers = {name: said["answers"][name] for name in ADAPTED}
    refused = [name for name, answer in answers.items() if "adapterRefused" in answer.get("error", "")]
    if said["kind"] == "dynamic":
        assert refused == ["pirate", "cowboy"] and answers["still pirate"]["calls"][0].startswith("forward ")
        return
    assert refused == ["cowboy"] and answers["cowboy"]["calls"] == []
    assert {name: answer["calls"] for name, answer in answers.items() if name not in refused} == {
        "pirate": ["prefill_pirate 0 9", "decode_pirate 9 1"],
        "pirate, a text that goes on": ["prefill_pirate 9 3", "decode_pirate 12 1"],
        "still pirate": ["decode_pirate 8 1", "decode_pirate 9 1"],
        "without": ["prefill 0 9", "decode 9 1"],
    }


def test_scores_are_pythons_and_checked_before_any_is_computed(said: dict[str, Any]) -> None:
    answers = {name: said["answers"][name] for name in SCORES}
    assert answers["scores"]["pieces"] == python.scores(SCORES["scores"], LIMITS)
    assert [piece.endswith("true") for piece in answers["scores"]["pieces"]] == [True, False, False]
    assert (answers["no scores"]["pieces"], answers["no scores"].get("error")) == ([], None)
    assert answers["empty continuation"]["error"] == "textEmpty"
    # One token begins every text, and the prompt has five letters.
    assert answers["long continuation"]["error"] == f"promptTooLong(tokens: {CONTEXT + 6}, context: {CONTEXT})"
    assert answers["empty continuation"]["calls"] == answers["long continuation"]["calls"] == []


def test_ten_answers_at_once_take_turns(said: dict[str, Any]) -> None:
    assert said["together"] == [python.answer(request, LIMITS)[0] for request in TOGETHER]


def test_stop_texts_are_compared_by_code_points(said: dict[str, Any]) -> None:
    assert said["stopped"] == [python.stopped(case) for case in PIECES["stops"]]


def test_text_appears_when_its_last_byte_has_come(said: dict[str, Any]) -> None:
    assert said["streamed"] == [python.streamed(case) for case in PIECES["streams"]]


def test_tokens_are_chosen_from_those_that_python_keeps(said: dict[str, Any]) -> None:
    for case, (kept, *draws) in zip(PIECES["choices"], said["chosen"], strict=True):
        assert kept == python.kept(case), case
        # A penalty counts what was drawn, so that only the first draw is among the same.
        same = [drawn[: 1 if case["repetitionPenalty"] != 1 else None] for drawn in draws]
        assert draws[:1] == draws[1:] and set().union(*same) <= set(kept), case


def test_a_load_says_what_is_wrong(said: dict[str, Any]) -> None:
    copies = {"static": 1, "dynamic": 2}[said["kind"]]
    needed = copies * 4096 + sum(state.bytes for state in run_manifest(said["kind"]).states)
    artifact, loads = 'bundleAltered(file: "model.pte", why: ', dict(said["loads"])
    assert loads.pop("other model").startswith('outputDiffers("after 2 tokens the likeliest is')
    assert loads.pop("bare").startswith('bundleMissing("manifest.json, ')
    assert loads == {
        "first start": "loaded",
        "flipped later": "loaded",
        "flipped, always hashed": f'{artifact}"its sha256 differs")',
        "flipped, first start": f'{artifact}"its sha256 differs")',
        "short": f'{artifact}"4095 bytes instead of 4096")',
        "missing": 'bundleMissing("model.pte")',
        "other manifest": 'bundleAltered(file: "manifest.json", why: "its digest differs")',
        "poor": f"notEnoughMemory(neededBytes: {needed}, availableBytes: 1000)",
        "other tokenizer": 'tokenizerDiffers(labels: ["accent"])',
        "other tokenizer, accepted": "loaded",
        "other model, replayed before": "loaded",
        "no numbers": 'outputDiffers("after 2 tokens a logit is not a number")',
    }
