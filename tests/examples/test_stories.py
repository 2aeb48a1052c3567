"""The script of the story model samples, trains and measures, and goes on where it was stopped."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

import edgec
from examples.stories.corpus import all_stories, build_corpus, rows, split, words, write_texts
from examples.stories.measure import known_share, loss_on
from examples.stories.muon import Muon, orthogonal
from examples.stories.sampling import Share, Story, read_stories, sample, temperature_of, whole_sentences
from examples.stories.settings import Progress, Shape, StorySettings
from examples.stories.tokens import CHAT_TEMPLATE, train_tokenizer
from examples.stories.training import rate_at, save_checkpoint, start, take_step, train
from examples.train_stories import main

SHAPE = Shape(vocabulary=320, hidden=32, layers=2, heads=2, kv_heads=1, intermediate=64, context=64)
NAMES = ("Tom", "Lily", "Ben", "Sue", "Max")


def story(seed: int, ended: bool = True) -> Story:
    name, other = NAMES[seed % 5], NAMES[seed % 3]
    text = f'One day, {name} saw {other} in the park number {seed}. "Come and play!" said {name}. They were happy. ' * 2
    return Story(seed, 0.8, 60, ended, text.strip())


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A folder with 300 stories, as sampling leaves them."""
    lines = [json.dumps(asdict(story(seed, ended=seed % 4 != 0))) + "\n" for seed in range(300)]
    (tmp_path / "stories-0.jsonl").write_text("".join(lines[::2]))
    (tmp_path / "stories-1.jsonl").write_text("".join(lines[1::2]))
    return tmp_path


@pytest.fixture
def settings(work: Path) -> StorySettings:
    return StorySettings(work, work / "model", SHAPE, steps=4, minutes=5.0, batch=2, length=32, checkpoint_seconds=1e9)


class Teller:
    """A model that writes a token for each call of its random stream, and ends every other story."""

    def __init__(self) -> None:
        self.tokenizer, self.eos = SimpleNamespace(bos_token_id=1), frozenset({2})
        self.seeds: list[int] = []

    def tokens(self, prompt: list[int], *, max_new_tokens: None, temperature: float, seed: int) -> list[int]:
        assert prompt == [1] and 0.7 <= temperature <= 1
        self.seeds.append(seed)
        return [seed, 7, 7, 2 if seed % 2 else 7]

    def decode(self, tokens: list[int]) -> str:
        return f"Story {tokens[0]}. The end. And then"


class TestSampling:
    @pytest.fixture
    def teller(self, monkeypatch: pytest.MonkeyPatch) -> Teller:
        made = Teller()
        monkeypatch.setattr(edgec, "load", lambda bundle, threads: made, raising=False)
        return made

    def test_two_processes_take_different_seeds_and_stop_at_their_share(self, teller: Teller, tmp_path: Path) -> None:
        for index in (0, 1):
            assert sample(tmp_path / "bundle", tmp_path, 40, Share(index, 2)) == 20
        assert teller.seeds == [0, 2, 4, 6, 8, 1, 3, 5, 7, 9]

    def test_a_stopped_run_goes_on_and_drops_a_cut_line(self, teller: Teller, tmp_path: Path) -> None:
        share = Share()
        sample(tmp_path / "bundle", tmp_path, 12, share)
        with share.file(tmp_path).open("a") as file:
            file.write('{"seed": 3, "tempera')
        sample(tmp_path / "bundle", tmp_path, 20, share)
        assert [one.seed for one in read_stories(share.file(tmp_path))] == [0, 1, 2, 3, 4] == teller.seeds
        whole, cut = list(read_stories(share.file(tmp_path)))[1::-1]
        assert (whole.ended, whole.text) == (True, "Story 1. The end. And then")
        assert (cut.ended, cut.text) == (False, "Story 0. The end.")

    @pytest.mark.parametrize(
        ("text", "kept"),
        [
            ('He ran. "Stop!" she said', 'He ran. "Stop!"'),
            ("He ran. She", "He ran."),
            ("no end", ""),
            ('"Is it?" "Yes."', '"Is it?" "Yes."'),
        ],
    )
    def test_a_story_is_cut_after_its_last_sentence(self, text: str, kept: str) -> None:
        assert whole_sentences(text) == kept

    def test_temperatures_are_spread_and_repeatable(self) -> None:
        drawn = [temperature_of(seed) for seed in range(300)]
        assert drawn == [temperature_of(seed) for seed in range(300)]
        assert min(drawn) < 0.71 and max(drawn) > 0.99


class TestCorpus:
    def test_every_hundredth_story_is_held_out_and_a_double_is_kept_once(self, work: Path) -> None:
        with (work / "stories-2.jsonl").open("w") as file:
            file.write(json.dumps(asdict(replace(story(5), seed=1000))) + "\n")
            file.write(json.dumps(asdict(replace(story(6), seed=1001, text="Too short."))) + "\n")
        trained, held_out = split(all_stories(work))
        assert [one.seed for one in held_out] == [99, 199, 299] and len(trained) == 297

    def test_rows_begin_with_a_story_and_unended_ones_have_no_end(self, work: Path) -> None:
        stories = all_stories(work)
        tokenizer = train_tokenizer([one.text for one in stories], 320)
        corpus = build_corpus(tokenizer, stories)
        made = rows(corpus, 5, 32, np.random.default_rng(0))
        assert made.shape == (5, 33) and set(made[:, 0]) == {tokenizer.token_to_id("<s>")}
        ends = int((corpus.stream == tokenizer.token_to_id("</s>")).sum())
        assert ends == sum(one.ended for one in stories) == 225

    def test_texts_keep_the_held_out_stories_apart(self, work: Path) -> None:
        stories, held_out = (path.read_text() for path in write_texts(work, shown_characters=500))
        assert "number 99." not in stories and "number 98." in stories and stories.count("\n\n") == 296
        assert stories.count("<s>") == 297 and stories.count("</s>") == sum(seed % 4 != 0 for seed in range(300)) - 3
        assert (
            "<s>" not in held_out
            and held_out.count("number 99.") == 2
            and "number 299." not in held_out
            and len(held_out) < 520
        )


class TestMuon:
    @pytest.mark.parametrize("shape", [(3, 16, 16), (2, 8, 24), (2, 24, 8)])
    def test_singular_values_come_near_one(self, shape: tuple[int, int, int]) -> None:
        torch.manual_seed(0)
        values = torch.linalg.svdvals(orthogonal(torch.randn(shape)))
        # The quintic's coefficients trade exactness for steps: Jordan et al. give 0.68 to 1.13 after five.
        assert values.min() > 0.4 and values.max() < 1.3

    def test_it_descends(self) -> None:
        torch.manual_seed(0)
        weight, aim = torch.nn.Parameter(torch.zeros(8, 8)), torch.randn(8, 8)
        optimizer = Muon([weight], lr=0.05)
        losses = []
        for _ in range(60):
            loss = (weight - aim).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        assert losses[-1] < 0.2 * losses[0]


class TestTraining:
    def test_the_schedule_warms_up_and_falls(self) -> None:
        rates = [rate_at(share, 0.02) for share in (0.0, 0.02, 0.5, 1.0)]
        assert rates[0] < 0.1 < rates[2] < rates[1] == 1.0 and rates[3] == pytest.approx(0.02)
        settings = StorySettings(Path(), Path(), steps=100, minutes=10.0)
        assert [Progress(step=50, seconds=60.0).spent(settings), Progress(seconds=540.0).spent(settings)] == [0.5, 0.9]

    def test_it_writes_a_folder_that_loads_and_measures(
        self, settings: StorySettings, capsys: pytest.CaptureFixture[str]
    ) -> None:
        progress = train(replace(settings, log_steps=2))
        assert progress.step == 4 and progress.tokens == 4 * 2 * 32
        assert "min left" in capsys.readouterr().out
        loaded = AutoModelForCausalLM.from_pretrained(settings.out, local_files_only=True)
        assert loaded.dtype == torch.bfloat16
        tokenizer = AutoTokenizer.from_pretrained(settings.out, local_files_only=True)
        assert tokenizer.chat_template == CHAT_TEMPLATE
        loss = loss_on(settings.out, [story(1).text])
        assert 0 < loss.nats_per_token < 7 and loss.text_bytes > 50 and loss.bits_per_byte > 0

    def test_resumed_training_equals_uninterrupted(self, settings: StorySettings) -> None:
        whole = replace(settings, out=settings.out.with_name("whole"))
        train(whole)
        run, progress = start(settings)
        assert progress.step == 0
        take_step(run, progress)
        save_checkpoint(run, replace(progress, step=1))
        train(settings)
        saved = [torch.load(one.checkpoint, weights_only=True)["model"] for one in (settings, whole)]
        assert all(torch.allclose(saved[0][name], saved[1][name], atol=1e-6) for name in saved[1])


def test_words_are_known_by_how_often_they_occur() -> None:
    vocabulary = Counter(words("Tom's dog ran. The dog sat."))
    assert vocabulary["tom's"] == 1 and vocabulary["dog"] == 2
    assert known_share(["The dog flew"], vocabulary) == pytest.approx(2 / 3)
    assert known_share(["The dog flew"], vocabulary, at_least=2) == pytest.approx(1 / 3)


@pytest.mark.parametrize("arguments", [["sample", "--work", "x"], ["measure", "--work", "x", "--out", "y"]])
def test_what_a_part_needs_is_named(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2 and "needs --teacher" in capsys.readouterr().err
