"""What the files beside a sentence encoder's parts say: how its text is read, and what goes before it.

sentence_bert_config.json           max_seq_length, do_lower_case, and arguments of its Transformer
tokenizer_config.json               model_max_length, where the former has no length
config_sentence_transformers.json   prompts, default_prompt_name, model_type

Every argument that changes a vector is either read or refused by its name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from edgec.bundle.encoding import token_ids
from edgec.bundle.limited_json import JsonKind, first_fault, read_model, read_object
from edgec.bundle.sentence_prompts import USUAL_PROMPTS, PromptName, PromptText, SentencePrompts
from edgec.exporter.sources.files.plain_files import is_plain
from edgec.exporter.sources.tokenizer import load_tokenizer

KIND = JsonKind(
    what="A file that says how token vectors become a sentence's vector is not valid.",
    fix="copy the file again from the model's page, or export with --task feature-extraction for the tokens' vectors",
    code="E641",
)
# In the order in which sentence-transformers looks for them.
_SETTINGS = tuple(
    f"sentence_{model}_config.json"
    for model in ("bert", "roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet")
)
_PROMPTS = "config_sentence_transformers.json"
_TOKENIZER = "tokenizer_config.json"
_TEXT = {"text": {"method": "forward", "method_output_name": "last_hidden_state"}}
# Values of arguments that leave the vector of a text as edgec computes it.
_NEUTRAL: Mapping[str, tuple[object, ...]] = {
    "transformer_task": (None, "feature-extraction"),
    "modality_config": (None, _TEXT),
    "module_output_name": (None, "token_embeddings"),
    "processing_kwargs": (None, {}),
    "query_length": (None,),
    "document_length": (None,),
    "query_expansion": (None,),
    "tokenizer_name_or_path": (None,),
}
# Arguments that never change it, and the older names of the tables of arguments.
_WITHOUT_EFFECT = frozenset(("unpad_inputs", "backend"))
_READ = frozenset(("max_seq_length", "do_lower_case"))
_TABLES: Mapping[str, frozenset[str]] = {
    **dict.fromkeys(("model_args", "model_kwargs"), frozenset(("dtype", "torch_dtype", "attn_implementation"))),
    **dict.fromkeys(("tokenizer_args", "processor_kwargs"), frozenset(("use_fast", "padding_side"))),
    **dict.fromkeys(("config_args", "config_kwargs"), frozenset(("use_cache",))),
}
_OF_ANY = frozenset(("trust_remote_code", "model_max_length"))
_LARGEST_LENGTH = 1 << 24


@dataclass(frozen=True)
class SentenceSettings:
    """How a text is read.

    Attributes:
        most_tokens: the longest text that the model's authors read, special tokens included; None: not stated.
        prompts: what goes before it; None where nothing does.
        files: what was read.
    """

    most_tokens: int | None
    prompts: SentencePrompts | None
    files: tuple[Path, ...]


def read_settings(folder: Path) -> SentenceSettings:
    """Read the settings of a sentence encoder.

    Raises:
        InputError: E641, a file is damaged, or asks for what edgec does not do; E113, small letters are asked for and
            the tokenizer cannot be read.
    """
    file = next((folder / name for name in _SETTINGS if is_plain(folder / name)), None)
    told = read_object(file, KIND) if file else {}
    if file is not None:
        _refuse_unknown(file, told)
        if told.get("do_lower_case") and not _lowers(folder):
            raise KIND.refusal(file, "do_lower_case wants small letters, which the tokenizer does not make of a text")
    prompts = folder / _PROMPTS
    read = tuple(each for each in (file, prompts) if each is not None and is_plain(each))
    return SentenceSettings(_length(folder, told), _prompts(prompts) if prompts in read else None, read)


def _refuse_unknown(file: Path, told: Mapping[str, Any]) -> None:
    for name, value in told.items():
        if name in _TABLES:
            fault = next(_unread_arguments(name, value), None)
        elif name in _NEUTRAL:
            fault = None if value in _NEUTRAL[name] else name
        else:
            fault = None if name in _READ | _WITHOUT_EFFECT or value is None else name
        if fault is not None:
            raise KIND.refusal(file, f"edgec does not do what {fault} asks for")


def _unread_arguments(table: str, value: object) -> Iterator[str]:
    given = value if isinstance(value, Mapping) else {}
    yield from (f"{table}.{name}" for name in given if name not in _TABLES[table] | _OF_ANY)
    if value is not None and not isinstance(value, Mapping):
        yield table


def _length(folder: Path, told: Mapping[str, Any]) -> int | None:
    """The most tokens of a text, from the first place that states it."""
    tables = [told.get(name) for name in ("processor_kwargs", "tokenizer_args")]
    own = read_object(folder / _TOKENIZER, KIND) if is_plain(folder / _TOKENIZER) else {}
    named = [table.get("model_max_length") for table in (*tables, own) if isinstance(table, Mapping)]
    stated = (value for value in (told.get("max_seq_length"), *named) if type(value) is int and value > 0)
    first = next(stated, None)
    # A tokenizer without a length states 10^30.
    return first if first is not None and first < _LARGEST_LENGTH else None


def _lowers(folder: Path) -> bool:
    """Whether a tokenizer makes the same of every capital letter as of its small one."""
    from tokenizers.normalizers import Lowercase

    normalizer = getattr(getattr(load_tokenizer(folder), "backend_tokenizer", None), "normalizer", None)
    capitals = "".join(each for each in map(chr, range(0xD800)) if each != each.lower())
    small: str = Lowercase().normalize_str(capitals)
    return normalizer is not None and normalizer.normalize_str(capitals) == normalizer.normalize_str(small)


class _Stated(BaseModel):
    """The fields of config_sentence_transformers.json that are used."""

    model_config = ConfigDict(protected_namespaces=())

    model_type: str | None = None
    prompts: dict[PromptName, PromptText | None] = Field(default={}, max_length=200)
    default_prompt_name: PromptName | None = None


def _prompts(file: Path) -> SentencePrompts | None:
    stated = read_model(file, _Stated, KIND)
    if stated.model_type not in (None, "SentenceTransformer"):
        raise KIND.refusal(file, f"model_type is {stated.model_type!r}: the model does not make one vector of a text")
    prompts = {**dict.fromkeys(USUAL_PROMPTS, ""), **{name: text or "" for name, text in stated.prompts.items()}}
    default = stated.default_prompt_name
    if default is not None and default not in prompts:
        raise KIND.refusal(file, f"default_prompt_name is {default!r}, and there is no prompt of that name")
    if not any(prompts.values()):
        return None
    try:
        return SentencePrompts(prompts=prompts, default_prompt=default)
    except ValidationError as error:
        raise KIND.refusal(file, first_fault(error)) from error


def with_unpooled(prompts: SentencePrompts, folder: Path, longest: int, trust_remote_code: bool) -> SentencePrompts:
    """Prompts with the number of tokens of each that the model's pooling leaves out.

    As sentence-transformers counts them: those of the prompt alone, without a special token at its end.

    Args:
        prompts: as read.
        folder: the model's.
        longest: the most tokens that the model reads.
        trust_remote_code: run tokenizer code that comes with the model.

    Raises:
        InputError: E113, there is no tokenizer; E641, a prompt leaves no room for a text.
    """
    tokenizer = load_tokenizer(folder, trust_remote_code=trust_remote_code)
    special = frozenset(tokenizer.all_special_ids)
    counts = {}
    for name, text in prompts.prompts.items():
        ids = token_ids(tokenizer, text) if text else []
        counts[name] = len(ids) - (bool(ids) and ids[-1] in special)
        if counts[name] >= longest:
            raise KIND.refusal(folder / _PROMPTS, f"the prompt {name!r} has {counts[name]} of at most {longest} tokens")
    return prompts.model_copy(update={"unpooled": {name: count for name, count in counts.items() if count}})
