"""A GGUF file as a model's folder: config, generation settings and tokenizer are written to the cache, weights stay.

The folder's name is the sha256 of all that it is made of, so that it is made once and never changes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from edgec.bundle.atomic import NameTaken, new_folder
from edgec.exporter.provenance import source_digest
from edgec.exporter.sources.files.model_folder import CONFIG, GENERATION_CONFIG, ModelFolder, read_folder
from edgec.exporter.sources.gguf.config import gguf_config
from edgec.exporter.sources.gguf.file import GgufFile, read_gguf
from edgec.exporter.sources.gguf.metadata import ARCHITECTURE, token_id
from edgec.exporter.sources.gguf.tokenizer import write_tokenizer
from edgec.exporter.sources.gguf.vocabulary import GgufVocabulary, read_vocabulary, vocabulary_fault
from edgec.installation import cache_root

KIND = "gguf"
"""The folder of the cache."""
_LICENCE, _SAMPLING = "general.license", "general.sampling"
_MOST_LICENCE = 64
# What a file may state about sampling, by the names of generation_config.json.
_SAMPLED: Mapping[str, str] = {
    **{"temperature": "temp", "top_k": "top_k", "top_p": "top_p", "min_p": "min_p"},
    **{"repetition_penalty": "penalty_repeat"},
}


def read_gguf_folder(path: Path) -> tuple[GgufFile, ModelFolder]:
    """Read a GGUF file, or all parts of one, as a model's folder whose weights lie in the file.

    Raises:
        InputError: E800 to E811, of which the last is also for more tokens than the embedding has rows; E121 or E122,
            the cache cannot be written.
    """
    file = read_gguf(path)
    config, vocabulary = gguf_config(file), read_vocabulary(file)
    rows, tokens = int(config["vocab_size"]), len(vocabulary.tokens) if vocabulary else 0
    if tokens > rows:
        raise vocabulary_fault(file, f"it has {tokens:,} tokens, and the embedding has {rows:,} rows")
    folder = cache_root() / KIND / _key(file, config)
    if not folder.is_dir():
        with suppress(NameTaken), new_folder(folder) as made:
            _write(made, file, config, vocabulary)
    described = read_folder(folder)
    licence = file.metadata.get(_LICENCE)
    stated = licence[:_MOST_LICENCE] if isinstance(licence, str) and licence else None
    return file, replace(described, licence=stated, stored=partial(_weights, file))


def _weights(file: GgufFile, model: Any) -> Any:
    from edgec.exporter.sources.gguf.weights import gguf_weights

    return gguf_weights(file, model)


def _write(folder: Path, file: GgufFile, config: Mapping[str, Any], vocabulary: GgufVocabulary | None) -> None:
    _write_json(folder / CONFIG, config)
    _write_json(folder / GENERATION_CONFIG, _generation(file, vocabulary))
    if vocabulary is not None:
        write_tokenizer(vocabulary, str(file.metadata[ARCHITECTURE]), int(config["max_position_embeddings"]), folder)


def _write_json(file: Path, content: Mapping[str, Any]) -> None:
    file.write_text(json.dumps(content, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")


def _generation(file: GgufFile, vocabulary: GgufVocabulary | None) -> dict[str, Any]:
    """How texts begin and end, and how the file says that tokens are to be drawn."""
    ids = {"bos_token_id": token_id(file, "bos"), "pad_token_id": token_id(file, "padding")}
    ends = list(vocabulary.ends) if vocabulary else []
    stated = {name: file.metadata.get(f"{_SAMPLING}.{key}") for name, key in _SAMPLED.items()}
    drawn = {name: value for name, value in stated.items() if type(value) in (int, float)}
    return {
        **{name: number for name, number in ids.items() if number is not None},
        **({"eos_token_id": ends[0] if len(ends) == 1 else ends} if ends else {}),
        **({"do_sample": True} if drawn else {}),
        **drawn,
    }


def _key(file: GgufFile, config: Mapping[str, Any]) -> str:
    made_of = {
        "metadata": dict(file.metadata),
        "config": dict(config),
        "edgec": source_digest((__name__,), ()),
        "tokenizers": version("tokenizers"),
    }
    return hashlib.sha256(json.dumps(made_of, sort_keys=True).encode()).hexdigest()
