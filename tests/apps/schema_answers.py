"""Answers that are held to a schema: what `edgec-runner` writes and what Python computes, to compare apps with."""

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
import numpy as np

import edgec
from edgec.bundle.golden import TOLERANCE
from edgec.bundle.schemas import MAGIC, TOKENS
from edgec.engine.compile.build import build_runner
from edgec.runtime_py.adapters.adapter_file import Adapter
from edgec.runtime_py.sessions.session import Session
from tests.engine.structure_library import StructureLibrary
from tests.engine.test_structured_text import PERSON

NAME, PROMPT = "person", "Lily has a friend: "
MOST, FEW = 120, 4
"""Tokens that suffice for the shortest text, and tokens that do not."""


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
        tokens: the tokens after some other tokens.
    """

    prompt: list[int]
    free: dict[str, Any]
    tokens: list[int]


def runner_answers(bundle: Path, others: Sequence[int]) -> RunnerAnswers:
    """Run the runner over a bundle, after the text and after other tokens."""
    prompt = edgec.load(bundle).encode(PROMPT)
    free = _said(bundle, prompt)
    assert is_person(free["text"])
    return RunnerAnswers(prompt, free, _said(bundle, others)["tokens"])


def _said(bundle: Path, tokens: Sequence[int]) -> dict[str, Any]:
    words = ["--bundle", str(bundle), "--schema", NAME, "--new-tokens", str(MOST)]
    line = [str(build_runner().runner), *words, "--tokens", ",".join(map(str, tokens))]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout.splitlines()[-1]))


def assert_greedy(bundle: Path, adapter: Adapter, prompt: Sequence[int], tokens: Sequence[int]) -> None:
    """Assert that an app's greedy answer under an adapter has Python's likeliest token at every place that is sure.

    The tokens before each place are the app's own. An adapter of random numbers leaves two tokens nearly as likely now
    and then, and Python calls the engine's build for this machine's own processor (-march=native), which adds floats
    in another order than an app's. A place is sure where the two best logits of those that the schema allows are
    further apart than golden vectors allow for that: 1 % of the largest logit.
    """
    session = Session(bundle)
    session.adapter = adapter
    compiled = StructureLibrary(build_runner().library).structure(bundle / f"schemas/{NAME}.grammar", bundle / TOKENS)
    logits, likeliest, leads = session.prefill(prompt, 0), list[int](), list[float]()
    largest = 0.0
    with compiled.begin(MOST) as text:
        for place, token in enumerate(tokens):
            if place:
                logits = session.prefill(tokens[place - 1 : place], len(prompt) + place - 1)
            allowed = text.mask(logits)
            second, first = np.sort(allowed)[-2:]
            likeliest.append(int(allowed.argmax()))
            leads.append(float(first - second))
            largest = max(largest, float(np.abs(logits).max()))
            text.take(token)
    sure = np.array(leads) > TOLERANCE * largest
    assert sure.mean() > 0.75
    np.testing.assert_array_equal(np.array(tokens)[sure], np.array(likeliest)[sure])


def token_pieces(bundle: Path) -> list[bytes]:
    """What each token of a bundle with schemas writes."""
    content, start = (bundle / TOKENS).read_bytes(), len(MAGIC)
    count, _, eos = struct.unpack_from("<3I", content, start)
    first = start + 4 * (3 + eos)
    text = content[first + 4 * count :]
    return [text[begin:end] for begin, end in pairwise((0, *struct.unpack_from(f"<{count}I", content, first)))]
