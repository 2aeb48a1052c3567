"""The report's first lines: how much smaller, how alike, what both models say, and what to do next."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch

from edgec.bundle.manifest import LedgerRow, Manifest
from edgec.cli.app import COMMANDS
from edgec.exporter.parity.sample import Sample
from edgec.exporter.report.headline import headline, next_commands, quality_of
from edgec.exporter.report.layers import LayerBytes, layer_bars, layer_groups
from edgec.exporter.report.page import render_report
from edgec.exporter.report.parts import plain, rounded
from edgec.exporter.report.reading import NextTokens, next_tokens, reading, texts
from edgec.exporter.report.sections import ReportSamples
from edgec.exporter.report.style import STYLE
from tests.bundle.bundle_samples import PARITY, sample_manifest


def sized(artifact_bytes: int, parameters: int = 1_000_000) -> Manifest:
    manifest = sample_manifest()
    assert manifest.ledger is not None
    model = manifest.model.model_copy(update={"parameters": parameters})
    ledger = manifest.ledger.model_copy(update={"artifact_bytes": artifact_bytes})
    return manifest.model_copy(update={"ledger": ledger, "model": model})


class TestHeadline:
    def test_it_says_how_much_smaller_and_how_alike(self) -> None:
        said = headline(sized(690_000))
        assert "5.8 times smaller than in 32-bit floats, 95 % the same next token (at 128 positions, near" in said
        assert "not smaller" in headline(sized(4_000_000))

    def test_a_measured_speed_names_its_machine(self) -> None:
        bench = ReportSamples("decode_tokens_per_s", "tokens/s", (3464.2, 3400.0, 3500.0), "measured on host")
        assert "3,500 tokens/s (measured on host)" in headline(sized(690_000), [bench])
        assert "tokens/s" not in headline(sized(690_000))

    def test_nearly_all_is_not_all(self) -> None:
        quality = PARITY[-1]
        assert quality.half == "quality"
        nearly = quality.model_copy(update={"top1_agreement": 0.998})
        assert "99 % the same" in headline(sample_manifest(parity=[nearly]))
        assert ", the same next token (at" in headline(
            sample_manifest(parity=[quality.model_copy(update={"top1_agreement": 1.0})])
        )

    def test_near_ties_count_where_they_are_known(self) -> None:
        said = headline(sized(690_000), said=NextTokens((1,), (2,), (2,), same=82, places=87))
        ladder = quality_of(sized(690_000).parity)
        assert ladder is not None and ladder.top1_agreement is not None
        without = f"{100 * ladder.top1_agreement:.1f} % where near ties are left out"
        assert f"94 % the same next token (at 82 of 87 positions; {without})" in said

    def test_random_weights_are_not_alike(self) -> None:
        model = sample_manifest().model.model_copy(update={"trained": False})
        assert "next token" not in headline(sample_manifest(model=model))

    def test_without_figures_there_is_no_claim(self) -> None:
        said = headline(sample_manifest(ledger=None, parity=[]))
        assert "unavailable" in said and "times smaller" not in said

    @pytest.mark.parametrize("change", [{}, {"target": "iphone-16-pro", "format": "mlpackage"}, {"limits": None}])
    def test_the_next_commands_exist(self, change: dict[str, object]) -> None:
        commands = next_commands(sample_manifest(**change))
        assert len(commands) == 3 and all(command.split()[1] in COMMANDS for command in commands)

    def test_a_command_breaks_between_words_only(self) -> None:
        assert "<span>edgec</span> <span>run</span>" in headline(sized(1_000_000))
        assert ".next span { display: inline-block; }" in STYLE

    def test_a_name_cannot_become_markup(self) -> None:
        assert "<b>" not in headline(sample_manifest(name="<b>"))


class TestReading:
    def test_the_last_places_in_a_row_are_taken(self) -> None:
        positions = [3, 4, 10, 11, 12]
        logits = {name: torch.eye(8)[torch.tensor(ids)] for name, ids in
                  (("reference", [1, 2, 3, 4, 5]), ("final", [1, 2, 3, 7, 5]))}  # fmt: skip
        made = next_tokens(range(13), positions, logits)
        assert made == NextTokens(tuple(range(11)), (3, 4, 5), (3, 7, 5), same=4, places=5)

    def test_at_most_48_places_are_shown(self) -> None:
        logits = {name: torch.zeros(100, 8) for name in ("reference", "final")}
        made = next_tokens(range(200), range(90, 190), logits)
        assert made is not None and len(made.float_tokens) == 48 and made.before[-1] == 142

    def test_outputs_of_a_module_are_no_tokens(self) -> None:
        assert next_tokens(range(9), [1], {"reference": torch.zeros(1, 2, 3), "final": torch.zeros(1, 2, 3)}) is None
        assert next_tokens(range(9), [1], {}) is None

    def test_differences_are_marked_and_spaces_kept(self) -> None:
        words = {1: "Once", 2: " upon", 3: " a", 4: " <the>"}
        html = reading(NextTokens((1,), (2, 3), (2, 4)), lambda ids: "".join(words[i] for i in ids).lstrip())
        assert "1 of 2 are the same" in html
        assert " upon<mark> a</mark>" in html and " upon<mark> &lt;the&gt;</mark>" in html

    def test_short_texts_stand_side_by_side_and_part_ways_with_a_mark(self) -> None:
        words = {1: "Once", 2: " upon", 3: " a", 4: " <the>", 5: " time"}

        def decode(ids: Sequence[int]) -> str:
            return "".join(words[i] for i in ids).lstrip()

        html = texts(Sample((1,), (2, 3, 5), (2, 4, 5)), decode)
        assert "the first 1 of 3 tokens are the same" in html
        assert "</span> upon<mark> a time</mark>" in html and "</span> upon<mark> &lt;the&gt; time</mark>" in html
        assert "all 2 tokens are the same" in (equal := texts(Sample((1,), (2, 3), (2, 3)), decode))
        assert "<mark>" not in equal
        assert texts(None, decode) == "" and texts(Sample((1,), (2,), (2,)), None) == ""

    def test_the_short_texts_take_the_place_of_the_next_tokens(self) -> None:
        said, sample = NextTokens((1,), (2, 3), (2, 4)), Sample((1,), (2,), (2,))
        html = render_report(sample_manifest(), said=said, decode=lambda ids: " ".join(map(str, ids)), sample=sample)
        assert html.count("What it says") == 1 and "Each continues the same words" in html

    def test_it_is_part_of_the_report(self) -> None:
        said = NextTokens((1,), (2, 3), (2, 4))
        html = render_report(sample_manifest(), said=said, decode=lambda ids: " ".join(map(str, ids)))
        assert "What it says" in html and "What it says" not in render_report(sample_manifest())


class TestLayers:
    def row(self, name: str, count: int) -> LedgerRow:
        manifest = sample_manifest()
        assert manifest.ledger is not None
        return manifest.ledger.rows[0].model_copy(update={"name": name, "bytes": count})

    def test_equal_neighbours_are_joined(self) -> None:
        rows = [self.row("model.embed_tokens.weight", 100)]
        for layer, bytes_ in enumerate((30, 30, 40)):
            rows += [self.row(f"model.layers.{layer}.self_attn.q_proj.weight", 10)]
            rows += [self.row(f"model.layers.{layer}.mlp.up_proj.weight", bytes_)]
        assert layer_groups(rows) == [
            LayerBytes(-1, -1, (0, 0, 100), "embedding, lm_head, norms"),
            LayerBytes(0, 1, (10, 30, 0)),
            LayerBytes(2, 2, (10, 40, 0)),
        ]
        html = layer_bars(rows)
        assert "layers 0 to 1, each" in html and "layer 2" in html and "100 B" in html

    def test_without_layers_there_are_no_bars(self) -> None:
        assert layer_bars([self.row("classifier.weight", 10)]) == ""


@pytest.mark.parametrize(
    ("value", "said"),
    [
        *(({"b": None, "a": True}, "a yes, b none"), ([1, 2], "1, 2"), (0.123456, "0.123"), ("int8", "int8")),
        *(({}, "none"), ({"group_size": 32, "levels": 0, "kinds": []}, "group size 32")),
        ([{"bits": 4, "groups": [64, 32]}, {"bits": 8}], "bits 4, groups 64, 32; bits 8"),
    ],
)
def test_options_are_written_without_python(value: object, said: str) -> None:
    assert plain(value) == said


@pytest.mark.parametrize(("value", "said"), [(5.84, "5.8"), (9.96, "10"), (94.4, "94"), (3464.2, "3,500")])
def test_a_sentence_has_two_digits(value: float, said: str) -> None:
    assert rounded(value) == said
