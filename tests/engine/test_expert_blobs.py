"""The text of a delegate of experts is read whole or refused, and what is read stays within its memory."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from edgec.backends.edgec_linear.layout import SYMMETRIC, BlockRows, PackedMatrix
from tests.engine.compiled import compiled
from tests.engine.sanitized import MEMORY, sanitizing, why_not

pytestmark = pytest.mark.long
# Three experts of 28 rows, filled up to 32, on a width of 96, as fuzz/experts.cpp calls them.
GOOD = """edgec.experts=4
inputs=int8
experts=3
expert_rows=28
block_rows=16
rows=96
width=96
group=32
bits=4
step=1
offset=8
scales=bfloat16
data=key
"""
BYTES = PackedMatrix(96, 96, 32, SYMMETRIC[4], BlockRows.X86).bytes
TEXTS, ROUNDS = 500, 4
MOST, FAR = "67108865", "9223372036854775807"
# Each contradicts itself, the data, or what the graph hands over.
VALUES = {
    "inputs": ("int4", ""),
    "experts": ("0", "1", "2", "4", "6", "-3", MOST, FAR),
    "expert_rows": ("0", "16", "27", "29", "32", "33", "48", FAR),
    "block_rows": ("0", "12", "32", "4294967312"),
    "rows": ("0", "80", "95", "97", "112", MOST, FAR),
    "width": ("0", "64", "95", "97", "192", "1048577", FAR),
    "group": ("-32", "0", "1", "48", "64", "96", "2048", FAR),
    "bits": ("0", "1", "2", "3", "5", "8", "4294967300", "four"),
    "step": ("0", "3", "1.0"),
    "offset": ("-1", "129", ""),
    "data": ("other", ""),
}
VERSIONS = ("0", "1", "3", "5")
LIES = (
    *(f"{name}={value}" for name, values in VALUES.items() for value in values),
    *(f"edgec.experts={version}" for version in VERSIONS),
)


@pytest.fixture(scope="module")
def program() -> Path:
    """The reader and the kernels as a program."""
    return compiled("experts_damaged")


def verdict(program: Path, folder: Path, text: str, bytes: int = BYTES) -> str:
    """What becomes of a text with so many bytes of data: ``run`` or ``refused``."""
    (folder / "blob").write_text(text)
    return _run(program, folder / "blob", bytes)


def _run(program: Path, *words: object) -> str:
    options = {"ASAN_OPTIONS": "detect_leaks=0:exitcode=99:allocator_may_return_null=1"}
    line = ["setarch", "-R", *map(str, (program, *words))]
    done = subprocess.run(line, capture_output=True, text=True, check=False, env=options)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.strip()


def test_a_whole_text_is_run(program: Path, tmp_path: Path) -> None:
    assert verdict(program, tmp_path, GOOD) == "run"
    assert verdict(program, tmp_path, GOOD.replace("inputs=int8", "inputs=float32")) == "run"


def test_another_processors_layout_is_laid_out_anew(program: Path, tmp_path: Path) -> None:
    """28 rows of an expert are 4 blocks of 8 and 2 of 16; 20 rows are 3 blocks of 8, which no blocks of 16 hold."""
    other = GOOD.replace("block_rows=16", "block_rows=8")
    assert verdict(program, tmp_path, other) == "run"
    odd = PackedMatrix(72, 96, 32, SYMMETRIC[4], BlockRows.ARM64).bytes
    fewer = other.replace("expert_rows=28", "expert_rows=20").replace("\nrows=96", "\nrows=72")
    assert verdict(program, tmp_path, fewer, odd) == "refused"


def lying(lie: str) -> str:
    """The whole text with another value of one line."""
    name = lie.partition("=")[0]
    lines = [lie if line.partition("=")[0] == name else line for line in GOOD.splitlines()]
    return "\n".join([*lines, ""])


@pytest.mark.parametrize("lie", LIES)
def test_a_lie_is_refused(program: Path, tmp_path: Path, lie: str) -> None:
    assert lying(lie) != GOOD and verdict(program, tmp_path, lying(lie)) == "refused"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("data=key\n", "data=key\nmore\n"),
        ("\nrows=96\nwidth=96\n", "\nwidth=96\nrows=96\n"),
        ("group=32\n", ""),
        ("edgec.experts=4\n", "edgec.embedding=4\n"),
    ],
)
def test_other_lines_are_refused(program: Path, tmp_path: Path, old: str, new: str) -> None:
    assert GOOD.count(old) == 1 and verdict(program, tmp_path, GOOD.replace(old, new)) == "refused"


@pytest.mark.parametrize("bytes", [0, 1, BYTES - 1, BYTES + 1, 2 * BYTES])
def test_data_of_another_size_is_refused(program: Path, tmp_path: Path, bytes: int) -> None:
    assert verdict(program, tmp_path, GOOD, bytes) == "refused"


def test_every_truncated_text_is_refused(program: Path, tmp_path: Path) -> None:
    for length in range(0, len(GOOD) - 1):
        assert verdict(program, tmp_path, GOOD[:length]) == "refused", GOOD[:length]


@pytest.mark.slow
def test_lies_and_damaged_texts_stay_within_their_memory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if reason := why_not(MEMORY):
        pytest.skip(reason)
    program = compiled("experts_damaged", sanitizing(MEMORY))
    for lie in LIES:
        assert verdict(program, tmp_path, lying(lie)) == "refused"
    assert verdict(program, tmp_path, GOOD, BYTES - 1) == "refused" and verdict(program, tmp_path, GOOD) == "run"
    for seed in range(ROUNDS):
        (tmp_path / "blob").write_text(GOOD)
        said = _run(program, tmp_path / "blob", BYTES, seed, TEXTS)
        ran, refused = (int(word) for word in said.split() if word.isdigit())
        assert ran + refused == TEXTS and min(ran, refused) > TEXTS // 10
        with capsys.disabled():
            print(f"\n{said}")
