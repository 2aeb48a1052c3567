from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from edgec.errors import InputError
from edgec.runtime_py.bench.compare import compare
from edgec.runtime_py.bench.record import (
    AnyRecord,
    Comparability,
    MemoryRecord,
    RepetitionRecord,
    Subject,
    write_records,
)

KEY = Comparability(
    device="host",
    machine="Chip x4",
    model="tiny",
    model_parameters=1000,
    prompt_tokens=20,
    new_tokens=4,
    threads=2,
    runtime="executorch 1.5.1",
)


def run(path: Path, factor: float = 1.0, recipe: str = "float", repetitions: int = 9, **changes: Any) -> Path:
    subject = Subject(name="t", digest=recipe * 9, recipe=recipe, target="host", artifact_bytes=9, context=64)
    common: dict[str, Any] = {
        "run": recipe,
        "comparability": KEY.model_copy(update=changes),
        "subject": subject,
        "obtained": "measured",
    }
    records: list[AnyRecord] = [MemoryRecord(**common, peak_rss_bytes=int(1e8 * factor), baseline_rss_bytes=1)]
    for i in range(repetitions):
        ttft = 100.0 * factor * (1 + 0.01 * (i % 3))
        speeds: dict[str, Any] = {
            "prefill_tokens_per_s": 2e4 / ttft,
            "decode_tokens_per_s": 5e3 / ttft,
            "token_ms": [ttft / 5] * 3,
        }
        records.append(RepetitionRecord(**common, **speeds, index=i, ttft_ms=ttft, tokens=4, finish_reason="length"))
    write_records(records, path)
    return path


def test_two_recipes_are_compared_with_their_spread(tmp_path: Path) -> None:
    result = compare(run(tmp_path / "a", 1.0), run(tmp_path / "b", 0.5, recipe="int4"))
    ratios = {r.name: r for r in result.ratios}
    assert ratios["TTFT"].ratio == pytest.approx(0.5) and ratios["TTFT"].better is True
    assert ratios["decode"].ratio == pytest.approx(2.0) and ratios["decode"].better is True
    low, high = ratios["decode"].low, ratios["decode"].high
    assert low is not None and high is not None and 1.9 < low <= 2.0 <= high < 2.1
    assert (ratios["peak RSS"].low, ratios["peak RSS"].better) == (None, None)
    assert "int4" in result.b


def test_memory_that_did_not_grow_has_no_ratio(tmp_path: Path) -> None:
    flat = run(tmp_path / "a")
    first, *others = flat.read_text().splitlines(keepends=True)
    flat.write_text("".join([first.replace('_rss_bytes":1}', '_rss_bytes":100000000}'), *others]))
    names = [ratio.name for ratio in compare(flat, run(tmp_path / "b")).ratios]
    assert "peak RSS" in names and "RSS over idle" not in names


def test_equal_runs_show_no_difference_and_slower_ones_are_worse(tmp_path: Path) -> None:
    same = compare(run(tmp_path / "a"), run(tmp_path / "b", recipe="other"))
    assert all(r.better is None for r in same.ratios)
    slower = compare(run(tmp_path / "a"), run(tmp_path / "c", 2.0))
    assert {r.better for r in slower.ratios if r.low is not None} == {False}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("device", "adb:1"),
        ("machine", "Chip x8"),
        ("model", "other"),
        ("model_parameters", 2000),
        ("prompt_tokens", 21),
        ("new_tokens", 5),
        ("threads", 1),
        ("runtime", "executorch 1.6.0"),
    ],
)
def test_unlike_runs_are_refused_by_the_name_of_the_field(tmp_path: Path, name: str, value: Any) -> None:
    a, b = run(tmp_path / "a"), run(tmp_path / "b", **{name: value})
    with pytest.raises(InputError) as error:
        compare(a, b)
    assert error.value.code == "E160" and name in error.value.what and str(value) in error.value.why
    assert compare(a, b, [name]).differences == ((name, str(getattr(KEY, name)), str(value)),)


def test_allowing_one_difference_does_not_allow_another(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="machine"):
        compare(run(tmp_path / "a"), run(tmp_path / "b", threads=1, machine="x"), ["threads"])


def test_allowing_what_is_no_field(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="E160"):
        compare(run(tmp_path / "a"), run(tmp_path / "b"), ["recipe"])


@pytest.mark.parametrize("content", ["", "{}", "not json", '{"kind": "run"}', "\xff"])
def test_files_that_are_no_run(tmp_path: Path, content: str) -> None:
    (tmp_path / "bad").write_bytes(content.encode("latin-1"))
    with pytest.raises(InputError, match="E161"):
        compare(run(tmp_path / "a"), tmp_path / "bad")


def test_two_runs_in_one_file(tmp_path: Path) -> None:
    both = run(tmp_path / "a").read_text() + run(tmp_path / "b", recipe="int4").read_text()
    (tmp_path / "both").write_text(both)
    with pytest.raises(InputError, match="E161"):
        compare(tmp_path / "a", tmp_path / "both")


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="E161"):
        compare(tmp_path / "none", tmp_path / "none")
