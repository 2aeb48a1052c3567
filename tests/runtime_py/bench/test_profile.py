"""A profile: instructions become rows that add up, delegates are told apart by what is inside."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from edgec.bundle.folder import open_bundle
from edgec.devices.job import Job
from edgec.errors import ToolError
from edgec.runtime_py.bench import profile
from edgec.runtime_py.bench.job import run_job
from edgec.runtime_py.bench.profile import OUTSIDE, ProfiledDecoder, instruction_names, operator_times
from edgec.runtime_py.sessions.session import decoder_limits


def step(index: int, name: str, calls: int, total_ns: int) -> Any:
    return SimpleNamespace(chain=0, index=index, name=name, calls=calls, total_ns=total_ns)


def test_twins_are_summed_and_the_rest_is_outside() -> None:
    steps = [
        step(0, "delegate", 4, 8_000_000),
        step(1, "edgec::cached_attention.out", 4, 2_000_000),
        step(2, "delegate", 4, 4_000_000),
        step(3, "delegate", 4, 20_000_000),
    ]
    kinds = {(0, 0): "delegate: 7 matrices", (0, 2): "delegate: 7 matrices", (0, 3): "delegate: 1 matrix"}
    rows = operator_times(steps, kinds, repetitions=4, ms=10.0)
    assert [(row.operator, row.calls, row.ms) for row in rows] == [
        ("delegate: 1 matrix", 1, 5.0),
        ("delegate: 7 matrices", 2, 3.0),
        ("edgec::cached_attention.out", 1, 0.5),
        (OUTSIDE, 0, 1.5),
    ]
    assert sum(row.share for row in rows) == pytest.approx(1)


def test_instructions_have_the_names_of_the_program(tiny_bundle: Path) -> None:
    names = instruction_names(open_bundle(tiny_bundle).artifact_path)
    assert sorted(names) == [(0, index) for index in range(len(names))]
    assert all("::" in name or name.startswith("delegate XnnpackBackend") for name in names.values())
    # Two layers of the tiny decoder: each attention once, and linear layers that differ between the delegates.
    assert list(names.values()).count("llama::custom_sdpa.out") == 2
    assert any("matrices" in name and name.endswith("M weights") for name in names.values())


def test_a_job_profiles_both_phases(tiny_bundle: Path) -> None:
    result = run_job(Job("profile", str(tiny_bundle), prompt_tokens=20, new_tokens=4, repetitions=2, threads=1))
    prefill, decode = result["phases"]
    assert (prefill["phase"], prefill["tokens"], prefill["repetitions"]) == ("prefill", 20, 2)
    assert (decode["phase"], decode["tokens"], decode["repetitions"]) == ("decode", 1, 3)
    for phase in (prefill, decode):
        assert sum(row["ms"] for row in phase["operators"]) == pytest.approx(phase["ms"])
        assert sum(row["share"] for row in phase["operators"]) == pytest.approx(1)
        assert all(row["calls"] >= 1 for row in phase["operators"][:-1])
        assert any(row["operator"].startswith("delegate") for row in phase["operators"])


def test_no_profile_without_the_engine(tiny_bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profile, "engine_for", lambda bundle: "executorch")
    bundle = open_bundle(tiny_bundle)
    with pytest.raises(ToolError, match="E350"):
        ProfiledDecoder(bundle, decoder_limits(bundle))
