"""A plan is one screen: what a reader needs stands on 80 columns and 40 lines, in words."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from rich.console import Console

from edgec.devices.prediction.footprint import Widths
from edgec.devices.prediction.memory_fit import Verdict
from edgec.devices.prediction.parameters import Kind
from edgec.exporter.resolve.planned import Planned, Question, answer
from edgec.exporter.resolve.planned_page import page
from edgec.exporter.resolve.planned_words import recipe_words
from edgec.ir.weight_scheme import WeightScheme
from tests.exporter.resolve.cached_models import cache_models

ARCHITECTURES = Path(__file__).parents[3] / "benchmarks" / "architectures"
MODELS = ("smollm2-135m", "qwen3-0.6b", "qwen3-4b", "lfm2-1.2b", "qwen3.5-0.8b")
PHONES = (
    *("iphone-12-mini", "iphone-15-pro", "iphone-17-pro-cpu", "iphone-17e", "pixel-8", "pixel-10-gpu"),
    *("galaxy-s24-ultra", "galaxy-s25-ultra-gpu", "oneplus-12-cpu", "mac-m4", "raspberry-pi-5", "host"),
)


def _asked(model: str, target: str) -> Planned:
    return answer(Question(str(ARCHITECTURES / f"{model}.json"), target))


def _lines(answered: Planned, width: int = 80) -> list[str]:
    console = Console(width=width, highlight=False, color_system=None)
    with console.capture() as shown:
        for part in page(answered):
            console.print(part, soft_wrap=bool(getattr(part, "no_wrap", False)))
    return [line.rstrip() for line in shown.get().splitlines()]


@pytest.fixture(autouse=True)
def _read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    cache_models(monkeypatch)


@pytest.mark.long
@pytest.mark.sweep(2)
@pytest.mark.parametrize("model", MODELS)
def test_a_page_is_one_screen(model: str) -> None:
    for phone in PHONES:
        lines = _lines(_asked(model, phone))
        told = "\n".join(lines)
        assert 15 <= len(lines) <= 40, (phone, len(lines), told)
        # A command is never broken; a terminal folds it.
        assert all(len(line) <= 80 for line in lines if "edgec export " not in line), told
        assert [word for word in ("next", "assumed") if word in lines] == ["next", "assumed"]
        assert lines.index("next") < lines.index("assumed")
        assert not re.search(r"\*\.|_proj|overlap of", told), told


@pytest.mark.long
def test_the_first_lines_say_whether_it_fits_and_why() -> None:
    fits, likely, unlikely, unknown = (
        " ".join(_lines(_asked(*asked), 400)[:2])
        for asked in (
            ("qwen3-0.6b", "iphone-15-pro"),
            ("qwen3-0.6b", "galaxy-s24-ultra"),
            ("qwen3-30b-a3b", "galaxy-s24-ultra-cpu"),
            ("qwen3-0.6b", "mac-m4"),
        )
    )
    assert fits.startswith("qwen3-0.6b (596.0 M parameters), Apple iPhone 15 Pro, Neural Engine")
    assert re.search(r"Fits: it needs [\d,]+ to [\d,]+ MB, at most \d+ % of its 8 GB; an app is granted 3,000 to", fits)
    assert re.search(r"Likely fits: .* of its 12 GB; likely up to 5,669 MB, unlikely above 6,442 MB", likely)
    assert "Does not fit: it needs" in unlikely
    assert "how much memory it has is not known: likely with 4 GB or more" in unknown


@pytest.mark.long
def test_a_unit_that_edgec_makes_nothing_for_says_who_does() -> None:
    lines = _lines(_asked("qwen3-0.6b", "snapdragon-x-elite-laptop-gpu"), 400)
    assert any("edgec makes nothing for this GPU yet: llama.cpp" in line for line in lines)
    assert not any("edgec export" in line for line in lines)


@pytest.mark.long
def test_a_refused_model_says_so_before_all_else() -> None:
    answered = _asked("qwen3.5-0.8b", "galaxy-s24-ultra")
    lines = _lines(answered, 400)
    assert "edgec export refuses it here" in lines[1] and "[E528]" in lines[1]
    assert lines[2].startswith("By its memory alone it likely fits: it needs")
    place = next(i for i, line in enumerate(lines) if "--target galaxy-s24-ultra-cpu" in line)
    assert re.fullmatch(
        r"    the CPU takes it: prefill [\d,]+ to [\d,]+, decode [\d.]+ to [\d.]+ tokens/s", lines[place + 1]
    )
    assert not any("(reads the prompt)" in line for line in lines)  # Nothing of what cannot be made is fast.
    assert not any(line.endswith("--target galaxy-s24-ultra") for line in lines)


@pytest.mark.long
def test_where_it_does_not_fit_the_next_command_says_what_would() -> None:
    answered = answer(Question(str(ARCHITECTURES / "qwen3-4b.json"), "iphone-12-mini"))
    assert answered.plan.verdict is Verdict.DOES_NOT_FIT
    lines = _lines(answered, 400)
    place = next(i for i, line in enumerate(lines) if "--recipe 3bit" in line)
    assert re.fullmatch(r"    needs at most [\d,]+ MB: (fits|may not fit|does not fit)", lines[place + 1])


def test_bits_are_told_in_words() -> None:
    value, table = WeightScheme(6), WeightScheme(4)
    rules = (("*.k_proj.weight", value), ("*.v_proj.weight", value), ("*.down_proj.weight", WeightScheme(5)))
    widths = Widths(4, 32, 8, 8, 16, schemes={Kind.LINEAR: table}, rules=rules)
    told = "weights in 4 bits (key and value projections in 6, down projections in 5)"
    assert recipe_words(widths) == f"{told}, embedding and lm_head in 8 bits, cached keys and values in 16-bit floats"
    floats = recipe_words(Widths(32, 0, 32, 8, 32))
    assert floats.startswith("weights in 32-bit floats, embedding in 32-bit floats, lm_head in 8 bits")
    searched = (("model.layers.3.mlp.weight", value), ("model.layers.4.mlp.weight", None))
    assert "(1 other matrix in 6, 1 other matrix in 32)" in recipe_words(
        Widths(4, schemes={Kind.LINEAR: table}, rules=searched)
    )
