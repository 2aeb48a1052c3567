"""A tokenizer of one word beside a model: some exporters refuse a folder without one, and none of them uses it."""

from __future__ import annotations

import json
from pathlib import Path

_ONE_WORD = {"version": "1.0", "added_tokens": [], "model": {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "a"}}


def folder_with_tokenizer(source: Path, folder: Path) -> Path:
    """A folder that links to the model in ``source`` and has a tokenizer; returns it."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("config.json", "model.safetensors"):
        link = folder / name
        link.unlink(missing_ok=True)
        link.symlink_to((source / name).resolve())
    (folder / "tokenizer.json").write_text(json.dumps(_ONE_WORD))
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast"}))
    return folder
