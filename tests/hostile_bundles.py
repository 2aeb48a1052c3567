"""Bundles that are consistent in themselves and evil inside: digests and sizes are right, what they say is not."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgec.bundle.checked_files import path_fault
from tests.bundle.hostile_tokenizers import harmful

Fields = dict[str, Any]
Change = Callable[[Path, Fields], None]

ODD_VALUES: Mapping[str, Any] = {
    "null": None,
    "true": True,
    "minus one": -1,
    "zero": 0,
    "one": 1,
    "2^31": 1 << 31,
    "2^53": 1 << 53,
    "2^63": 1 << 63,
    "10^39": 10**39,
    "10^400": 10**400,
    "half": 0.5,
    "1e308": 1e308,
    "empty text": "",
    "number in a text": "1",
    "text": "host",
    "long text": "x" * 100_000,
    "path above": "../../etc/hostname",
    "absolute path": "/etc/hostname",
    "folder": "tokenizer",
    "control": "\0\x1b[2J\u202e",
    "empty list": [],
    "empty object": {},
    "nested list": [[[]]],
    "list of texts": ["x"],
    "list of objects": [{}],
    "deep list": "DEEP",
}
_DEEP = "[" * 150 + "]" * 150


@dataclass(frozen=True)
class Case:
    """One way to change an intact bundle, by name."""

    name: str
    change: Change


def make(case: Case, intact: Path, folder: Path) -> Path:
    """A copy of a bundle, changed and sealed again."""
    path = folder / "hostile.edgec"
    shutil.rmtree(path, ignore_errors=True)
    shutil.copytree(intact, path)
    fields = json.loads((path / "manifest.json").read_text())
    case.change(path, fields)
    _seal(path, fields)
    return path


def _seal(path: Path, fields: Fields) -> None:
    files = fields.get("files")
    for entry in files if isinstance(files, list) else []:
        name = entry.get("path") if isinstance(entry, dict) else None
        if not isinstance(name, str) or path_fault(name) or name == "manifest.json":
            continue
        file = path / name
        if file.is_file():
            content = file.read_bytes()
            entry.update(bytes=len(content), sha256=hashlib.sha256(content).hexdigest())
    text = json.dumps({**fields, "digest": ""}, sort_keys=True, indent=2, ensure_ascii=False) + "\n"
    text = text.replace('"DEEP"', _DEEP)
    digest = hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
    signed = text.replace('"digest": ""', f'"digest": "{digest}"')
    (path / "manifest.json").write_bytes(signed.encode(errors="surrogatepass"))


def manifest_cases(fields: Fields) -> Iterator[Case]:
    """Every field of a manifest with every odd value; of equal parts of a list only the first."""
    for place in places(fields):
        for name, value in ODD_VALUES.items():
            yield Case(f"manifest {'.'.join(map(str, place))} = {name}", _set(place, value))
        yield Case(f"manifest without {'.'.join(map(str, place))}", _without(place))


def golden_cases(golden: Fields) -> Iterator[Case]:
    """Every field of golden.json likewise."""
    for place in places(golden):
        for name, value in ODD_VALUES.items():
            yield file_case(
                f"golden {'.'.join(map(str, place))} = {name}", "golden.json", _replaced(golden, place, value)
            )


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The places in a JSON value, without its root; of a list the first item stands for all."""
    if path:
        yield path
    inner = value.items() if isinstance(value, dict) else list(enumerate(value))[:1] if isinstance(value, list) else ()
    for key, child in inner:
        yield from places(child, (*path, key))


def file_case(name: str, file: str, content: Any) -> Case:
    """A file of the bundle with other content (bytes, text or JSON), listed like the others."""
    return Case(f"{file}: {name}", lambda path, fields: put(path, fields, file, content))


def put(path: Path, fields: Fields, file: str, content: Any) -> None:
    """Write a file and list it."""
    raw = content if isinstance(content, bytes) else _text(content).encode(errors="surrogatepass")
    (path / file).parent.mkdir(parents=True, exist_ok=True)
    (path / file).write_bytes(raw)
    if all(entry["path"] != file for entry in fields["files"]):
        fields["files"] = sorted([*fields["files"], {"path": file}], key=lambda entry: entry["path"])


def _text(content: Any) -> str:
    return content if isinstance(content, str) else json.dumps(content).replace('"DEEP"', _DEEP)


def _set(place: tuple[Any, ...], value: Any) -> Change:
    def change(path: Path, fields: Fields) -> None:
        fields.update(_replaced(fields, place, value))

    return change


def _without(place: tuple[Any, ...]) -> Change:
    def change(path: Path, fields: Fields) -> None:
        holder: Any = fields
        for key in place[:-1]:
            holder = holder[key]
        del holder[place[-1]]

    return change


def _replaced(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    copy = value.copy()
    copy[path[0]] = _replaced(value[path[0]], path[1:], new)
    return copy


_DEEP_TEXT = "[" * 100_000
GENERATION_CONFIGS: Mapping[str, Any] = {
    **{name: content for name, content in ODD_VALUES.items() if name != "empty object"},
    **{f"eos {name}": {"eos_token_id": value} for name, value in ODD_VALUES.items()},
    **{f"eos in a list {name}": {"eos_token_id": [2, value]} for name, value in ODD_VALUES.items()},
    **{f"penalty {name}": {"repetition_penalty": value} for name, value in ODD_VALUES.items()},
    "no bytes": b"",
    "cut": b'{"eos_token_id": [',
    "deep": _DEEP_TEXT,
    "UTF-16": '{"eos_token_id": 2}'.encode("utf-16"),
    "not UTF-8": b'{"eos_token_id": "\xff"}',
    "NaN": '{"repetition_penalty": NaN}',
    "Infinity": '{"repetition_penalty": Infinity}',
    "1e999": '{"repetition_penalty": 1e999}',
    "5,000 digits": '{"eos_token_id": ' + "9" * 5000 + "}",
}
TEMPLATES: Mapping[str, str] = {
    "syntax": "{% if %}",
    "raises": "{{ raise_exception('no') }}",
    "sandbox": "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "undefined": "{{ messages[9].content.x.y }}",
    "division": "{{ 1 / 0 }}",
    "include": "{% include '/etc/hostname' %}",
    "import": "{% import 'os' as os %}",
    "calls itself": "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
    "deep": "{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}",
    "many braces": "{{" * 100_000,
    "large text": "{{ 'a' * 100000000 }}",
    "types": "{{ messages + 5 }}",
}
ENDLESS_TEMPLATES: Mapping[str, str] = {
    "loop": "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
    "doubles": "{% set ns = namespace(x='ab') %}{% for i in range(60) %}{% set ns.x = ns.x + ns.x %}{% endfor %}",
    "huge text": "{{ 'a' * 100000000000 }}",
    "huge list": "{{ [1] * 1000000000 }}",
    "huge power": "{{ (10 ** (10 ** 10)) % 7 }}",
    "width": "{{ '%2000000000d' % 1 }}",
}
TOKENIZER_CONFIGS: Mapping[str, Any] = {
    **{name: value for name, value in ODD_VALUES.items() if name != "empty object"},
    **{f"class {name}": {"tokenizer_class": value} for name, value in ODD_VALUES.items()},
    **{f"template {name}": {"chat_template": value} for name, value in ODD_VALUES.items()},
    **{f"eos {name}": {"eos_token": value} for name, value in ODD_VALUES.items()},
    **{f"extra {name}": {"extra_special_tokens": value} for name, value in ODD_VALUES.items()},
    **{f"added {name}": {"added_tokens_decoder": value} for name, value in ODD_VALUES.items()},
    **{f"length {name}": {"model_max_length": value} for name, value in ODD_VALUES.items()},
    **{f"auto_map {name}": {"auto_map": value} for name, value in ODD_VALUES.items()},
    **{
        f"class {name}": {"tokenizer_class": name}
        for name in ("AutoTokenizer", "AutoProcessor", "AutoModel", "AutoConfig", "pipeline", "RagTokenizer", "utils")
    },
    "auto_map": {"auto_map": {"AutoTokenizer": ["evil.Evil", "evil.Evil"]}, "tokenizer_class": "Evil"},
    "auto_map of a hub": {"auto_map": {"AutoTokenizer": ["owner/evil--evil.Evil", None]}},
    "files elsewhere": {"tokenizer_file": "/etc/hostname", "vocab_file": "/etc/hostname", "gguf_file": "/etc/hostname"},
    "init_inputs": {"init_inputs": ["/etc/hostname"]},
    "an object": {"tokenizer_object": "x"},
    "deep": _DEEP_TEXT,
    "not UTF-8": b'{"a": "\xff"}',
}
TOKENIZERS: Mapping[str, Any] = {
    **ODD_VALUES,
    **{f"model {name}": {"model": value, "added_tokens": []} for name, value in ODD_VALUES.items()},
    **{
        f"vocab {name}": {"model": {"type": "BPE", "vocab": value, "merges": []}, "added_tokens": []}
        for name, value in ODD_VALUES.items()
    },
    **{
        f"words {name}": {"model": {"type": "WordLevel", "vocab": {"a": 1}, "unk_token": value}, "added_tokens": []}
        for name, value in ODD_VALUES.items()
    },
    "unigram": {"model": {"type": "Unigram", "vocab": [], "unk_id": 5}, "added_tokens": []},
    "ids beyond": {
        "model": {"type": "WordLevel", "vocab": {"hello": 4294967295}, "unk_token": "hello"},
        "added_tokens": [],
    },
    "deep": _DEEP_TEXT,
    "not UTF-8": b'{"a": "\xff"}',
}
FOREIGN_FILES = ("tokenizer/config.json", "tokenizer/evil.py", "tokenizer/pytorch_model.bin", "tokenizer/a/b.json")


def tokenizer_cases() -> Iterator[Case]:
    """Every file of the tokenizer, and files that are none of its."""
    for name, content in TOKENIZER_CONFIGS.items():
        yield file_case(name, "tokenizer/tokenizer_config.json", content)
    for name, content in TOKENIZERS.items():
        yield file_case(name, "tokenizer/tokenizer.json", content)
    for name, content in harmful().items():
        yield file_case(name, "tokenizer/tokenizer.json", content)
    for name, content in TEMPLATES.items():
        yield file_case(name, "tokenizer/chat_template.jinja", content)
    for name in FOREIGN_FILES:
        yield file_case("present", name, "{}")
    yield file_case("not UTF-8", "tokenizer/chat_template.jinja", b"{{ '\xff' }}")
    for file in ("special_tokens_map.json", "added_tokens.json"):
        for name, content in ODD_VALUES.items():
            yield file_case(name, f"tokenizer/{file}", content)


def generation_cases() -> Iterator[Case]:
    """generation_config.json."""
    return (file_case(name, "generation_config.json", content) for name, content in GENERATION_CONFIGS.items())


def prefix_cases(state: bytes) -> Iterator[Case]:
    """The text and the state of a system prompt; ``state`` is the intact one."""
    text, saved = "prefix/system_prompt.txt", "prefix/state.safetensors"
    contents = {"empty": b"", "not UTF-8": b"\xff\xfe\xff", "large": b"a" * (2 << 20), "nul": b"\0" * 100}
    for name, content in contents.items():
        yield file_case(name, text, content)
        yield file_case(name, saved, content)
    length = int.from_bytes(state[:8], "little")
    header: Fields = json.loads(state[8 : 8 + length])
    for place in places(header):
        for name, value in ODD_VALUES.items():
            raw = _text(_replaced(header, place, value)).encode()
            whole = len(raw).to_bytes(8, "little") + raw + state[8 + length :]
            yield file_case(f"{'.'.join(map(str, place))} = {name}", saved, whole)
    for size in (0, 1 << 20, 1 << 62, (1 << 64) - 1):
        yield file_case(f"header of {size} bytes", saved, size.to_bytes(8, "little") + state[8:])
