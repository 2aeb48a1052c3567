"""Hostile input to the engine and the runner under sanitizers; every test prints what it tried."""

from __future__ import annotations

import platform
import random
import re
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

import edgec
from edgec.backends.edgec_linear.layout import BlockRows
from edgec.backends.xnnpack.lower import lower
from edgec.bundle.folder import open_bundle, write_bundle
from edgec.errors import InputError
from edgec.runtime_py.adapters.adapter_file import write_adapter
from edgec.runtime_py.engines.engine import EngineModel
from edgec.runtime_py.engines.open_artifact import artifact_digest
from edgec.runtime_py.verify.verify import verify
from tests.backends.edgec_linear import programs as linear_programs
from tests.backends.edgec_linear import test_experts as expert_programs
from tests.engine.sanitized import MEMORY, THREADS, Sanitized, sanitized, why_not
from tests.engine.structure_files import write_structure
from tests.engine.test_structured_text import PERSON
from tests.runtime_py.adapters.hostile import LIES, one_module, sealed_lie
from tests.runtime_py.structured.steppers import structures
from tests.speech_bundles import audio_bundle, wav

pytestmark = pytest.mark.slow
CALLS, TEXTS, ARTIFACTS, LAID_OUT, COMMANDS, ROUNDS = 20_000, 4_000, 600, 500, 40, 40
STRUCTURES = 1_000
OWN = BlockRows.of(platform.machine())
REPORT_STATUS, RACE_STATUS, DEADLY = 99, 66, 3
FATAL = f"exit {REPORT_STATUS}"
_NOBODYS = ("libasan", "libubsan", "libc.", "libstdc++")
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
    program = memory.program("calls")
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
    program = memory.program("texts")
    shutil.copy(tiny_bundle / "manifest.json", tmp_path)
    done = memory.run(program, tmp_path, 1, TEXTS)
    assert done.returncode == 0, done.stderr[-3000:]
    assert TEXTS // 4 < int(done.stdout.split()[-1]) < TEXTS
    say(capsys, done.stdout.strip())


def test_adapter_files(memory: Sanitized, four_bits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    write_adapter(one_module(four_bits), folder / "0")
    for number, lie in enumerate(LIES.values(), 1):
        (folder / str(number)).write_bytes(sealed_lie(four_bits, tmp_path / "intact", lie))
    program = memory.program("adapters")
    base = artifact_digest(open_bundle(four_bits))
    done = memory.run(program, four_bits / "model.pte", base, folder, tmp_path / "scratch", 1, TEXTS)
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    assert TEXTS // 2 < int(done.stdout.split()[-1]) <= TEXTS
    say(capsys, f"{len(LIES)} lies, {done.stdout.strip()}")


@pytest.mark.parametrize("family", ["timed", "moonshine"])
def test_sounds_and_what_a_bundle_says_of_them(
    memory: Sanitized, family: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = memory.program("sounds")
    for name in ("manifest.json", "generation_config.json"):
        shutil.copy(audio_bundle(family) / name, tmp_path)
    (tmp_path / "sound.wav").write_bytes(wav(bytes(8000)))
    done = memory.run(program, tmp_path, 1, TEXTS)
    assert done.returncode == 0, done.stderr[-3000:]
    assert TEXTS // 4 < int(done.stdout.split()[-1]) < TEXTS
    say(capsys, done.stdout.strip())


def test_damaged_structures(memory: Sanitized, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = memory.program("structures")
    files = write_structure(tmp_path, PERSON, structures("fallback").vocabulary)
    done = memory.run(program, *files, tmp_path, 1, STRUCTURES)
    assert done.returncode == 0, done.stderr[-3000:]
    assert STRUCTURES // 4 < int(done.stdout.split()[-1]) < STRUCTURES
    say(capsys, done.stdout.strip())


def few_bits(folder: Path, rows: BlockRows = OWN) -> Path:
    """An artifact with edgec's delegates: linear layers and a table of few bits."""
    path = folder / f"few-bits-{rows.name}.pte"
    path.write_bytes(lower(linear_programs.quantised("llama", linear_programs.MIXED), block_rows=rows).artifact)
    return path


def experts(folder: Path) -> Path:
    """An artifact with a mixture of experts of few bits."""
    path = folder / "experts.pte"
    path.write_bytes(lower(expert_programs.quantised("olmoe"), block_rows=OWN).artifact)
    return path


@pytest.mark.parametrize(
    ("make", "rows"), [(None, 8), (few_bits, 1), (experts, 1)], ids=["xnnpack", "linear", "experts"]
)
def test_damaged_artifacts(
    memory: Sanitized,
    make: Callable[[Path], Path] | None,
    rows: int,
    tiny_bundle: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A crash inside ExecuTorch is contained by the trial; a crash never begins in edgec's own code."""
    artifact = tiny_bundle / "model.pte" if make is None else make(tmp_path)
    program = memory.program("artifacts")
    reports = tmp_path / "report"
    options = f"detect_leaks=0:exitcode=99:allocator_may_return_null=1:log_path={reports}"
    words = (program, artifact, tmp_path / "damaged.pte", 1, ARTIFACTS, 12, rows)
    done = memory.run(*words, ASAN_OPTIONS=options)
    assert done.returncode == 0, done.stderr[-3000:]
    verdicts = Counter(line.split(maxsplit=2)[2] for line in done.stdout.splitlines())
    assert sum(verdicts.values()) == ARTIFACTS and verdicts["ran"] and verdicts["refused"]
    texts = [path.read_text() for path in tmp_path.glob("report.*")]
    # An allocation that is refused is a warning, and no fault.
    places = Counter(fault_place(report) for report in texts if "ERROR: " in report or "runtime error" in report)
    say(capsys, f"damaged artifacts {dict(verdicts)}, places of faults {dict(places)}")
    assert "runtime error" not in done.stderr, done.stderr[-3000:]
    assert all(place.startswith("libexecutorch") for place in places), places


def test_damaged_matrices_that_were_laid_out_anew(
    memory: Sanitized, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A lie in the index is seen and the file written again; a bit of a matrix is only another number."""
    packed, laid_out = tmp_path / "model.packed", tmp_path / "model.laid.packed"
    artifact = few_bits(tmp_path, next(rows for rows in BlockRows if rows is not OWN))
    assert EngineModel(artifact, packed=packed).info.packed == "written"
    intact = tmp_path / "intact"
    shutil.copy(laid_out, intact)
    program = memory.program("laid_out")
    done = memory.run(program, artifact, packed, laid_out, 1, LAID_OUT, 12, 1)
    assert done.returncode == 0 and "ERROR" not in done.stderr and "runtime error" not in done.stderr, done.stderr[
        -3000:
    ]
    verdicts = Counter(line.split(maxsplit=2)[2] for line in done.stdout.splitlines())
    say(capsys, f"damaged laid-out files {dict(verdicts)}")
    assert verdicts == {"ran": LAID_OUT}


def fault_place(report: str) -> str:
    """The file of the first frame that belongs to neither the sanitizer nor the C library."""
    files = [file for file in _FRAME.findall(report) if "libsanitizer" not in file and not file.startswith("../")]
    names = [Path(file).name.partition(":")[0] for file in files]
    return next((name for name in names if not name.startswith(_NOBODYS)), f"unknown: {report[:200]}")


def test_an_artifact_with_a_deadly_bit_gets_a_verdict(
    memory: Sanitized, tiny_bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Bits that crashed ExecuTorch above, now under valid checksums: ``verify`` reports them, ``load`` refuses."""
    program = memory.program("artifacts")
    words = (program, tiny_bundle / "model.pte", tmp_path / "damaged.pte", 1, ARTIFACTS, 16, 8)
    cases = [line.split(maxsplit=2) for line in memory.run(*words).stdout.splitlines()]
    deadly = [(int(place), int(bit)) for place, bit, verdict in cases if bit != "cut" and verdict == FATAL][:DEADLY]
    assert deadly
    verdicts = []
    for index, (place, bit) in enumerate(deadly):
        bundle = resealed(tiny_bundle, tmp_path / f"{index}.edgec", place, bit)
        failed = [check.detail for check in verify(bundle).checks if check.status == "failed"]
        verdicts += [re.search(r"SIG\w+", detail) for detail in failed[:1]] or [None]
        if verdicts[-1]:
            with pytest.raises(InputError, match="E168"):
                edgec.load(bundle)
    say(capsys, f"deadly bits {deadly}: {[verdict and verdict[0] for verdict in verdicts]}")
    assert any(verdicts), "the wheel's ExecuTorch, not compiled for a sanitizer, falls over some of them"


def resealed(source: Path, target: Path, place: int, bit: int) -> Path:
    """A bundle with one flipped bit in its artifact, and checksums that say so."""
    bundle = open_bundle(source)
    artifact = bytearray(bundle.artifact_path.read_bytes())
    artifact[place] ^= 1 << bit
    files: dict[str, bytes | Path] = {file.path: source / file.path for file in bundle.manifest.files}
    write_bundle(target, bundle.manifest, {**files, bundle.manifest.artifact: bytes(artifact)})
    return target


def test_command_lines_and_requests_of_the_whole_runner(
    memory: Sanitized, tiny_bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chance = random.Random(1)
    numbers = ("0", "1", "2", "17", "511", "513", "-1", "2147483647", "9223372036854775807", "1" * 5000, "x", "")
    verbs = ("generate", "score", "replay", "feed", "feed 2 0", "pause 0\nscore", "sustain 0", "", "\0")
    statuses: Counter[int] = Counter()
    for _ in range(COMMANDS):
        verb = chance.choice((*verbs, "generate generate"))
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
    program = threads.program("sessions")
    done = threads.run(program, tiny_bundle / "model.pte", ROUNDS)
    assert done.returncode == 0, done.stderr[-3000:]
    assert int(done.stdout.split()[-1]) >= 8 * ROUNDS
    say(capsys, f"sessions in 4 threads over 2 models, a changing pool: {done.stdout.strip()}")
    misuse = threads.run(program, tiny_bundle / "model.pte", ROUNDS, "shared")
    assert misuse.returncode == RACE_STATUS and "data race" in misuse.stderr, "the sanitizer must be able to see"
