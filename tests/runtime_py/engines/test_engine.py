"""Which engine runs an artifact, and what becomes of the files of packed weights."""

from __future__ import annotations

import fcntl
import os
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks.harness.jobs import status_bytes
from edgec.bundle.folder import open_bundle
from edgec.errors import ToolError
from edgec.runtime_py.engines import choice, engine
from edgec.runtime_py.engines.choice import choose_engine
from edgec.runtime_py.engines.engine import EngineModel
from edgec.runtime_py.engines.packed_cache import mark_used, packed_file
from edgec.runtime_py.engines.threads import set_threads
from edgec.runtime_py.model import load
from edgec.runtime_py.sessions.session import Session

PROMPT = [1, *range(30, 44)]
STANDARD = ("aten::add.out", "llama::custom_sdpa.out")
OWN = (*STANDARD, "edgec::cached_attention.out")
DIGEST = "ab" * 32


@pytest.fixture
def no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent() -> None:
        raise ToolError("There is no C++ compiler.", code="E311")

    for module in (engine, choice):
        monkeypatch.setattr(module, "library", absent)


def test_the_own_engine_comes_first() -> None:
    assert choose_engine(()) == choose_engine(OWN) == choose_engine(STANDARD) == "edgec"
    assert choose_engine(OWN, "executorch") == choose_engine((), "executorch") == "executorch"


@pytest.mark.usefixtures("no_compiler")
def test_without_a_compiler_executorchs_binding_serves_what_it_can() -> None:
    assert choose_engine(()) == choose_engine(STANDARD) == "executorch"
    for operators, wanted in ((OWN, None), (OWN, "executorch"), ((), "edgec")):
        with pytest.raises(ToolError, match="E311"):
            choose_engine(operators, wanted)  # type: ignore[arg-type]


@pytest.mark.long
def test_operators_of_executorchs_llm_library_run_on_both_engines(tiny_bundle: Path) -> None:
    ours, theirs = Session(tiny_bundle, engine="edgec"), Session(tiny_bundle, engine="executorch")
    for start in (0, len(PROMPT)):
        # The same kernels, registered once in the process: not even the rounding differs.
        np.testing.assert_array_equal(ours.prefill(PROMPT, start), theirs.prefill(PROMPT, start))
    assert theirs.arena is None


def test_lent_outputs_are_those_of_a_run(tiny_bundle: Path) -> None:
    session = EngineModel(open_bundle(tiny_bundle).artifact_path).session()
    inputs = [np.array([PROMPT]), np.arange(len(PROMPT)), np.array([0])]
    (copied,), (lent,) = session.run(inputs), session.lend(inputs)
    np.testing.assert_array_equal(copied, lent)
    assert copied.flags.owndata and not lent.flags.owndata


@pytest.mark.long
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_outputs_of_a_method_without_state_are_not_copied(tmp_path: Path) -> None:
    """An encoder's outputs are megabytes; its activations are its session's own, so that nobody else writes them."""
    from executorch.exir import to_edge

    (tmp_path / "relu.pte").write_bytes(
        to_edge(torch.export.export(torch.nn.ReLU(), (torch.zeros(8 << 20),))).to_executorch().buffer
    )
    session = EngineModel(tmp_path / "relu.pte").session()
    values = np.linspace(-1, 1, 8 << 20, dtype=np.float32)
    before = status_bytes("VmRSS")
    (lent,) = session.lend([values])
    after = status_bytes("VmRSS")
    assert before is not None and after is not None
    taken = after - before
    np.testing.assert_array_equal(lent, np.maximum(values, 0))
    # Input and output once each in planned memory, and less than half of one for what the first call touches besides.
    assert 2 * lent.nbytes <= taken < 2.5 * lent.nbytes


@pytest.mark.long
@pytest.mark.usefixtures("no_compiler")
def test_a_bundle_with_standard_operators_needs_no_compiler(tiny_bundle: Path) -> None:
    model = load(tiny_bundle)
    assert model.session.engine == "executorch"
    assert len(model.generate(PROMPT, max_new_tokens=3).tokens) == 3
    with pytest.raises(ToolError, match="E311"):
        Session(tiny_bundle, engine="edgec")


@pytest.mark.long
def test_a_method_of_the_binding_refuses_a_pool_that_it_does_not_know(tiny_bundle: Path) -> None:
    before = set_threads(None)
    theirs = Session(tiny_bundle, engine="executorch")
    theirs.prefill(PROMPT, 0)
    try:
        set_threads(before + 1)
        with pytest.raises(ToolError, match="E315"):
            theirs.prefill(PROMPT, 0)
        assert theirs.cache.tokens == []
        Session(tiny_bundle, engine="executorch").prefill(PROMPT, 0)
    finally:
        set_threads(before)


def test_the_packed_file_is_named_by_artifact_and_machine(tmp_path: Path) -> None:
    packed = packed_file(DIGEST, tmp_path)
    assert packed is not None and packed.parent == tmp_path / "packed" and packed.parent.is_dir()
    assert packed.name.startswith(DIGEST[:32] + "-") and packed.suffix == ".packed"
    assert packed_file("cd" * 32, tmp_path) != packed


def test_a_cache_that_cannot_be_written_has_no_packed_file() -> None:
    assert packed_file(DIGEST, Path("/proc/nowhere")) is None


def _packed(folder: Path, name: str, used: int) -> Path:
    path = folder / f"{name}.packed"
    path.write_bytes(bytes(1000))
    lock = folder / f"{name}.packed.lock"
    lock.touch()
    os.utime(lock, (used, used))
    return path


def test_the_least_recently_used_files_make_room(tmp_path: Path) -> None:
    old, middle, new = (_packed(tmp_path, name, used) for name, used in (("a", 30), ("b", 20), ("c", 10)))
    assert mark_used(new, max_bytes=3000) == 0
    assert mark_used(new, max_bytes=2500) == 1000
    assert (old.exists(), middle.exists(), new.exists()) == (True, False, True)
    assert mark_used(new, max_bytes=0) == 1000 and new.exists(), "the file in use stays"


def test_a_file_that_a_load_is_using_stays(tmp_path: Path) -> None:
    held, new = _packed(tmp_path, "a", 10), _packed(tmp_path, "b", 20)
    with open(tmp_path / "a.packed.lock") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert mark_used(new, max_bytes=0) == 0 and held.exists()
