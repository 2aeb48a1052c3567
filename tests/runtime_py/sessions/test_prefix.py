from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from edgec.bundle.canonical import canonical_json, seal
from edgec.bundle.checked_files import file_sha256
from edgec.bundle.entry_points import Limits, StateInfo
from edgec.bundle.folder import Bundle, open_bundle, read_manifest, write_bundle
from edgec.bundle.prefix import STATE, SystemPrompt, prefix_files, prefix_info
from edgec.errors import InputError
from edgec.runtime_py.sessions.origin import origin
from edgec.runtime_py.sessions.prefix import Prefix, open_prefix, recall_prefix, restore_prefix
from edgec.runtime_py.sessions.session_file import Contents, SessionPlace, write_session_file
from edgec.runtime_py.sessions.snapshots import Snapshots
from tests.runtime_py.fake_arena import CONTEXT, FULL, WITH_RING, ArenaStepper
from tests.runtime_py.tiny_decoder import manifest

PREFIX = (5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61)
QUESTION = [3, 1, 4, 1, 5]
RECIPE = {"name": "float"}


def bundle_with_prefix(
    folder: Path, states: Sequence[StateInfo] = FULL, recipe: dict[str, Any] = RECIPE, tokenizer: bytes = b"{}"
) -> Bundle:
    """A bundle whose prefix was computed by the fake decoder, with ``recipe`` and ``tokenizer``, for RECIPE and {}."""
    folder.mkdir()
    (folder / "model.pte").write_bytes(b"artifact")
    (folder / "tokenizer.json").write_bytes(tokenizer)
    session = ArenaStepper(states)
    session.prefill(PREFIX, 0)
    digests = {"tokenizer/tokenizer.json": file_sha256(folder / "tokenizer.json")}
    made_by = origin(file_sha256(folder / "model.pte"), recipe, digests, states)
    contents = Contents(PREFIX, len(PREFIX))
    size = write_session_file(folder / "state", SessionPlace(made_by, tuple(states), CONTEXT), contents, session.arena)
    prompt = SystemPrompt("Be kind.", "text", PREFIX)
    fields: dict[str, Any] = {"states": list(states), "recipe": RECIPE, "limits": limits()}
    fields["prefix"] = prefix_info(prompt, size, made_by.fingerprint(PREFIX))
    files: dict[str, bytes | Path] = {"model.pte": b"artifact", "tokenizer/tokenizer.json": b"{}"}
    write_bundle(folder / "b.edgec", manifest(**fields), files | dict(prefix_files(prompt, folder / "state")))
    return open_bundle(folder / "b.edgec")


def limits() -> Limits:
    return Limits(context=CONTEXT, prefill_chunk=8, logit_rows=8)


def answer(session: ArenaStepper, prompt: Sequence[int], cached: int) -> int:
    return int(session.prefill(prompt[cached:], cached).argmax())


def continued(session: ArenaStepper, prefix: Prefix | None, tokens: Sequence[int]) -> int:
    """What is recalled where nothing was snapshot."""
    return recall_prefix(session, prefix, Snapshots(session, ()), tokens)


@pytest.mark.parametrize("states", [FULL, WITH_RING])
@pytest.mark.parametrize("take", [restore_prefix, continued])
def test_a_prompt_that_begins_with_it_is_not_computed_again(
    states: Sequence[StateInfo], take: Any, tmp_path: Path
) -> None:
    prefix = open_prefix(bundle_with_prefix(tmp_path / "b", states))
    session, fresh = ArenaStepper(states), ArenaStepper(states)
    prompt = [*PREFIX, *QUESTION]
    cached = take(session, prefix, prompt)
    assert cached == len(PREFIX) and session.computed == []
    assert answer(session, prompt, cached) == answer(fresh, prompt, 0)
    assert session.computed == list(range(len(PREFIX), len(prompt)))


def test_a_prompt_that_begins_with_a_part_of_it_uses_that_part(tmp_path: Path) -> None:
    prefix = open_prefix(bundle_with_prefix(tmp_path / "b"))
    session = ArenaStepper()
    prompt = [*PREFIX[:9], *QUESTION]
    assert restore_prefix(session, prefix, prompt) == 9 and session.cache.tokens == list(PREFIX[:9])
    assert answer(session, prompt, 9) == answer(ArenaStepper(), prompt, 0)


def test_the_prefix_itself_as_a_prompt_leaves_one_token_for_its_logits(tmp_path: Path) -> None:
    prefix = open_prefix(bundle_with_prefix(tmp_path / "b"))
    session = ArenaStepper()
    assert restore_prefix(session, prefix, PREFIX) == len(PREFIX) - 1
    assert answer(session, PREFIX, len(PREFIX) - 1) == answer(ArenaStepper(), PREFIX, 0)


def test_a_prompt_of_its_own_is_computed_whole(tmp_path: Path) -> None:
    prefix = open_prefix(bundle_with_prefix(tmp_path / "b"))
    session = ArenaStepper()
    assert restore_prefix(session, prefix, QUESTION) == continued(session, prefix, QUESTION) == 0
    assert restore_prefix(session, None, QUESTION) == continued(session, None, QUESTION) == 0


def test_of_cache_and_prefix_the_longer_one_is_used(tmp_path: Path) -> None:
    prefix = open_prefix(bundle_with_prefix(tmp_path / "b"))
    session = ArenaStepper()
    turn = [*PREFIX, *QUESTION, 8, 8]
    session.prefill(turn, 0)
    assert continued(session, prefix, [*turn, 9]) == len(turn), "a second turn goes on from the first"
    session.prefill(QUESTION, 0)
    assert continued(session, prefix, turn) == len(PREFIX), "another use of the cache has come between"
    assert answer(session, turn, len(PREFIX)) == answer(ArenaStepper(), turn, 0)


def test_a_cache_that_holds_the_prefix_already_is_not_copied_into(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prefix = open_prefix(bundle_with_prefix(tmp_path / "b"))
    session = ArenaStepper()
    restore_prefix(session, prefix, [*PREFIX, 1])
    assert prefix is not None
    prefix.file.path.unlink()
    assert restore_prefix(session, prefix, [*PREFIX, 2]) == len(PREFIX)


def test_where_states_are_out_of_reach_everything_is_computed(tmp_path: Path) -> None:
    prefix = open_prefix(bundle_with_prefix(tmp_path / "b"))
    session = ArenaStepper(reachable=False)
    prompt = [*PREFIX, *QUESTION]
    assert restore_prefix(session, prefix, prompt) == continued(session, prefix, prompt) == 0
    assert answer(session, prompt, 0) == answer(ArenaStepper(), prompt, 0)


@pytest.mark.parametrize(
    ("made_with", "part"), [({"recipe": {"name": "4bit"}}, "recipe"), ({"tokenizer": b"[]"}, "tokenizer")]
)
def test_a_prefix_of_something_else_is_refused_by_name(made_with: dict[str, Any], part: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as refused:
        open_prefix(bundle_with_prefix(tmp_path / "b", **made_with))
    assert refused.value.code == "E193" and refused.value.why == f"these differ: {part}"


def test_a_prefix_of_another_model_is_refused(tmp_path: Path) -> None:
    """Even where the manifest was made consistent again: the state says which artifact it belongs to."""
    bundle = bundle_with_prefix(tmp_path / "b")
    bundle.artifact_path.write_bytes(b"another!")
    reseal(bundle.path)
    with pytest.raises(InputError) as refused:
        open_prefix(open_bundle(bundle.path))
    assert refused.value.code == "E193" and refused.value.why == "these differ: model"


def test_a_prefix_of_another_text_is_refused(tmp_path: Path) -> None:
    bundle = bundle_with_prefix(tmp_path / "b")
    info = bundle.manifest.prefix
    assert info is not None
    manifest_ = bundle.manifest.model_copy(update={"prefix": info.model_copy(update={"fingerprint": "0" * 64})})
    (bundle.path / "manifest.json").write_bytes(canonical_json(seal(manifest_)))
    with pytest.raises(InputError) as refused:
        open_prefix(open_bundle(bundle.path))
    assert refused.value.code == "E193" and "tokens" in refused.value.why


@pytest.mark.parametrize("at", [0, 40, -1])
def test_a_flipped_bit_is_caught_by_the_bundle_and_without_its_hashes_by_the_file(at: int, tmp_path: Path) -> None:
    bundle = bundle_with_prefix(tmp_path / "b")
    content = bytearray((bundle.path / STATE).read_bytes())
    content[at] ^= 4
    (bundle.path / STATE).write_bytes(content)
    with pytest.raises(InputError, match="E135"):
        open_bundle(bundle.path)
    with pytest.raises(InputError, match=r"E19[23]"):
        open_prefix(open_bundle(bundle.path, check_files=False))


def reseal(path: Path) -> None:
    """Make a changed bundle consistent in itself."""
    listed = read_manifest(path)
    files = [f.model_copy(update={"sha256": file_sha256(path / f.path)}) for f in listed.files]
    (path / "manifest.json").write_bytes(canonical_json(seal(listed.model_copy(update={"files": files}))))
