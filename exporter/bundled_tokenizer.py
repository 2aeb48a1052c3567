"""A bundle's copy of a tokenizer, which reads as the model's own does, in transformers and in apps.

Other readers of these files take what is not there for something else than transformers does, and take some facts from
tokenizer_config.json that transformers takes from tokenizer.json (swift-transformers, from a folder):

    what                              transformers                      swift-transformers          written down
    clean_up_tokenization_spaces      absent: false                     absent: true, "a ." -> "a." false
    unknown words in a row are one    fuse_unk of tokenizer.json        fuse_unk, absent: false     fuse_unk
    BERT's lower case                 normalizer of tokenizer.json      absent: true                do_lower_case
    BERT's Chinese characters         normalizer of tokenizer.json      absent: true                handle_chinese_chars
    bos_token, ... in chat templates  also its class, and other files   this file alone             each token
    tokenizer_class                   absent: by config.json            absent: refused             the class
    add_bos_token, legacy,            change what tokenizer.json says   ignored                     a tokenizer.json
      add_prefix_space, the class                                                                     that is so changed

edgec never cleans up, also where a model asks for it, since a text that is shown piece by piece cannot be.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from edgec.bundle.encoding import decode_tokens, token_ids
from edgec.bundle.golden_texts import TEXTS
from edgec.bundle.prefix import Files
from edgec.bundle.tokenizer_folder import untrusted_tokenizer

_CONFIG, _STEPS, _CLASS = "tokenizer_config.json", "tokenizer.json", "tokenizer_class"
_BERT: Final = {"lowercase": "do_lower_case", "handle_chinese_chars": "handle_chinese_chars"}
_SPECIAL: Final = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")


def tokenizer_contents(files: Sequence[Path], tokenizer: Any) -> Files:
    """The files of a bundle's ``tokenizer`` folder.

    They are the model's, byte for byte, but for two: tokenizer_config.json also states what readers would guess, and
    tokenizer.json is what transformers made of it where that splits texts differently. For some families (Qwen3.5 in
    transformers 5.23) transformers takes the class that belongs to config.json, which a bundle has not.

    Args:
        files: those of the model's folder.
        tokenizer: what transformers read from that folder; None, if the model has none.
    """
    out: Files = {f"tokenizer/{file.name}": file for file in files}
    if tokenizer is None:
        return out
    named = {file.name: file for file in files}
    declared: dict[str, Any] = json.loads(named[_CONFIG].read_bytes()) if _CONFIG in named else {}
    config = {**_stated(declared, tokenizer), **declared, **_lost_class(files, tokenizer)}
    config["clean_up_tokenization_spaces"] = False
    out[f"tokenizer/{_CONFIG}"] = json.dumps(config, indent=2, ensure_ascii=False).encode()
    if (steps := _own_steps(named.get(_STEPS), tokenizer)) is not None:
        out[f"tokenizer/{_STEPS}"] = steps
    return out


def _stated(declared: Mapping[str, Any], tokenizer: Any) -> dict[str, Any]:
    """What transformers knows from elsewhere, for readers of tokenizer_config.json alone."""
    special = tokenizer.special_tokens_map
    facts: dict[str, Any] = {name: str(special[name]) for name in _SPECIAL if isinstance(special.get(name), str)}
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        return facts
    steps: dict[str, Any] = json.loads(backend.to_str())
    model, normalizer = steps.get("model") or {}, steps.get("normalizer") or {}
    facts |= {"fuse_unk": True} if model.get("type") == "BPE" and model.get("fuse_unk") else {}
    if normalizer.get("type") == "BertNormalizer":
        facts |= {ours: normalizer[theirs] for theirs, ours in _BERT.items() if ours not in declared}
    return facts if declared.get(_CLASS) else {**facts, _CLASS: type(tokenizer).__name__}


def _lost_class(files: Sequence[Path], tokenizer: Any) -> dict[str, str]:
    """The class, where the files alone would make another."""
    same = _class_alone(files) in (None, type(tokenizer))
    return {} if same else {_CLASS: type(tokenizer).__name__}


def _class_alone(files: Sequence[Path]) -> type[Any] | None:
    """The class of the tokenizer that these files alone make; None, if they need the model's code."""
    with TemporaryDirectory() as folder:
        for file in files:
            (Path(folder) / file.name).symlink_to(file.absolute())
        try:
            return type(untrusted_tokenizer(Path(folder)))
        except ValueError:
            return None


def _own_steps(file: Path | None, tokenizer: Any) -> bytes | None:
    """What transformers made of tokenizer.json, where it reads or writes a text differently; None where it does not."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if file is None or backend is None:
        return None
    from tokenizers import Tokenizer

    alone = Tokenizer.from_file(str(file))
    alone.no_truncation()
    alone.no_padding()
    if all(_same(alone, tokenizer, text) for _, text in TEXTS):
        return None
    made = Tokenizer.from_str(backend.to_str())
    made.no_truncation()
    made.no_padding()
    return str(made.to_str(pretty=False)).encode()


def _same(alone: Any, tokenizer: Any, text: str) -> bool:
    ids = token_ids(tokenizer, text)
    return bool(
        alone.encode(text).ids == ids
        and alone.encode(text, add_special_tokens=False).ids == token_ids(tokenizer, text, special=False)
        and alone.decode(ids) == decode_tokens(tokenizer, ids)
    )
