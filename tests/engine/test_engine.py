"""The compiled engine on a bundle made by ``edgec.export``."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgec.errors import InputError
from edgec.runtime_py.engines.engine import EngineModel, EngineSession, set_pool_threads
from edgec.runtime_py.engines.open_artifact import artifact_digest, open_executor
from edgec.runtime_py.engines.packed_cache import packed_file
from edgec.runtime_py.engines.trial import was_executed
from edgec.runtime_py.sessions.session import Session, opened

PROMPT = [1, *range(30, 70)]
# The same kernels in the same process, loaded by another binding.
SAME_KERNELS = 1e-6


@pytest.fixture
def artifact(tiny_bundle: Path) -> Path:
    return tiny_bundle / "model.pte"


@pytest.fixture
def packed(tmp_path: Path) -> Path:
    return tmp_path / "tiny.packed"


def inputs(tokens: list[int], start: int, rows: list[int]) -> list[np.ndarray]:
    return [np.array([tokens]), np.arange(start, start + len(tokens)), np.array(rows)]


def step(session: EngineSession, tokens: list[int], start: int) -> np.ndarray:
    """Run the session on tokens; returns the logits [vocabulary] of the last one."""
    result: np.ndarray = session.run(inputs(tokens, start, [len(tokens) - 1]))[0][0, 0]
    return result


def greedy(session: EngineSession, prompt: list[int], count: int) -> list[int]:
    tokens, fed = list(prompt), 0
    for _ in range(count):
        logits = step(session, tokens[fed:], fed)
        fed = len(tokens)
        tokens.append(int(logits.argmax()))
    return tokens[len(prompt) :]


def in_another_process(code: str, *arguments: object) -> Any:
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.long
def test_logits_equal_those_of_executorchs_own_binding(tiny_bundle: Path) -> None:
    ours, theirs = Session(tiny_bundle, engine="edgec"), Session(tiny_bundle, engine="executorch")
    assert (ours.engine, theirs.engine) == ("edgec", "executorch")
    for tokens, start, rows in ((PROMPT, 0, [3, 40]), ([7, 8, 9], 41, [0, 1, 2]), ([5], 20, [0])):
        wanted = theirs.forward(tokens, start, rows)
        assert np.abs(wanted).max() > 0.1
        np.testing.assert_allclose(ours.forward(tokens, start, rows), wanted, atol=SAME_KERNELS)


def test_sessions_share_a_model_and_do_not_disturb_each_other(artifact: Path) -> None:
    alone = [greedy(EngineModel(artifact).session(), prompt, 6) for prompt in (PROMPT, PROMPT[::-1])]
    model = EngineModel(artifact)
    pair = [model.session(), model.session()]
    assert model.info.sessions == 2
    histories = [list(PROMPT), PROMPT[::-1]]
    fed = [0, 0]
    for _ in range(6):
        for index, session in enumerate(pair):
            logits = step(session, histories[index][fed[index] :], fed[index])
            fed[index] = len(histories[index])
            histories[index].append(int(logits.argmax()))
    assert [history[len(PROMPT) :] for history in histories] == alone


def test_a_closed_sessions_memory_serves_the_next_one_empty(artifact: Path) -> None:
    model = EngineModel(artifact)
    first = model.session()
    wanted = greedy(first, PROMPT, 4)
    assert first.state is not None and first.state.any()
    first.close()
    second = model.session()
    assert second.state is not None and not second.state.any()
    assert greedy(second, PROMPT, 4) == wanted


def test_state_copied_out_and_in_continues_the_sequence(artifact: Path) -> None:
    model = EngineModel(artifact)
    session, other = model.session(), model.session()
    step(session, PROMPT, 0)
    assert session.state is not None and other.state is not None
    other.state[:] = session.state
    np.testing.assert_array_equal(step(other, [9], len(PROMPT)), step(session, [9], len(PROMPT)))


def test_the_state_arena_lies_where_the_manifest_says(tiny_bundle: Path) -> None:
    session = Session(tiny_bundle)
    states = session.bundle.manifest.states
    session.prefill(PROMPT, 0)
    assert session.arena is not None and session.arena.size >= sum(state.bytes for state in states)
    for state in states:
        assert state.offset is not None
        slots = session.arena[state.offset : state.offset + state.bytes].reshape(state.slots, -1)
        assert slots[: len(PROMPT)].any(axis=1).all() and not slots[len(PROMPT) :].any()


def test_a_new_thread_pool_keeps_the_sequence(artifact: Path) -> None:
    session = EngineModel(artifact).session()
    before = set_pool_threads(None)
    step(session, PROMPT, 0)
    wanted = step(session, [9], len(PROMPT))
    try:
        for threads in (1, 2, 1):
            assert set_pool_threads(threads) == threads
            np.testing.assert_allclose(step(session, [9], len(PROMPT)), wanted, atol=SAME_KERNELS)
    finally:
        set_pool_threads(before)


def test_the_pool_may_change_at_any_time_while_others_generate(artifact: Path) -> None:
    models = [EngineModel(artifact), EngineModel(artifact)]
    sessions = [models[0].session(), models[0].session(), models[1].session()]
    wanted = greedy(models[0].session(), PROMPT, 4)
    before, done = set_pool_threads(None), threading.Event()
    generated: list[list[int]] = []

    def generate(session: EngineSession) -> None:
        while not done.is_set():
            generated.append(greedy(session, PROMPT, 4))

    workers = [threading.Thread(target=generate, args=(session,), daemon=True) for session in sessions]
    for worker in workers:
        worker.start()
    try:
        for threads in (1, 2, 3) * 20:
            assert set_pool_threads(threads) == threads
    finally:
        done.set()
        for worker in workers:
            worker.join(60)
        set_pool_threads(before)
    assert not any(worker.is_alive() for worker in workers)
    assert generated and all(tokens == wanted for tokens in generated)


@pytest.mark.parametrize(
    "arrays",
    [
        [],
        inputs([1, 2], 0, [0])[:2],
        [array.astype(np.int32) for array in inputs([1, 2], 0, [0])],
        [np.zeros((1,) * 8, np.int64)] * 3,
        inputs([1] * 500, 0, [0]),
        inputs([1, 2], 0, [2]),
        inputs([1, 2], -1, [0]),
        inputs([-1, 2], 0, [0]),
        inputs([1 << 40, 2], 0, [0]),
        [np.array([[1, 2]]), np.array([0]), np.array([0])],
        [np.array([[]], np.int64), np.array([], np.int64), np.array([0])],
    ],
    ids=[
        *("none", "two", "dtype", "rank", "beyond the bounds", "row", "position", "token below", "token above"),
        *("another count", "empty"),
    ],
)
def test_inputs_that_do_not_fit_are_refused_and_do_no_harm(artifact: Path, arrays: list[np.ndarray]) -> None:
    session = EngineModel(artifact).session()
    step(session, PROMPT, 0)
    with pytest.raises(InputError, match="E157"):
        session.run(arrays)
    np.testing.assert_allclose(step(session, [9], len(PROMPT)), step(_primed(artifact), [9], len(PROMPT)), atol=0)


def _primed(artifact: Path) -> EngineSession:
    session = EngineModel(artifact).session()
    step(session, PROMPT, 0)
    return session


def test_a_program_that_is_none_is_refused_with_a_reason(tmp_path: Path, artifact: Path) -> None:
    broken = tmp_path / "broken.pte"
    broken.write_bytes(artifact.read_bytes()[:1000])
    for path, method in ((broken, "forward"), (tmp_path / "absent.pte", "forward"), (artifact, "backward")):
        with pytest.raises(InputError, match="E157") as refusal:
            EngineModel(path, method)
        assert refusal.value.why


def test_profile_names_every_instruction_and_adds_up(artifact: Path) -> None:
    session = EngineModel(artifact).session(profile=True)
    for _ in range(3):
        step(session, PROMPT, 0)
    rows = session.profile(reset=True)
    assert {row.calls for row in rows} == {3} and all(row.total_ns > 0 for row in rows)
    names = [row.name for row in rows]
    assert "delegate" in names and any("attention" in name for name in names)
    assert session.profile() == () and EngineModel(artifact).session().profile() == ()


def test_packed_weights_are_written_once_and_mapped_afterwards(artifact: Path, packed: Path) -> None:
    wanted = greedy(EngineModel(artifact).session(), PROMPT, 4)
    written = EngineModel(artifact, packed=packed)
    assert written.info.packed == "written" and written.info.packed_bytes == packed.stat().st_size > 0
    assert greedy(written.session(), PROMPT, 4) == wanted
    written.close()
    before = (packed.stat().st_mtime_ns, packed.stat().st_size)
    mapped = EngineModel(artifact, packed=packed)
    assert mapped.info.packed == "mapped" and greedy(mapped.session(), PROMPT, 4) == wanted
    mapped.session()
    assert (packed.stat().st_mtime_ns, packed.stat().st_size) == before
    assert {path.name for path in packed.parent.iterdir()} == {"tiny.packed", "tiny.packed.lock"}


MAPS = """
import json, sys
from pathlib import Path
from edgec.runtime_py.engines.engine import EngineModel
packed = Path(sys.argv[2])
model = EngineModel(Path(sys.argv[1]), packed=packed)
maps = [line.split() for line in open("/proc/self/maps") if line.rstrip().endswith(str(packed))]
print(json.dumps([model.info.packed, [row[1] for row in maps], "torch" in sys.modules]))
"""


def test_two_processes_map_the_same_file_read_only_and_without_torch(artifact: Path, packed: Path) -> None:
    held = EngineModel(artifact, packed=packed)
    assert in_another_process(MAPS, artifact, packed) == ["mapped", ["r--s"], False]
    assert held.info.packed == "written"


def _flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 3] ^= 0xFF
    path.write_bytes(content)


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-4096])


def _replace_by_copy(path: Path) -> None:
    shutil.copy(path, path.with_name("copy"))
    os.replace(path.with_name("copy"), path)


def _forget_stamp(path: Path) -> None:
    path.with_name(path.name + ".lock").write_bytes(b"")


DAMAGES = [_flip, _cut, _replace_by_copy, _forget_stamp, Path.unlink]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_packed_file_that_is_not_the_one_written_is_rebuilt(
    artifact: Path, packed: Path, damage: Callable[[Path], None]
) -> None:
    intact = EngineModel(artifact, packed=packed)
    wanted = greedy(intact.session(), PROMPT, 4)
    intact.close()
    good = packed.read_bytes()
    damage(packed)
    rebuilt = EngineModel(artifact, packed=packed)
    assert rebuilt.info.packed == "written" and greedy(rebuilt.session(), PROMPT, 4) == wanted
    assert packed.stat().st_size == len(good)


def test_a_path_too_long_for_the_backend_means_packing_in_memory(artifact: Path, tmp_path: Path) -> None:
    folder = tmp_path / ("d" * 240)
    folder.mkdir()
    model = EngineModel(artifact, packed=folder / "tiny.packed")
    assert model.info.packed == "in memory" and list(folder.iterdir()) == []
    assert greedy(model.session(), PROMPT, 4) == greedy(EngineModel(artifact).session(), PROMPT, 4)


def test_sessions_of_one_bundle_share_program_weights_and_packed_file(tiny_bundle: Path) -> None:
    bundle = opened(tiny_bundle)
    first, second = (open_executor("edgec", bundle.artifact_path, digest=artifact_digest(bundle)) for _ in range(2))
    assert isinstance(first, EngineSession) and isinstance(second, EngineSession)
    assert first.model is second.model and first.model.info.packed_bytes > 0
    packed = packed_file(artifact_digest(bundle))
    assert packed is not None and packed.is_file()


def test_an_export_leaves_the_note_that_its_artifact_was_executed(tiny_bundle: Path) -> None:
    assert was_executed(artifact_digest(opened(tiny_bundle)), "edgec")


SPEAKS = """
import json, sys
from edgec.runtime_py.sessions.session import Session
session = Session(sys.argv[1], threads=1)
top1 = int(session.prefill([1, 2, 3], 0).argmax())
print(json.dumps([session.engine, session.threads, top1, "torch" in sys.modules]))
"""


def test_a_session_on_own_operators_needs_no_torch(tiny_bundle: Path) -> None:
    wanted = int(Session(tiny_bundle).prefill([1, 2, 3], 0).argmax())
    assert in_another_process(SPEAKS, tiny_bundle) == ["edgec", 1, wanted, False]
