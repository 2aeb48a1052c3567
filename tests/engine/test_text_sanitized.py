"""Hostile input to the text core under sanitizers; the test prints what it tried."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from edgec.apps.embed.notation_facts import notation_facts
from tests.apps import reply_cases
from tests.engine.compiled import compiled
from tests.engine.sanitized import MEMORY, sanitizing, why_not
from tests.engine.test_text import facts_of

pytestmark = pytest.mark.slow
ROUNDS = 10_000


def written(texts: Sequence[str], path: Path) -> Path:
    """A file of texts, each ended by a zero byte."""
    path.write_bytes(b"".join(text.encode() + b"\0" for text in texts))
    return path


def test_damaged_facts_and_messages(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if reason := why_not(MEMORY):
        pytest.skip(reason)
    program = compiled("replies", sanitizing(MEMORY))
    facts = [notation_facts(facts_of(place)) for place in range(len(reply_cases.NOTATIONS))]
    messages = dict.fromkeys("".join(case["pieces"]) for case in reply_cases.cases())
    files = (written(facts, tmp_path / "facts"), written(list(messages), tmp_path / "messages"))
    line = ["setarch", "-R", program, *files, "1", str(ROUNDS)]
    done = subprocess.run([str(word) for word in line], capture_output=True, text=True, errors="replace", check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    _, count, _, refused, _, malformed = done.stdout.split()
    assert int(count) == ROUNDS and int(refused) > ROUNDS // 4 and int(malformed) > ROUNDS // 20
    with capsys.disabled():
        print(f"\n{done.stdout.strip()}")
