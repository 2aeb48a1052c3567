"""Texts of as many tokens as are asked for, and LiteRT-LM's engine as it is timed, over one that is written here."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar

import pytest

from edgec.bundle.folder import Bundle
from edgec.devices.job import Job
from edgec.errors import EdgecError
from edgec.runtime_py.bench import litert_lm
from edgec.runtime_py.bench.litert_lm import LitertLmLaps, repeated, unprofiled
from tests.apps.android_bundles import LITERT_LM, android_bundle

MARK = 1


class _Engine:
    """It has a token for each word, puts one before every text, and writes as many as it is let, or a few."""

    bos_token_id = MARK
    few: ClassVar[dict[str, int]] = {}

    def __init__(self, path: str, **given: Any) -> None:
        if given["backend"] == 13:
            raise RuntimeError("no such model")

    def tokenize(self, text: str) -> list[int]:
        return [2] * len(text.split())

    def create_session(self, *, max_output_tokens: int, **given: Any) -> Any:
        read: list[str] = []

        def pieces() -> Iterator[str]:
            few = next((count for part, count in self.few.items() if part in read[0]), max_output_tokens)
            yield from ["x"] * min(few, max_output_tokens)

        return SimpleNamespace(
            run_prefill=read.extend,
            run_decode_async=pieces,
            get_benchmark_info=lambda: SimpleNamespace(last_prefill_token_count=1 + len(read[0].split())),
            close=lambda: None,
        )


@pytest.fixture(autouse=True)
def engine(monkeypatch: pytest.MonkeyPatch) -> None:
    module: Any = ModuleType("litert_lm")
    module.Engine, module.SamplerConfig = _Engine, SimpleNamespace
    module.Backend = SimpleNamespace(CPU=lambda thread_count: thread_count)
    module.LogSeverity, module.set_min_log_severity = SimpleNamespace(ERROR=4), lambda level: None
    monkeypatch.setitem(sys.modules, "litert_lm", module)
    monkeypatch.setattr(litert_lm, "is_installed", lambda: True)
    monkeypatch.setattr(_Engine, "few", {})


def _laps(folder: Path, **asked: Any) -> LitertLmLaps:
    bundle: Bundle = android_bundle(folder, LITERT_LM)
    job = Job(**{"kind": "speed", "bundle": "x", "prompt_tokens": 9, "new_tokens": 4, **asked})
    return LitertLmLaps(bundle.artifact_path, job, bundle.manifest.name)


def _code(folder: Path, **asked: Any) -> str:
    with pytest.raises(EdgecError) as caught:
        _laps(folder, **asked).lap()
    return caught.value.code


def test_a_generation_has_a_time_for_each_token(tmp_path: Path) -> None:
    laps = _laps(tmp_path, threads=2)
    made = laps.lap()
    assert made.ttft_s > 0 and len(made.gaps_s) == 3
    assert laps.facts["threads"] == 2 and laps.facts["runtime"].startswith("LiteRT-LM ")


def test_a_text_after_which_the_model_ends_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_Engine, "few", {" the": 1, " a": 2})
    laps = _laps(tmp_path)
    assert len(laps.lap().gaps_s) == 3 and laps._text == "\n- " * 8


def test_what_cannot_be_measured_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert _code(tmp_path / "13", threads=13) == "E908"
    assert _code(tmp_path / "0", threads=-1) == "E156"
    assert unprofiled(android_bundle(tmp_path / "p", LITERT_LM)).code == "E350"
    monkeypatch.setattr(_Engine, "few", {"": 2})
    assert _code(tmp_path / "short") == "E962"
    monkeypatch.setattr(litert_lm, "is_installed", lambda: False)
    assert _code(tmp_path / "absent") == "E908"


@pytest.mark.parametrize(
    ("part", "tokens", "times"), [("a ", 5, 5), ("a b ", 6, 3), ("a b ", 5, 0), ("a b c ", 1, 0), ("a ", 0, 0)]
)
def test_a_part_is_repeated_until_it_has_the_tokens(part: str, tokens: int, times: int) -> None:
    assert repeated(part, tokens, lambda text: len(text.split())) == part * times
