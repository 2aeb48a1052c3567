"""Answers that are held to a schema: what `edgec-runner` writes, with which those of apps are compared."""

from __future__ import annotations

import json
import struct
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import jsonschema

import edgec
from edgec.bundle.schemas import MAGIC, TOKENS
from edgec.devices.runner.build import build_runner
from tests.devices.runner.test_structured_text import PERSON

NAME, PROMPT = "person", "Lily has a friend: "
MOST, FEW = 120, 4
"""Tokens that suffice for the shortest text, and tokens that do not."""
# Under random weights two tokens are often nearly as likely, and the runner's build for this machine's own CPU
# (-march=native) rounds sums of floats otherwise than an app's.
_SURELY_EQUAL = 24


def schema_option(folder: Path) -> dict[str, str | Path]:
    """The export's `schemas`, whose file is written into a folder."""
    path = folder / f"{NAME}.json"
    path.write_text(json.dumps(PERSON))
    return {NAME: path}


def is_person(text: str) -> bool:
    """Whether a text is JSON that fulfils the schema."""
    judge = jsonschema.Draft202012Validator
    return bool(judge(PERSON, format_checker=judge.FORMAT_CHECKER).is_valid(json.loads(text)))


@dataclass(frozen=True)
class RunnerAnswers:
    """What the runner writes under the schema.

    Attributes:
        prompt: the tokens of PROMPT.
        free: after the text PROMPT.
        adapted: the same under the adapter.
        tokens: the tokens after some other tokens.
    """

    prompt: list[int]
    free: dict[str, Any]
    adapted: dict[str, Any]
    tokens: list[int]


def runner_answers(bundle: Path, adapter: Path, others: Sequence[int]) -> RunnerAnswers:
    """Run the runner over a bundle, with and without an adapter, and after other tokens."""
    prompt = edgec.load(bundle).encode(PROMPT)
    free, adapted = _said(bundle, prompt), _said(bundle, prompt, "--adapter", str(adapter))
    assert is_person(free["text"]) and is_person(adapted["text"]) and free["text"] != adapted["text"]
    return RunnerAnswers(prompt, free, adapted, _said(bundle, others)["tokens"])


def _said(bundle: Path, tokens: Sequence[int], *more: str) -> dict[str, Any]:
    words = ["--bundle", str(bundle), "--schema", NAME, "--new-tokens", str(MOST), *more]
    line = [str(build_runner().runner), *words, "--tokens", ",".join(map(str, tokens))]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout.splitlines()[-1]))


def is_adapted(text: str, answers: RunnerAnswers) -> bool:
    """Whether an app's text under the adapter fulfils the schema and begins as the runner's."""
    start = answers.adapted["text"][:_SURELY_EQUAL]
    return is_person(text) and text.startswith(start) and not answers.free["text"].startswith(start)


def token_pieces(bundle: Path) -> list[bytes]:
    """What each token of a bundle with schemas writes."""
    content, start = (bundle / TOKENS).read_bytes(), len(MAGIC)
    count, _, eos = struct.unpack_from("<3I", content, start)
    first = start + 4 * (3 + eos)
    text = content[first + 4 * count :]
    return [text[begin:end] for begin, end in pairwise((0, *struct.unpack_from(f"<{count}I", content, first)))]
