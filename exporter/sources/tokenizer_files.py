"""Load the tokenizer that lies beside a model, or say why that is impossible."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from edgec.bundle.tokenizer_folder import untrusted_tokenizer
from edgec.errors import InputError
from edgec.exporter.sources.model_folder import tokenizer_files


def load_tokenizer(folder: Path, *, trust_remote_code: bool = False) -> Any:
    """The transformers tokenizer of a model folder, read without the network.

    Args:
        folder: the model folder.
        trust_remote_code: run tokenizer code that comes with the model.

    Raises:
        InputError: E113, there is no tokenizer or its files cannot be read.
    """
    if not tokenizer_files(folder):
        raise _error("The model has no tokenizer.", folder, "none of the known tokenizer files is there")
    try:
        if not trust_remote_code:
            return untrusted_tokenizer(folder)
        from transformers import AutoTokenizer

        return AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=True)
    except Exception as error:  # tokenizers and transformers raise bare Exceptions on damaged files.
        raise _error("The tokenizer cannot be read.", folder, " ".join(str(error).split())[:300]) from error


def _error(what: str, folder: Path, why: str) -> InputError:
    return InputError(
        what=what,
        where=str(folder),
        why=why,
        fix="Copy tokenizer.json and tokenizer_config.json of the same model into the folder.",
        code="E113",
    )
