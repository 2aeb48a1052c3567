"""Hostile input to the engine and the runner under sanitizers; every test prints what it tried."""

from __future__ import annotations

import random
import re
import shutil
from collections import Counter
from pathlib import Path

import pytest

from tests.devices.runner.sanitized import MEMORY, THREADS, Sanitized, sanitized, why_not

pytestmark = pytest.mark.slow
CALLS, TEXTS, ARTIFACTS, COMMANDS, ROUNDS = 20_000, 4_000, 300, 40, 40
REPORT_STATUS, RACE_STATUS = 99, 66
# The first place of a report that is neither the sanitizer's nor the C library's.
_FRAME = re.compile(r"^\s*#\d+ 0x\w+ (?:in \S.* )?\(?(\S+?)(?:\+0x\w+\))?(?: \(BuildId.*)?$", re.MULTILINE)


@pytest.fixture(scope="module")
def memory(stage_cache: Path) -> Sanitized:
    if reason := why_not(MEMORY):
        pytest.skip(reason)
    return sanitized(MEMORY)


@pytest.fixture(scope="module")
def threads(stage_cache: Path) -> Sanitized:
    if reason := why_not(THREADS):
        pytest.skip(reason)
    return sanitized(THREADS)


def say(capsys: pytest.CaptureFixture[str], text: str) -> None:
    with capsys.disabled():
        print(f"\n{text}")


def test_calls_of_the_c_interface(
    memory: Sanitized, tiny_bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = memory.program("calls", tmp_path)
    done = memory.run(program, tiny_bundle / "model.pte", 1, CALLS)
    assert done.returncode == 0, done.stderr[-3000:]
    refused = int(done.stdout.split()[-1])
    assert CALLS // 4 < refused < CALLS
    say(capsys, done.stdout.strip())
    lie = memory.run(program, tiny_bundle / "model.pte", 1, "overrun")
    assert lie.returncode == REPORT_STATUS and "heap-buffer-overflow" in lie.stderr, "the sanitizer must be able to see"


def test_manifests_and_command_lines(
    memory: Sanitized, tiny_bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = memory.program("texts", tmp_path, "bundle_facts.cpp", "options.cpp")
    shutil.copy(tiny_bundle / "manifest.json", tmp_path)
    done = memory.run(program, tmp_path, 1, TEXTS)
    assert done.returncode == 0, done.stderr[-3000:]
    assert TEXTS // 4 < int(done.stdout.split()[-1]) < TEXTS
    say(capsys, done.stdout.strip())


def test_damaged_artifacts(
    memory: Sanitized, tiny_bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What ends a process inside ExecuTorch is the trial's to contain; edgec's own code is never the first to fall."""
    program = memory.program("artifacts", tmp_path)
    reports = tmp_path / "report"
    options = f"detect_leaks=0:exitcode=99:allocator_may_return_null=1:log_path={reports}"
    words = (program, tiny_bundle / "model.pte", tmp_path / "damaged.pte", 1, ARTIFACTS, 16, 8)
    done = memory.run(*words, ASAN_OPTIONS=options, UBSAN_OPTIONS=f"print_stacktrace=1:log_path={reports}")
    assert done.returncode == 0, done.stderr[-3000:]
    verdicts = Counter(line.split(maxsplit=2)[2] for line in done.stdout.splitlines())
    assert sum(verdicts.values()) == ARTIFACTS and verdicts["ran"] and verdicts["refused"]
    places = Counter(fault_place(path.read_text()) for path in tmp_path.glob("report.*"))
    say(capsys, f"damaged artifacts {dict(verdicts)}, first to fall {dict(places)}")
    assert not [place for place in places if "edgec" in place]


def fault_place(report: str) -> str:
    """The file of the first frame that belongs to neither the sanitizer nor the C library."""
    files = [Path(found).name.partition(":")[0] for found in _FRAME.findall(report)]
    own = [file for file in files if not file.startswith(("libasan", "libubsan", "libc.", "libstdc++"))]
    return own[0] if own else f"unknown: {report[:200]}"


def test_command_lines_and_requests_of_the_whole_runner(
    memory: Sanitized, tiny_bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chance = random.Random(1)
    numbers = ("0", "1", "2", "17", "511", "513", "-1", "2147483647", "9223372036854775807", "1" * 5000, "x", "")
    statuses: Counter[int] = Counter()
    for _ in range(COMMANDS):
        verb = chance.choice(
            ("generate", "score", "replay", "pause 0\nscore", "sustain 0", "", "\0", "generate generate")
        )
        request = " ".join([verb, *(chance.choice(numbers) for _ in range(chance.randrange(8)))])
        (tmp_path / "request").write_text(request + "\n")
        runner, bundle = memory.build.runner, tiny_bundle
        done = memory.run(
            "sh", "-c", 'exec "$0" --bundle "$1" --threads 1 < "$2"', runner, bundle, tmp_path / "request"
        )
        assert done.returncode in (0, 1), (request[:200], done.stderr[-3000:])
        statuses[done.returncode] += 1
    assert statuses[0] and statuses[1]
    say(capsys, f"requests {COMMANDS}, by exit status {dict(statuses)}")


def test_sessions_in_threads_do_not_race(
    threads: Sanitized, tiny_bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = threads.program("sessions", tmp_path)
    done = threads.run(program, tiny_bundle / "model.pte", ROUNDS)
    assert done.returncode == 0, done.stderr[-3000:]
    assert int(done.stdout.split()[-1]) >= 8 * ROUNDS
    say(capsys, f"sessions in 4 threads over 2 models, a changing pool: {done.stdout.strip()}")
    misuse = threads.run(program, tiny_bundle / "model.pte", ROUNDS, "shared")
    assert misuse.returncode == RACE_STATUS and "data race" in misuse.stderr, "the sanitizer must be able to see"
