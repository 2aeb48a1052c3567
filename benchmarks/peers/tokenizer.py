"""A tokenizer of made-up words for a model: some exporters and every server refuse a model without one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

_BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}


def folder_with_tokenizer(source: Path, folder: Path) -> Path:
    """A folder that links to the model in ``source`` and has a tokenizer; returns it."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("config.json", "model.safetensors"):
        link = folder / name
        link.unlink(missing_ok=True)
        link.symlink_to((source / name).resolve())
    write_tokenizer(folder, json.loads((source / "config.json").read_text())["vocab_size"])
    return folder


def write_tokenizer(folder: Path, vocab_size: int) -> None:
    """Write the files of a tokenizer."""
    (folder / "tokenizer.json").write_text(json.dumps(_tokenizer(vocab_size)))
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast"}))


def made_up_words(count: int) -> list[str]:
    """The word of each token id."""
    return [f"t{token}" for token in range(count)]


def _tokenizer(vocab_size: int) -> dict[str, Any]:
    """A byte-pair encoding without merges: MNN reads no other kind safely."""
    vocab = {word: token for token, word in enumerate(made_up_words(vocab_size))}
    model = {"type": "BPE", "vocab": vocab, "merges": [], "fuse_unk": False}
    return {"version": "1.0", "added_tokens": [], "pre_tokenizer": _BYTES, "decoder": _BYTES, "model": model}
