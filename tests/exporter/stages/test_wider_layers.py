"""What has more bits than the recipe asks for, in a line."""

from __future__ import annotations

from edgec.exporter.stages.wider_layers import wider_line
from edgec.ir.weight_decision import Decision, decide
from edgec.ir.weight_scheme import WeightScheme

FOUR, EIGHT = WeightScheme(4), WeightScheme(8, group_size=0)


def decided(name: str, role: str, asked: WeightScheme | None, used: WeightScheme | None, reason: str = "") -> Decision:
    return decide(name, role, (8, 32), asked, (used, reason))


def test_nothing_is_told_where_the_recipe_is_kept() -> None:
    kept = [decided("a", "convolution", EIGHT, EIGHT), decided("b", "linear", FOUR, None, "narrow")]
    assert wider_line([*kept, decided("c", "convolution", None, None)]) == ""


def test_bytes_and_reasons_are_told_for_each_kind() -> None:
    line = wider_line(
        [
            *(decided(f"c{i}", "convolution", FOUR, EIGHT, "kernels read 8 bits") for i in range(2)),
            *(decided(f"f{i}", "convolution", FOUR, None, "no operator") for i in range(4)),
            decided("r", "recurrence", FOUR, EIGHT, "kernels read 8 bits"),
        ]
    )
    assert line == (
        "2 convolutions in 8 bits, 576 bytes (kernels read 8 bits); "
        "4 convolutions in float, 4,096 bytes (f0, f1, f2 and 1 more: no operator); "
        "1 recurrent matrix in 8 bits, 288 bytes (kernels read 8 bits)"
    )
