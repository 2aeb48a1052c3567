"""The facts that C++ reads of a bundle: however its JSON is written, within limits."""

from __future__ import annotations

import json
import subprocess
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from tests.engine.compiled import compiled

SHA = "0123456789abcdef" * 4
FILES = [{"bytes": 3, "path": "report.html", "sha256": "f" * 64}, {"bytes": 9, "path": "model.pte", "sha256": SHA}]
DECODER = {"limits": {"context": 512, "logit_rows": 8, "prefill_chunk": 64}}
VISION = {
    **DECODER,
    "channels": 3,
    "height": 8,
    "width": 12,
    "rows": 6,
    "image_token": 4,
    "ahead": "image",
    "grid": [2, 3],
}
SOUND = {"sampling_rate": 16_000, "mels": 80, "frames": 3000, "fft": 400, "hop": 160}
AUDIO = {**DECODER, "sound": SOUND, "source_tokens": None}
CONFIG: dict[str, Any] = {
    "decoder_start_token_id": 7,
    "eos_token_id": 2,
    "lang_to_id": {"<|de|>": 12, "<|en|>": 11},
    "suppress_tokens": None,
    "repetition_penalty": 1.0,
    "unknown": [{"a": [True, False, None, -1.5e3, '\\u00e9 "}{"']}, {}, []],
}
MANIFEST: dict[str, Any] = {
    "artifact": "model.pte",
    # What a search for names would find first.
    "build": {"artifact": "other.pte", "note": '\n  "artifact": "fake.pte",\n    "context": 9,', "context": 9},
    "files": FILES,
    **DECODER,
    "encoder_decoder": AUDIO,
    "vision_language": VISION,
}
WANTED = {
    "bundle": f"{{folder}}/model.pte {SHA} 512",
    "vision": " 512 8 12 6 4 1 2 3",
    "audio": " 16000 480000 512 7 <|de|> 12 <|en|> 11 2",
}


def read(kind: str, folder: Path, manifest: Any = MANIFEST, config: Any = CONFIG, **how: Any) -> str:
    (folder / "manifest.json").write_text(manifest if isinstance(manifest, str) else json.dumps(manifest, **how))
    (folder / "generation_config.json").write_text(json.dumps(config, **how))
    return subprocess.run([compiled("facts_entry"), kind, folder], capture_output=True, text=True, check=True).stdout[
        :-1
    ]


def changed(part: str, name: str, value: Any) -> Any:
    manifest = deepcopy(MANIFEST)
    (manifest[part] if part else manifest)[name] = value
    return manifest


@pytest.mark.parametrize("kind", WANTED)
@pytest.mark.parametrize("how", [{"indent": 2, "sort_keys": True}, {"separators": (",", ":")}, {"indent": "\t"}])
def test_facts_are_the_same_however_the_file_is_written(kind: str, how: dict[str, Any], tmp_path: Path) -> None:
    assert read(kind, tmp_path, **how) == WANTED[kind].format(folder=tmp_path)
    backwards = dict(reversed(MANIFEST.items()))
    assert read(kind, tmp_path, backwards, **how) == WANTED[kind].format(folder=tmp_path)


@pytest.mark.parametrize(
    ("kind", "part", "name", "value", "said"),
    [
        ("bundle", "", "artifact", "../model.pte", "lists no artifact"),
        ("bundle", "", "artifact", "/model.pte", "lists no artifact"),
        ("bundle", "", "artifact", 5, "something else"),
        ("bundle", "", "files", [], "lists no artifact"),
        ("bundle", "", "files", [*FILES, FILES[1]], "a file twice"),
        ("bundle", "", "files", [{"path": "model.pte", "sha256": "X" * 64}], "lists no artifact"),
        ("bundle", "", "files", [{"path": "model.pte"}], 'does not state "sha256"'),
        ("bundle", "limits", "context", 1 << 31, "too large"),
        ("bundle", "limits", "context", -1, "something else where a whole number belongs"),
        ("bundle", "limits", "context", None, 'does not state "context"'),
        ("vision", "", "vision_language", None, "has no vision"),
        ("vision", "vision_language", "height", 0, "too small"),
        ("vision", "vision_language", "width", 1 << 14, "too large"),
        ("vision", "vision_language", "rows", 513, "beyond what the runner makes"),
        ("vision", "vision_language", "channels", 4, "beyond what the runner makes"),
        ("vision", "vision_language", "ahead", "sideways", "an unknown name"),
        ("vision", "vision_language", "grid", [3, 3], "grid of rows"),
        ("vision", "vision_language", "grid", [2, 3, 1], "more than two sizes"),
        ("audio", "", "encoder_decoder", None, "needs a bundle that reads sound"),
        ("audio", "encoder_decoder", "sound", None, "needs a bundle that reads sound"),
        ("audio", "encoder_decoder", "sound", {**SOUND, "hop": None}, 'does not state "hop"'),
        ("audio", "encoder_decoder", "limits", {}, 'does not state "context"'),
    ],
)
def test_a_fact_that_makes_no_sense_is_refused(
    kind: str, part: str, name: str, value: Any, said: str, tmp_path: Path
) -> None:
    answer = read(kind, tmp_path, changed(part, name, value))
    assert answer.startswith("error: ") and said in answer


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("bad_words_ids", [[1]], 'does not apply "bad_words_ids"'),
        ("forced_eos_token_id", 0, 'does not apply "forced_eos_token_id"'),
        ("min_length", 1, 'does not apply "min_length"'),
        ("repetition_penalty", 1.1, 'does not apply "repetition_penalty"'),
        ("eos_token_id", [1, -2], "generation_config.json holds"),
        ("lang_to_id", {f"<|{at}|>": at for at in range(1025)}, "too many names"),
        ("decoder_start_token_id", None, 'does not state "bos_token_id"'),
    ],
)
def test_a_rule_that_the_runner_does_not_apply_is_refused(name: str, value: Any, said: str, tmp_path: Path) -> None:
    answer = read("audio", tmp_path, config={**CONFIG, name: value})
    assert answer.startswith("error: ") and said in answer


def test_what_asks_for_nothing_is_taken(tmp_path: Path) -> None:
    idle: dict[str, Any] = {
        "bad_words_ids": [],
        "forced_bos_token_id": None,
        "min_length": 0,
        "no_repeat_ngram_size": 0,
    }
    assert read("audio", tmp_path, config={**CONFIG, **idle, "repetition_penalty": 1}) == WANTED["audio"]


@pytest.mark.parametrize(
    "text", ["", "[]", "{", '{"a": 1}}', '{"a": 1, "a": 2}', '{"a": nul}', '{"a": ' + "[" * 66 + "]" * 66 + "}"]
)
def test_what_is_not_json_is_refused_as_the_manifest(text: str, tmp_path: Path) -> None:
    assert read("bundle", tmp_path, text).startswith("error: the bundle's manifest.json holds ")
