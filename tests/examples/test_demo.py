"""The demo shows every size of a model that is there, on a screen of 80 columns."""

from __future__ import annotations

import io
import shutil
from pathlib import Path

import pytest
from rich.console import Console

from edgec.runtime_py.evaluate.side_by_side import SideBySide
from edgec.terminal import SCREEN
from examples import chat_demo
from examples.demo import HELD_OUT, PHONES, Outcome, main, outcome_table, phone_table, two_sentences, variants
from examples.stories.corpus import words
from examples.stories.packed import WEIGHTS, pack

ROOT = Path(__file__).resolve().parents[2]
MODEL = ROOT / "examples" / "tiny-stories"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('Tom ran. "Stop!" she said.\nHe did.', 'Tom ran. "Stop!"'),
        ("One. Two. Three.", "One. Two."),
        ("no end\nin vision", "no end in vision"),
        ("It cost 3.50 pounds. Yes. No.", "It cost 3.50 pounds. Yes."),
    ],
)
def test_two_sentences_are_shown(text: str, shown: str) -> None:
    assert two_sentences(text) == shown


def test_the_two_bit_model_is_unpacked_and_shown_where_it_is(tmp_path: Path) -> None:
    model, trained = tmp_path / "model", tmp_path / "trained"
    assert [one.name for one in variants(model, tmp_path)] == ["float", "4 bits"]
    trained.mkdir()
    for name, content in {"config.json": b"{}", WEIGHTS: bytes(range(256)) * 99, "training.json": b""}.items():
        (trained / name).write_bytes(content)
    packed = pack(trained, tmp_path / "model-two-bit")
    assert sorted(path.name for path in packed.iterdir()) == ["config.json", WEIGHTS + ".xz"]
    (two_bit,) = variants(model, tmp_path / "out")[2:]
    assert (two_bit.name, two_bit.recipe) == ("2 bits, shared KV", None)
    assert (two_bit.model / WEIGHTS).read_bytes() == (trained / WEIGHTS).read_bytes()
    assert (two_bit.model / "config.json").read_bytes() == b"{}"


def test_the_example_has_a_text_that_it_was_not_trained_on() -> None:
    assert len(words((MODEL / HELD_OUT).read_text())) > 1000


@pytest.mark.long
def test_the_story_model_writes_words_of_its_stories_and_keeps_within_its_size() -> None:
    """Its own greedy words are the most frequent ones of the held-out stories; the folder has 12 MB at most."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer, model = AutoTokenizer.from_pretrained(MODEL), AutoModelForCausalLM.from_pretrained(MODEL)
    prompt = tokenizer("Once upon a time", return_tensors="pt")
    text = tokenizer.decode(model.generate(**prompt, do_sample=False, max_new_tokens=60)[0], skip_special_tokens=True)
    known = set(words((MODEL / HELD_OUT).read_text()))
    assert len(words(text)) > 30 and sum(word in known for word in words(text)) > 0.9 * len(words(text))
    assert sum(path.stat().st_size for path in MODEL.iterdir()) <= 12e6


@pytest.mark.long
def test_the_tables_fit_a_narrow_screen() -> None:
    measured = SideBySide("x", "balanced2, host", 2_930_000, 31.4, 0.1, 0.814, 2061.4)
    row = Outcome("2 bits, shared KV", measured, "Once upon a time there was. It was.")
    console = Console(width=80, file=io.StringIO())
    console.print(outcome_table([row]), chat_demo.text_table([(row.name, row.text)]))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "81 %" in text and "31.4" in text and "2,061" in text and "It was." in text
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.long
def test_every_phone_has_a_speed_and_the_readme_shows_the_table_as_it_is() -> None:
    console = Console(width=SCREEN, file=io.StringIO())
    console.print(phone_table())
    text = console.file.getvalue()  # type: ignore[attr-defined]
    lines = [line.rstrip() for line in text.splitlines()]
    assert len(lines) == 2 + len(PHONES) and max(map(len, lines)) <= SCREEN
    assert "unavailable" not in text and "left out" not in text
    assert "\n".join(lines) in (ROOT / "README.md").read_text()


@pytest.mark.slow
def test_the_demo_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(MODEL, tmp_path / "tiny-stories")
    assert main(["--model", str(tmp_path / "tiny-stories"), "--out", str(tmp_path / "out")]) == 0
    out = capsys.readouterr().out
    assert "float" in out and "4 bits" in out and "perplexity" in out and "report.html" in out
    assert (tmp_path / "out" / "tiny-stories-4-bits.edgec" / "report.html").is_file()
    assert (tmp_path / "out" / HELD_OUT).is_file(), "the commands that follow name it"


def test_a_missing_model_is_a_typed_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--model", str(tmp_path / "none"), "--out", str(tmp_path)]) == 1
    assert "[E101]" in capsys.readouterr().err


@pytest.mark.parametrize(("given", "asked"), [([], chat_demo.QUESTION), (["--prompt", "Where?"], "Where?")])
def test_a_question_reaches_a_model_in_a_gguf_file(
    given: list[str], asked: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, seen = tmp_path / "x.gguf", []
    file.write_bytes(b"GGUF")
    monkeypatch.setattr(chat_demo, "show", lambda model, out, question: seen.append((model, question)))
    assert main(["--model", str(file), "--out", str(tmp_path), *given]) == 0
    assert seen == [(file, asked)]
