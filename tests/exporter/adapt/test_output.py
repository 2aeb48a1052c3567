"""``adapt --force`` replaces what adapt wrote, and nothing else."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from edgec.errors import InputError
from edgec.exporter.adapt.checkpoint import forget
from edgec.exporter.recipes.adapt_record import AdaptRecord, check_free


def _adapted(folder: Path) -> Path:
    folder.mkdir()
    record = AdaptRecord(passes=("fake_quantize",), recipe="balanced2.toml").to_json()
    (folder / "config.json").write_text(json.dumps({"model_type": "llama", "edgec": record}))
    for name in ("model.safetensors", "tokenizer.json", "balanced2.toml", "training.json", "README.md", "report.html"):
        (folder / name).write_text(name)
    return folder


def test_an_adapted_model_is_replaced_only_when_asked(tmp_path: Path) -> None:
    out = _adapted(tmp_path / "out")
    with pytest.raises(InputError) as caught:
        check_free(out, force=False)
    assert caught.value.code == "E508"
    check_free(out, force=True)
    (out / "model.safetensors").write_bytes(b"cut")
    (out / "training.json").unlink()
    check_free(out, force=True)
    check_free(tmp_path / "new", force=True)


@pytest.mark.parametrize(
    "config",
    [None, "[]", "{", "null", '{"model_type": "llama"}', '{"edgec": 1}', '{"edgec": {"version": 2}}', "[" * 5000],
)
def test_a_folder_without_the_record_is_kept(tmp_path: Path, config: str | None) -> None:
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter-1.md").write_text("ten years of work")
    if config is not None:
        (tmp_path / "thesis" / "config.json").write_text(config)
    with pytest.raises(InputError) as caught:
        check_free(tmp_path / "thesis", force=True)
    assert caught.value.code == "E123" and (tmp_path / "thesis" / "chapter-1.md").exists()


@pytest.mark.parametrize("name", ["notes.txt", "runs/log.txt", "model.safetensors.bak", ".hidden"])
def test_a_file_of_the_users_is_named_and_kept(tmp_path: Path, name: str) -> None:
    out = _adapted(tmp_path / "out")
    (out / name).parent.mkdir(exist_ok=True)
    (out / name).write_text("mine")
    with pytest.raises(InputError) as caught:
        check_free(out, force=True)
    assert caught.value.code == "E123" and name.split("/", maxsplit=1)[0] in caught.value.why


@pytest.mark.parametrize("kind", ["file", "link", "broken link"])
def test_what_is_no_folder_is_kept(tmp_path: Path, kind: str) -> None:
    out = tmp_path / "out"
    out.touch() if kind == "file" else out.symlink_to(_adapted(tmp_path / "real") if kind == "link" else tmp_path / "x")
    for force, code in ((True, "E123"), (False, "E508")):
        with pytest.raises(InputError) as caught:
            check_free(out, force)
        assert caught.value.code == code and os.path.lexists(out)


def test_a_restart_forgets_the_checkpoint_and_nothing_else(tmp_path: Path) -> None:
    checkpoint = tmp_path / ".out.adapt" / "checkpoint.pt"
    checkpoint.parent.mkdir()
    checkpoint.touch()
    (checkpoint.parent / "mine.txt").touch()
    forget(checkpoint)
    assert os.listdir(checkpoint.parent) == ["mine.txt"]
    (checkpoint.parent / "mine.txt").unlink()
    checkpoint.touch()
    forget(checkpoint)
    assert not checkpoint.parent.exists()
