from __future__ import annotations

import json
import os
import resource
import signal
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load_file

from edgec.bundle.entry_points import StateInfo
from edgec.errors import InputError
from edgec.runtime_py.sessions.saved_session import load_session, save_session
from edgec.runtime_py.sessions.session_file import Contents, SessionPlace, write_session_file
from tests.runtime_py.fake_arena import CONTEXT, FULL, PADDING, WITH_RING, ArenaStepper, place, state

TOKENS = [5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71, 73, 79]
NEXT = [3, 1, 4, 1, 5]
MESSAGES = ({"role": "user", "content": "Grüß Gott"}, {"role": "assistant", "content": "Hi"})


def filled(states: Sequence[StateInfo] = FULL, tokens: Sequence[int] = TOKENS) -> ArenaStepper:
    stepper = ArenaStepper(states)
    stepper.prefill(tokens, 0)
    return stepper


def continued(stepper: ArenaStepper, start: int) -> list[int]:
    result: list[int] = stepper.forward(NEXT, start, range(len(NEXT))).argmax(-1).tolist()
    return result


@pytest.mark.parametrize("states", [FULL, WITH_RING])
def test_a_restored_session_goes_on_as_the_saved_one(states: Sequence[StateInfo], tmp_path: Path) -> None:
    original, other = filled(states), ArenaStepper(states)
    save_session(original, place(states), tmp_path / "s", MESSAGES)
    assert load_session(other, place(states), tmp_path / "s") == MESSAGES
    assert other.cache.tokens == TOKENS and other.computed == []
    assert continued(other, len(TOKENS)) == continued(original, len(TOKENS))


@given(
    lengths=st.lists(st.tuples(st.integers(0, 30), st.integers(1, 20)), min_size=1, max_size=4),
    rewind=st.integers(0, 10),
)
def test_rewound_rings_come_back_as_they_were(
    lengths: list[tuple[int, int]], rewind: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("s") / "s"
    original, other = ArenaStepper(WITH_RING), ArenaStepper(WITH_RING)
    for start, count in lengths:
        if original.cache.continues_at(start):
            original.prefill([(start * 7 + i) % 90 for i in range(count)], start)
    save_session(original, place(WITH_RING), path)
    load_session(other, place(WITH_RING), path)
    start = max(0, len(original.cache.tokens) - rewind)
    assert other.cache.continues_at(start) == original.cache.continues_at(start)
    if original.cache.continues_at(start):
        assert continued(other, start) == continued(original, start)


def test_only_used_slots_are_written_and_any_safetensors_reader_reads_them(tmp_path: Path) -> None:
    written = save_session(filled(WITH_RING), place(WITH_RING), tmp_path / "s")
    tensors = load_file(tmp_path / "s")
    assert written == (tmp_path / "s").stat().st_size
    assert tensors["tokens"].tolist() == TOKENS
    assert tensors["key_0"].shape == (1, len(TOKENS), 2, 4) and tensors["key_0"].tobytes()[::8] == bytes(TOKENS)
    assert tensors["key_1"].shape == (1, 14, 2, 4), "a ring that has turned is kept whole"


def test_the_neighbours_of_a_state_are_left_alone(tmp_path: Path) -> None:
    save_session(filled(), place(), tmp_path / "s")
    other = ArenaStepper()
    load_session(other, place(), tmp_path / "s")
    arena = other.arena
    assert arena is not None
    assert set(arena[:PADDING].tolist()) == set(arena[PADDING + 8 * len(TOKENS) :].tolist()) == {0xA5}


def test_an_empty_session_is_saved_and_restored(tmp_path: Path) -> None:
    save_session(ArenaStepper(), place(), tmp_path / "s")
    other = filled()
    load_session(other, place(), tmp_path / "s")
    assert other.cache.tokens == [] and continued(other, 0) == continued(ArenaStepper(), 0)


@pytest.mark.parametrize(
    ("saves", "loads", "computed"), [(True, False, len(TOKENS)), (False, True, len(TOKENS)), (True, True, 0)]
)
def test_where_states_are_out_of_reach_the_tokens_are_computed_again(
    saves: bool, loads: bool, computed: int, tmp_path: Path
) -> None:
    original, other = ArenaStepper(reachable=saves), ArenaStepper(reachable=loads)
    original.prefill(TOKENS, 0)
    save_session(original, place(), tmp_path / "s")
    load_session(other, place(), tmp_path / "s")
    assert len(other.computed) == computed
    assert continued(other, len(TOKENS)) == continued(original, len(TOKENS))


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"artifact_sha256": "other"}, "model"),
        ({"recipe": {"name": "4bit"}}, "recipe"),
        ({"tokenizer": {"t": "other"}}, "tokenizer"),
        ({"states": (state("key_0", CONTEXT + 1, PADDING),)}, "layout"),
        ({"artifact_sha256": "other", "recipe": {}}, "model, recipe"),
    ],
)
def test_another_model_recipe_or_tokenizer_is_refused_by_name(
    changes: dict[str, object], part: str, tmp_path: Path
) -> None:
    save_session(filled(), place(**changes), tmp_path / "s")  # type: ignore[arg-type]
    session = filled(tokens=[1, 2])
    with pytest.raises(InputError) as refused:
        load_session(session, place(), tmp_path / "s")
    assert refused.value.code == "E193" and refused.value.why == f"these differ: {part}"
    assert session.cache.tokens == [1, 2]


def test_every_flipped_bit_and_every_truncation_is_noticed(tmp_path: Path) -> None:
    save_session(filled(tokens=TOKENS[:3]), place(), tmp_path / "s", MESSAGES)
    intact = (tmp_path / "s").read_bytes()
    session = filled(tokens=[1, 2])
    damaged = [intact[:end] for end in range(0, len(intact), 5)] + [intact + b"\0"]
    damaged += [intact[:i] + bytes([intact[i] ^ (1 << i % 8)]) + intact[i + 1 :] for i in range(len(intact))]
    for content in damaged:
        (tmp_path / "d").write_bytes(content)
        with pytest.raises(InputError) as refused:
            load_session(session, place(), tmp_path / "d")
        assert refused.value.code in ("E192", "E193")
    assert session.cache.tokens == [1, 2] and continued(session, 2) == continued(filled(tokens=[1, 2]), 2)


def test_a_sequence_longer_than_the_context_is_refused(tmp_path: Path) -> None:
    save_session(filled(), place(), tmp_path / "s")
    short = SessionPlace(place().origin, FULL, len(TOKENS) - 1)
    with pytest.raises(InputError, match="E192") as refused:
        load_session(ArenaStepper(), short, tmp_path / "s")
    assert "the context has 19" in refused.value.why


@pytest.mark.parametrize(
    "content", [None, b"", b"\xff" * 8, b"\x02" + b"\0" * 7 + b"[]", b"\x04" + b"\0" * 7 + b"null"]
)
def test_what_is_no_session_file_is_refused(content: bytes | None, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / "s").write_bytes(content)
    with pytest.raises(InputError, match="E192"):
        load_session(ArenaStepper(), place(), tmp_path / "s")


def test_a_disk_that_fills_up_leaves_the_old_file(tmp_path: Path) -> None:
    save_session(filled(tokens=[1, 2]), place(), tmp_path / "s")
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, ((tmp_path / "s").stat().st_size + 50, limits[1]))
    try:
        with pytest.raises(InputError) as refused:
            save_session(filled(), place(), tmp_path / "s")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, ignored)
    assert refused.value.code == "E122" and os.listdir(tmp_path) == ["s"]
    other = ArenaStepper()
    load_session(other, place(), tmp_path / "s")
    assert other.cache.tokens == [1, 2]


def test_a_file_that_changes_behind_our_back_leaves_no_half_restored_session(tmp_path: Path) -> None:
    from edgec.runtime_py.sessions.saved_session import restore
    from edgec.runtime_py.sessions.session_file import open_session_file

    save_session(filled(), place(), tmp_path / "s")
    file = open_session_file(tmp_path / "s", place())
    os.truncate(tmp_path / "s", (tmp_path / "s").stat().st_size - 9)
    session = filled(tokens=[1, 2])
    with pytest.raises(InputError, match="E192"):
        restore(session, file, len(TOKENS))
    assert session.cache.tokens == [] and session.cache.continues_at(0)


def _resealed(path: Path, tokens: Sequence[int], messages: str) -> None:
    """A file that is consistent in itself, with other contents."""
    owner = replace(place(), vocab_size=None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("edgec.runtime_py.sessions.session_file.json.dumps", _with_messages(messages))
        write_session_file(path, owner, Contents(tuple(tokens), len(tokens)), None)


def _with_messages(messages: str) -> Callable[..., str]:
    plain = json.dumps

    def dumps(value: Any, **options: Any) -> str:
        return messages if value == () else plain(value, **options)

    return dumps


@pytest.mark.parametrize("tokens", [[PADDING + 10_000], [-1], [1 << 40]])
def test_ids_outside_the_vocabulary_are_refused(tokens: list[int], tmp_path: Path) -> None:
    _resealed(tmp_path / "s", tokens, "[]")
    with pytest.raises(InputError) as caught:
        load_session(ArenaStepper(), replace(place(), vocab_size=500), tmp_path / "s")
    assert caught.value.code == "E192" and "vocabulary" in caught.value.why


@pytest.mark.parametrize(
    "messages",
    ["5", "null", "[5]", '[{"role": "user"}]', '[{"role": 1, "content": "x"}]', '{"role": "user"}', "[" * 5000, "{"],
)
def test_messages_that_are_none_are_refused(messages: str, tmp_path: Path) -> None:
    _resealed(tmp_path / "s", [5, 6], messages)
    with pytest.raises(InputError) as caught:
        load_session(ArenaStepper(), place(), tmp_path / "s")
    assert caught.value.code == "E192"
