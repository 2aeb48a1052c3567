"""An artifact that ends the process which executes it is a verdict, not the end of edgec."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import edgec
from edgec.bundle.folder import open_bundle
from edgec.errors import InputError
from edgec.installation import cache_root
from edgec.runtime_py.engines import trial
from edgec.runtime_py.engines.open_artifact import artifact_digest
from edgec.runtime_py.engines.trial import execute_once, note_executed, try_first, was_executed
from edgec.runtime_py.sessions.session import Session
from edgec.runtime_py.verify.verify import verify

DIGEST = "ab" * 32
# In place of the worker: it dies as a kernel does that reads where nothing is.
DEADLY = """
import os, signal, sys
print("a last word", file=sys.stderr, flush=True)
os.kill(os.getpid(), signal.{how})
"""


@pytest.fixture
def forgotten(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing was ever executed here; the compiled engine is there."""
    cache = cache_root()
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "runner").symlink_to((cache / "runner").resolve())
    monkeypatch.setenv("EDGEC_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(trial, "_known", set())


def deadly(folder: Path, monkeypatch: pytest.MonkeyPatch, how: str = "SIGSEGV") -> None:
    (folder / "deadly_worker.py").write_text(DEADLY.format(how=how))
    monkeypatch.setenv("PYTHONPATH", str(folder), prepend=":")
    monkeypatch.setattr(trial, "WORKER", "deadly_worker")


@pytest.mark.usefixtures("forgotten")
@pytest.mark.parametrize(
    ("how", "fix"), [("SIGSEGV", "export again"), ("SIGABRT", "export again"), ("SIGKILL", "memory")]
)
def test_a_first_execution_that_dies_is_refused_by_the_signals_name(
    tiny_bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str, fix: str
) -> None:
    deadly(tmp_path, monkeypatch, how)
    for _ in range(2):
        with pytest.raises(InputError) as error:
            edgec.load(tiny_bundle)
        assert error.value.code == "E168" and how in error.value.why
        assert ("a last word" in error.value.why) == (how == "SIGABRT")
        assert fix in error.value.fix


@pytest.mark.usefixtures("forgotten")
def test_verify_says_so_and_exits_as_for_any_failed_check(
    tiny_bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deadly(tmp_path, monkeypatch)
    report = verify(tiny_bundle)
    (artifact,) = [check for check in report.checks if check.status == "failed"]
    assert artifact.name == "artifact" and "SIGSEGV" in artifact.detail


@pytest.mark.usefixtures("forgotten")
def test_an_execution_without_end_is_stopped(
    tiny_bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "endless_worker.py").write_text("import time\ntime.sleep(600)\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    monkeypatch.setattr(trial, "WORKER", "endless_worker")
    monkeypatch.setattr(trial, "LIMIT_S", 0.5)
    with pytest.raises(InputError, match="E169"):
        edgec.load(tiny_bundle)


@pytest.mark.long
@pytest.mark.usefixtures("forgotten")
def test_what_was_executed_once_is_not_tried_again(
    tiny_bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = Session(tiny_bundle)
    digest = artifact_digest(session.bundle)
    assert was_executed(digest, session.engine)
    monkeypatch.setattr(trial, "_known", set())
    assert was_executed(digest, session.engine), "the note is for other processes too"
    assert not was_executed(DIGEST, session.engine) and not was_executed(digest, "executorch")
    deadly(tmp_path, monkeypatch)
    Session(tiny_bundle)


@pytest.mark.usefixtures("forgotten")
def test_a_cache_that_cannot_be_written_remembers_for_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "cache_root", lambda: Path("/proc/nowhere"))
    note_executed(DIGEST, "edgec")
    assert was_executed(DIGEST, "edgec")


@pytest.mark.long
@pytest.mark.usefixtures("forgotten")
def test_a_refused_artifact_is_refused_as_ever_and_not_noted(tiny_bundle: Path, tmp_path: Path) -> None:
    from edgec.bundle.folder import write_bundle

    bundle = open_bundle(tiny_bundle)
    files: dict[str, bytes | Path] = {file.path: tiny_bundle / file.path for file in bundle.manifest.files}
    write_bundle(tmp_path / "a.edgec", bundle.manifest, {**files, bundle.manifest.artifact: b"no program" * 50})
    with pytest.raises(InputError, match="E157"):
        Session(tmp_path / "a.edgec")
    assert not was_executed(artifact_digest(open_bundle(tmp_path / "a.edgec")), "edgec")


def test_what_is_only_simulated_is_not_tried(
    tiny_bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deadly(tmp_path, monkeypatch)
    try_first(open_bundle(tiny_bundle), "simulated")


def test_the_trial_reaches_prefill_decode_and_every_row(tiny_bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[tuple[int, int, int]] = []

    class Recorder:
        def run(self, inputs: list[np.ndarray]) -> list[np.ndarray]:
            tokens, positions, rows = inputs
            called.append((tokens.shape[1], int(positions[0]), len(rows)))
            return []

    monkeypatch.setattr(trial, "open_executor", lambda *arguments: Recorder())
    bundle = open_bundle(tiny_bundle)
    execute_once(bundle, "edgec")
    limits = bundle.manifest.limits
    assert limits is not None
    assert called == [(limits.prefill_chunk, 0, limits.logit_rows), (1, limits.prefill_chunk, 1)]
