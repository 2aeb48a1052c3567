"""Convolutions on 8 bits: errors as small as 8 bits allow, what stays in float, and that the pass is idempotent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from edgec.exporter.capture.module import capture_module
from edgec.ir.fixed_ranges import DEQUANTIZE_FIXED, QUANTIZE_FIXED
from edgec.ir.program import Program
from edgec.ir.quantized_form import DEQUANTIZE, decisions_of
from edgec.ir.weight_decision import Decision
from edgec.ir.weight_scheme import SchemeRule, WeightScheme, lut
from edgec.passes.cleanup.remove_noops import RemoveNoops
from edgec.passes.compress.quantize_convolutions import QuantizeConvolutions
from edgec.passes.contract import nodes_of, run_passes
from edgec.passes.fuse.fold_batch_norm import NORM, FoldBatchNorm
from edgec.passes.graph.calibration import Calibration
from edgec.passes.graph.convolution_call import convolutions
from tests.convolving import MAKERS, made

EIGHT = WeightScheme(8, group_size=0)
Calls = Sequence[Sequence[Tensor]]


def prepared(module: nn.Module, calls: Calls) -> Program:
    return run_passes(capture_module(module, tuple(calls[0])), [RemoveNoops(), FoldBatchNorm()])


def rounded(
    program: Program, calls: Calls, rules: tuple[SchemeRule, ...] = (), scheme: WeightScheme | None = EIGHT
) -> Program:
    return run_passes(program, [QuantizeConvolutions(Calibration(calls=calls), rules, scheme)])


def share(program: Program, other: Program, calls: Calls) -> float:
    """The largest difference of outputs, of the largest output."""
    with torch.no_grad():
        pairs = [(program.graph(*call)[0], other.graph(*call)[0]) for call in calls]
    return max(float((one - two).abs().max()) for one, two in pairs) / max(float(one.abs().max()) for one, _ in pairs)


def decisions(program: Program) -> list[Decision]:
    return [each for each in decisions_of(program.graph) if each.role == "convolution"]


@pytest.mark.parametrize("name", MAKERS)
def test_8_bits_cost_little(name: str) -> None:
    module, calls = made(name)
    program = prepared(module, calls)
    after = rounded(program, calls)
    # Half a step of 255 for each of a few values after each other, and weights of 127 steps: measured at most 1.7 %.
    assert 0 < share(program, after, calls) < 0.03
    assert all(call.weight.target is DEQUANTIZE for call in convolutions(after.graph))
    assert not nodes_of(after.graph, NORM)
    assert all(each.used is not None and each.container_bits == 8 for each in decisions(after))


@pytest.mark.parametrize("name", MAKERS)
def test_twice_changes_nothing_more(name: str) -> None:
    module, calls = made(name)
    after = rounded(prepared(module, calls), calls)
    again = rounded(after, calls)
    assert [str(node) for node in again.graph.graph.nodes] == [str(node) for node in after.graph.graph.nodes]
    assert decisions(again) == decisions(after)


def test_integers_reach_from_convolution_to_convolution() -> None:
    module, calls = made("pitch")
    after = rounded(prepared(module, calls), calls)
    # The input, two results after ReLU, two norms and two poolings, which keep the range of the norms.
    held = nodes_of(after.graph, QUANTIZE_FIXED)
    assert len(held) == 7
    ranges = [tuple(node.args[1:3]) for node in held]
    assert ranges[2] == ranges[3] and ranges[5] == ranges[6] and len(set(ranges)) == 5
    for node in nodes_of(after.graph, DEQUANTIZE_FIXED):
        # XNNPACK's partitioner wants one for each reader.
        assert len(node.users) == 1


def test_a_sum_of_two_such_values_is_one() -> None:
    module, calls = made("residual")
    after = rounded(prepared(module, calls), calls)
    (added,) = nodes_of(after.graph, torch.ops.aten.add.Tensor)
    assert [source.target for source in added.all_input_nodes] == [DEQUANTIZE_FIXED] * 2
    (cut,) = added.users
    assert cut.target is torch.ops.aten.relu.default
    assert [user.target for user in cut.users] == [QUANTIZE_FIXED]


def test_channels_side_by_side_share_a_range() -> None:
    module, calls = made("branches")
    after = rounded(prepared(module, calls), calls)
    (joined,) = nodes_of(after.graph, torch.ops.aten.cat.default)
    assert [source.target for source in joined.all_input_nodes] == [DEQUANTIZE_FIXED] * 3
    (held,) = joined.users
    ranges = {source.args[1:3] for source in (*joined.all_input_nodes, held)}
    assert held.target is QUANTIZE_FIXED and len(ranges) == 1


def test_means_that_a_convolution_reads_are_integers() -> None:
    module, calls = made("averaged")
    after = rounded(prepared(module, calls), calls)
    (mean,) = nodes_of(after.graph, torch.ops.aten.adaptive_avg_pool2d.default)
    assert [each.target for each in mean.all_input_nodes] == [DEQUANTIZE_FIXED]
    assert [each.target for each in mean.users] == [QUANTIZE_FIXED]


def test_a_branch_in_float_is_laid_beside_the_others_as_it_is() -> None:
    module, calls = made("branches")
    after = rounded(prepared(module, calls), calls, (("wide.weight", None),))
    (joined,) = nodes_of(after.graph, torch.ops.aten.cat.default)
    relu = torch.ops.aten.relu.default
    assert [source.target for source in joined.all_input_nodes] == [DEQUANTIZE_FIXED, relu, DEQUANTIZE_FIXED]
    assert [each.name for each in decisions(after) if each.used is not None] == ["narrow.weight", "joined.weight"]


def test_a_rule_leaves_a_convolution_in_float() -> None:
    module, calls = made("residual")
    after = rounded(prepared(module, calls), calls, (("first.weight", None),))
    weights = {str(call.node): call.weight.target for call in convolutions(after.graph)}
    assert sorted(target is DEQUANTIZE for target in weights.values()) == [False, True]
    kept, used = sorted(decisions(after), key=lambda each: each.used is not None)
    assert kept.name == "first.weight" and kept.used is None and kept.bytes == 4 * 8 * 27
    assert used.name == "second.weight" and used.shape == (8, 72) and used.bytes == 8 * 72 + 4 * 8


def test_fewer_bits_are_asked_for_than_there_are() -> None:
    module, calls = made("conv")
    (decision,) = decisions(rounded(prepared(module, calls), calls, scheme=WeightScheme(4)))
    assert decision.used is not None and decision.used.bits == 8 and "read 8 bits" in decision.reason


class Volume(nn.Module):
    """A convolution over three dimensions, a transposed one in groups, and one whose weight is computed."""

    def __init__(self) -> None:
        super().__init__()
        self.volume, self.grown = nn.Conv3d(1, 2, 3), nn.ConvTranspose2d(4, 4, 2, groups=2)
        self.mixed = nn.Parameter(torch.randn(4, 4, 1, 1))

    def forward(self, volume: Tensor, image: Tensor) -> tuple[Tensor, Tensor]:
        weight = self.mixed * image.mean()
        return self.volume(volume), nn.functional.conv2d(self.grown(image), weight)


def test_what_xnnpack_cannot_take_stays_and_says_why() -> None:
    torch.manual_seed(0)
    module, calls = Volume().eval(), [(torch.randn(1, 1, 4, 4, 4), torch.randn(1, 4, 4, 4))]
    program = prepared(module, calls)
    after = rounded(program, calls)
    reasons = [each.reason for each in decisions(after)]
    assert "3 dimensions" in reasons[0] and "groups" in reasons[1] and "computed" in reasons[2]
    assert share(program, after, calls) == 0


@pytest.mark.parametrize(
    ("scheme", "words"),
    [(replace(EIGHT, activation_bits=0), "activations in float"), (lut(4), "look-up tables"), (None, "")],
)
def test_recipes_without_integer_activations_leave_them(scheme: WeightScheme | None, words: str) -> None:
    module, calls = made("conv")
    (decision,) = decisions(rounded(prepared(module, calls), calls, scheme=scheme))
    assert decision.used is None and words in decision.reason


def test_a_value_that_is_not_finite_leaves_its_convolution() -> None:
    module = nn.Sequential(nn.Conv2d(3, 4, 1), nn.ReLU(), nn.Conv2d(4, 4, 1)).eval()
    calls = [(torch.full((1, 3, 4, 4), 1e30) * 1e30,)]
    after = rounded(prepared(module, calls), calls)
    assert all(each.used is None and "not finite" in each.reason for each in decisions(after))


def test_a_channel_of_zeros_and_a_large_bias_keep_their_values() -> None:
    torch.manual_seed(0)
    module = nn.Conv2d(3, 4, 1).eval()
    with torch.no_grad():
        module.weight[1] = 0
        assert module.bias is not None
        module.bias.copy_(torch.tensor([0.0, 500.0, 0.0, -1.0]))
    calls = [(torch.randn(1, 3, 6, 6),)]
    program = prepared(module, calls)
    # One step of a range from -3 to 500, and a tenth more.
    assert share(program, rounded(program, calls), calls) < 1.3 / 255


def test_an_output_with_channels_of_very_different_sizes_stays_in_float() -> None:
    torch.manual_seed(0)
    head = nn.Conv2d(4, 4, 3)
    with torch.no_grad():
        head.weight[1] *= 1e-3
    module = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), head).eval()
    calls = [(torch.randn(1, 3, 8, 8),)]
    first, last = decisions(rounded(prepared(module, calls), calls))
    assert first.used is not None and last.used is None and "differ too much in size" in last.reason
