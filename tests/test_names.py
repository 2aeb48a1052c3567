"""One name, one meaning: no public class, and no public alias of a type, is defined in two files of the code."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "edgec"
LAYERS = ("ir", "bundle", "passes", "devices", "backends", "runtime_py", "exporter", "cli")
# A definition at the beginning of a line; constants are in capitals, so that a name with small letters is of a type.
CLASS = re.compile(r"^class ([A-Z]\w*)", re.MULTILINE)
ALIAS = re.compile(r"^([A-Z]\w*[a-z]\w*)(?:: [^=\n]+)? = ", re.MULTILINE)


def definitions(file: Path) -> Iterator[str]:
    """The public classes and aliases of types that a file defines for others."""
    text = file.read_text()
    yield from (*CLASS.findall(text), *ALIAS.findall(text))


def collisions(package: Path) -> dict[str, list[str]]:
    """The names that several files define, with these files; folders are links, so they are walked one by one."""
    places: dict[str, list[str]] = {}
    for layer in LAYERS:
        for file in sorted((package / layer).rglob("*.py")):
            for name in dict.fromkeys(definitions(file)):
                places.setdefault(name, []).append(file.relative_to(package).as_posix())
    return {name: files for name, files in places.items() if len(files) > 1}


def test_each_type_is_defined_once() -> None:
    assert collisions(PACKAGE) == {}


def test_the_types_are_found() -> None:
    assert "Program" in set(definitions(PACKAGE / "ir" / "program.py"))
    assert "TokenRule" in set(definitions(PACKAGE / "runtime_py" / "structured" / "rule.py"))
    assert "Vector" in set(definitions(PACKAGE / "runtime_py" / "structured" / "rule.py"))


@pytest.mark.parametrize("second", ["class Shape:\n    pass\n", "Shape = tuple[int, ...]\n", "Shape: type = int\n"])
def test_a_planted_collision_is_found(tmp_path: Path, second: str) -> None:
    for layer in LAYERS:
        (tmp_path / layer).mkdir()
    (tmp_path / "ir" / "one.py").write_text("class Shape:\n    pass\nclass _Own:\n    pass\nSHAPE = 1\n")
    (tmp_path / "cli" / "two.py").write_text("from edgec.ir.one import Shape\nclass _Own:\n    pass\nSHAPE = 2\n")
    assert collisions(tmp_path) == {}
    (tmp_path / "cli" / "two.py").write_text(second)
    assert collisions(tmp_path) == {"Shape": ["ir/one.py", "cli/two.py"]}
