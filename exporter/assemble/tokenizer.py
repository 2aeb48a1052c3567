"""A bundle's copy of a tokenizer, which reads as the model's own does."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from edgec.bundle.prefix import Files
from edgec.bundle.tokenizer_folder import untrusted_tokenizer

_CONFIG: Final = "tokenizer_config.json"


def tokenizer_contents(files: Sequence[Path], tokenizer: Any) -> Files:
    """The files of a bundle's ``tokenizer`` folder.

    They are the model's, byte for byte, but for one case: for some families (Qwen3.5 in transformers 5.23) transformers
    takes the class that belongs to config.json and not the one in tokenizer_config.json, and another class splits
    texts differently. A bundle has no config.json, so the class is written down where it would be lost.

    Args:
        files: those of the model's folder.
        tokenizer: what transformers read from that folder; None, if the model has none.
    """
    out: Files = {f"tokenizer/{file.name}": file for file in files}
    if tokenizer is None or _class_alone(files) in (None, type(tokenizer)):
        return out
    declared: dict[str, Any] = next((json.loads(file.read_bytes()) for file in files if file.name == _CONFIG), {})
    config = {**declared, "tokenizer_class": type(tokenizer).__name__}
    return {**out, f"tokenizer/{_CONFIG}": json.dumps(config, indent=2, ensure_ascii=False).encode()}


def _class_alone(files: Sequence[Path]) -> type[Any] | None:
    """The class of the tokenizer that these files alone make; None, if they need the model's code."""
    with TemporaryDirectory() as folder:
        for file in files:
            (Path(folder) / file.name).symlink_to(file.absolute())
        try:
            return type(untrusted_tokenizer(Path(folder)))
        except ValueError:
            return None
