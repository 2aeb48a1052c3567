"""What a bundle holds by a name is checked before it is used."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from edgec.errors import InputError
from edgec.runtime_py.structured.shipped import shipped_structure


@pytest.mark.parametrize("told", ["[1]", '["start: x", null]', '[["x"]]', "["])
def test_a_grammar_whose_lines_are_no_texts_is_refused(tmp_path: Path, told: str) -> None:
    (tmp_path / "schemas").mkdir()
    (tmp_path / "schemas" / "sum.json").write_text(told)
    bundle = cast(Any, SimpleNamespace(path=tmp_path, manifest=SimpleNamespace(schemas=["sum"])))
    with pytest.raises(InputError) as error:
        shipped_structure(bundle, "sum")
    assert error.value.code == "E714" and error.value.where.endswith("sum.json")
