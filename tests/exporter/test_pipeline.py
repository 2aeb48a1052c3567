"""The spine: budgets stop it, kills and Ctrl-C leave nothing behind, finished stages are not done twice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import edgec
from edgec.bundle.canonical import identity_digest
from edgec.bundle.folder import read_manifest
from edgec.errors import BudgetError, InputError
from edgec.exporter.progress import Event
from tests.conftest import with_engine

KILLED_AT = """
import os, signal, sys
import edgec
def listener(event):
    if event.stage == sys.argv[3]:
        os.kill(os.getpid(), signal.SIGKILL)
edgec.export(sys.argv[1], recipe="float", out=sys.argv[2], progress=listener)
"""


def killed_export(folder: Path, out: Path, stage: str, cache: Path) -> int:
    command = [sys.executable, "-W", "ignore", "-c", KILLED_AT, str(folder), str(out), stage]
    environment = {**os.environ, "EDGEC_CACHE_DIR": str(cache)}
    return subprocess.run(command, env=environment, capture_output=True, check=False).returncode


def cached_stages(folder: Path, out: Path) -> set[str]:
    """Export again; which stages came from the cache."""
    events: list[Event] = []
    edgec.export(folder, recipe="float", out=out, progress=events.append)
    return {event.stage for event in events if event.cached}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("stage", "kept"),
    [
        ("rewrite", set[str]()),
        ("lower", {"rewrite"}),
        ("verify", {"rewrite", "lower"}),
        ("bundle", {"rewrite", "lower"}),
    ],
)
def test_a_killed_export_resumes_where_it_stopped(
    stage: str, kept: set[str], tiny_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, cache = tmp_path / "out" / "tiny.edgec", with_engine(tmp_path / "cache")
    out.parent.mkdir()
    assert killed_export(tiny_folder, out, stage, cache) == -signal.SIGKILL
    assert not out.exists()
    monkeypatch.setenv("EDGEC_CACHE_DIR", str(cache))
    assert cached_stages(tiny_folder, out) == kept
    assert [path.name for path in out.parent.iterdir()] == ["tiny.edgec"]
    assert all(rung.passed for rung in read_manifest(out).parity)


def test_ctrl_c_leaves_nothing(tiny_folder: Path, tiny_bundle: Path, tmp_path: Path) -> None:
    def interrupt(event: Event) -> None:
        if event.stage == "bundle":
            raise KeyboardInterrupt

    assert tiny_bundle.exists()  # its stages are in the cache, so this takes no time
    with pytest.raises(KeyboardInterrupt):
        edgec.export(tiny_folder, recipe="float", out=tmp_path / "x.edgec", progress=interrupt)
    assert list(tmp_path.iterdir()) == []


def test_a_second_export_takes_every_stage_from_the_cache(tiny_folder: Path, tiny_bundle: Path, tmp_path: Path) -> None:
    assert cached_stages(tiny_folder, tmp_path / "again.edgec") == {"rewrite", "lower"}
    first, second = (read_manifest(path) for path in (tiny_bundle, tmp_path / "again.edgec"))
    assert identity_digest(first.model_copy(update={"name": ""})) == identity_digest(
        second.model_copy(update={"name": ""})
    )


@pytest.mark.slow
def test_two_exports_without_a_common_cache_are_identical(
    tiny_folder: Path, tiny_bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDGEC_CACHE_DIR", str(with_engine(tmp_path / "cache")))
    again = edgec.export(tiny_folder, recipe="float", out=tmp_path / "tiny-llama-host.edgec")
    assert (again / "model.pte").read_bytes() == (tiny_bundle / "model.pte").read_bytes()
    assert identity_digest(read_manifest(again)) == identity_digest(read_manifest(tiny_bundle))


def test_too_much_outside_the_accelerator_stops_the_export(
    tiny_folder: Path, tiny_bundle: Path, tmp_path: Path
) -> None:
    with pytest.raises(BudgetError) as stopped:
        edgec.export(tiny_folder, recipe="float", out=tmp_path / "x.edgec", max_fallback=0.0)
    assert (stopped.value.code, stopped.value.exit_code) == ("E220", 2)
    assert "cached_attention" in stopped.value.why
    assert list(tmp_path.iterdir()) == [] and tiny_bundle.exists()


@pytest.mark.long
def test_a_missed_quality_budget_stops_the_export(tiny_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(BudgetError) as stopped:
        edgec.export(tiny_folder, recipe="4bit", out=tmp_path / "x.edgec", budgets={"kl_mean": 1e-9})
    assert (stopped.value.code, stopped.value.exit_code) == ("E201", 2)
    assert "kl_mean" in stopped.value.why
    assert list(tmp_path.iterdir()) == []


def _no_work(event: Event) -> None:
    assert event.stage == "resolve", "work began before the output was checked"


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"budgets": {"frobs": 1.0}}, "E115"),
        ({"max_fallback": 7.0}, "E115"),
        ({"target": "snapdragon-x-elite-laptop"}, "E117"),
        ({"context": 1_000_000}, "E118"),
        ({"text": "no-such-text.txt"}, "E119"),
        ({"recipe": "7bit"}, "E175"),
    ],
)
def test_bad_options_are_refused_before_any_work(
    change: dict[str, object], code: str, tiny_folder: Path, tmp_path: Path
) -> None:
    with pytest.raises(InputError) as refused:
        edgec.export(tiny_folder, out=tmp_path / "x.edgec", progress=_no_work, **change)  # type: ignore[arg-type]
    assert refused.value.code == code and refused.value.fix
    assert list(tmp_path.iterdir()) == []


def test_an_existing_output_is_refused_before_the_model_is_looked_at(tmp_path: Path) -> None:
    (tmp_path / "x.edgec").mkdir()
    with pytest.raises(InputError) as refused:
        edgec.export("no/such/model/at/all", out=tmp_path / "x.edgec", progress=_no_work)
    assert refused.value.code == "E120"


def test_progress_only_moves_forward(tiny_folder: Path, tiny_bundle: Path, tmp_path: Path) -> None:
    events: list[Event] = []
    watch: Callable[[Event], None] = events.append
    edgec.export(tiny_folder, recipe="float", out=tmp_path / "x.edgec", progress=watch)
    fractions = [event.overall for event in events]
    assert fractions == sorted(fractions) and fractions[-1] == 1.0 and tiny_bundle.exists()
