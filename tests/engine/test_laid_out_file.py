"""Matrices that are made for another processor family: laid out anew once, and mapped by later loads."""

from __future__ import annotations

import os
import platform
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from edgec.backends.cpu.linear.layout import BlockRows
from edgec.backends.cpu.lower import lower
from edgec.runtime_py.engines.engine import EngineModel
from tests.backends.cpu.linear.programs import quantised
from tests.engine.test_engine import DAMAGES, in_another_process, inputs

pytestmark = pytest.mark.long

OWN = BlockRows.ARM64 if platform.machine() in ("aarch64", "arm64") else BlockRows.X86
FOREIGN = next(rows for rows in BlockRows if rows is not OWN)
TOKENS = list(range(1, 13))
ENTRY, FOOTER = struct.Struct("<3q"), struct.Struct("<2q4si")


@pytest.fixture(scope="module")
def artifacts(tmp_path_factory: pytest.TempPathFactory) -> dict[BlockRows, Path]:
    folder, program = tmp_path_factory.mktemp("artifacts"), quantised()
    made = {rows: folder / f"{rows.name}.pte" for rows in BlockRows}
    for rows, path in made.items():
        path.write_bytes(lower(program, block_rows=rows).artifact)
    return made


@pytest.fixture
def packed(tmp_path: Path) -> Path:
    return tmp_path / "model.packed"


@pytest.fixture
def laid_out(packed: Path) -> Path:
    return packed.with_name("model.laid.packed")


def logits(model: EngineModel) -> np.ndarray:
    return model.session().run(inputs(TOKENS, 0, [len(TOKENS) - 1]))[0]


def test_a_foreign_layout_is_written_once_and_mapped_by_all_sessions(
    artifacts: dict[BlockRows, Path], packed: Path, laid_out: Path
) -> None:
    wanted = logits(EngineModel(artifacts[OWN], packed=packed))
    assert list(packed.parent.iterdir()) == [], "a matrix that lies right is read where it is"
    written = EngineModel(artifacts[FOREIGN], packed=packed)
    assert (written.info.packed, written.info.packed_bytes) == ("written", laid_out.stat().st_size)
    assert np.array_equal(logits(written), wanted) and np.array_equal(logits(written), wanted)
    stamp = laid_out.stat().st_mtime_ns
    mapped = EngineModel(artifacts[FOREIGN], packed=packed)
    assert mapped.info.packed == "mapped" and np.array_equal(logits(mapped), wanted)
    assert laid_out.stat().st_mtime_ns == stamp
    assert {path.name for path in packed.parent.iterdir()} == {laid_out.name, f"{laid_out.name}.lock"}
    in_memory = EngineModel(artifacts[FOREIGN])
    assert in_memory.info.packed == "in memory" and np.array_equal(logits(in_memory), wanted)


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_file_that_is_not_the_one_written_is_rebuilt(
    artifacts: dict[BlockRows, Path], packed: Path, laid_out: Path, damage: Callable[[Path], None]
) -> None:
    wanted = logits(EngineModel(artifacts[FOREIGN], packed=packed))
    damage(laid_out)
    rebuilt = EngineModel(artifacts[FOREIGN], packed=packed)
    assert rebuilt.info.packed == "written" and np.array_equal(logits(rebuilt), wanted)


def _entry(number: int, value: int) -> Callable[[bytearray], None]:
    """Change a field of the first entry of the index: source, bytes, offset."""

    def change(content: bytearray) -> None:
        entries = FOOTER.unpack_from(content, len(content) - FOOTER.size)[0]
        begin = len(content) - FOOTER.size - entries * ENTRY.size
        fields = list(ENTRY.unpack_from(content, begin))
        fields[number] = value
        ENTRY.pack_into(content, begin, *fields)

    return change


def _footer(number: int, value: int) -> Callable[[bytearray], None]:
    def change(content: bytearray) -> None:
        fields = list(FOOTER.unpack_from(content, len(content) - FOOTER.size))
        fields[number] = value
        FOOTER.pack_into(content, len(content) - FOOTER.size, *fields)

    return change


LIES = {
    "offset after the end": _entry(2, 1 << 40),
    "offset before the file": _entry(2, -64),
    "crooked offset": _entry(2, 8),
    "too many bytes": _entry(1, (1 << 63) - 1),
    "no bytes": _entry(1, 0),
    "fewer bytes than the matrix": _entry(1, 64),
    "another matrix": _entry(0, 12345),
    "more entries than bytes": _footer(0, 1 << 60),
    "no entries": _footer(0, 0),
    "another artifact": _footer(1, 1),
    "another version": _footer(3, 99),
}


@pytest.mark.parametrize("lie", LIES)
def test_an_index_that_lies_is_not_followed(
    artifacts: dict[BlockRows, Path], packed: Path, laid_out: Path, lie: str
) -> None:
    wanted = logits(EngineModel(artifacts[FOREIGN], packed=packed))
    before, content = laid_out.stat(), bytearray(laid_out.read_bytes())
    LIES[lie](content)
    with laid_out.open("r+b") as file:
        file.write(content)
    # The same size, time and inode, so that only the index itself can be at fault.
    os.utime(laid_out, ns=(before.st_atime_ns, before.st_mtime_ns))
    rebuilt = EngineModel(artifacts[FOREIGN], packed=packed)
    assert rebuilt.info.packed == "written" and np.array_equal(logits(rebuilt), wanted)


FULL_DISK = """
import json, resource, sys
from pathlib import Path
from edgec.runtime_py.engines.engine import EngineModel
from edgec.runtime_py.engines.engine_library import library
library()
# Python ignores SIGXFSZ, so that a write beyond the limit fails as on a full disk.
resource.setrlimit(resource.RLIMIT_FSIZE, (8_000, 8_000))
model = EngineModel(Path(sys.argv[1]), packed=Path(sys.argv[2]))
print(json.dumps([model.info.packed, sorted(path.name for path in Path(sys.argv[2]).parent.iterdir())]))
"""


def test_a_disk_that_fills_up_leaves_nothing_behind(artifacts: dict[BlockRows, Path], packed: Path) -> None:
    assert in_another_process(FULL_DISK, artifacts[FOREIGN], packed) == ["in memory", ["model.laid.packed.lock"]]
