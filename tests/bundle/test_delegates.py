"""The backends that an ExecuTorch program names."""

from pathlib import Path

import pytest

from edgec.bundle.delegates import named_delegates


@pytest.mark.parametrize(
    ("program", "found"),
    [
        (b"", set()),
        (b"\0" * 40, set()),
        (b"....EdgecLinear....XnnpackBackend", {"EdgecLinear", "XnnpackBackend"}),
        (
            b"12345678eh00\x20\0\0\0" + (40).to_bytes(8, "little") + b"EdgecEmbedding.." + b"XnnpackBackend",
            {"EdgecEmbedding"},
        ),
        (b"12345678eh00\x20\0\0\0" + b"\xff" * 8 + b"EdgecLinear", {"EdgecLinear"}),
    ],
)
def test_delegates_are_found_in_the_program_only(program: bytes, found: set[str], tmp_path: Path) -> None:
    (tmp_path / "model.pte").write_bytes(program)
    assert named_delegates(tmp_path / "model.pte") == found
    assert named_delegates(tmp_path / "absent.pte") == frozenset()
