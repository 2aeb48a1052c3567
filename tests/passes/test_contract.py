"""What a pass leaves in the history: its options, as JSON can hold them."""

from __future__ import annotations

import json

from edgec.ir.kernel_grids import KernelGrid
from edgec.ir.weight_scheme import WeightScheme
from edgec.passes.compress.quantize import Quantize
from edgec.passes.contract import options


def test_options_are_data_and_not_the_text_of_python_objects() -> None:
    told = options(Quantize(default=WeightScheme(4, 32), kernels=(KernelGrid(4, (64, 32), 1),), rules=(("a.*", None),)))
    assert json.loads(json.dumps(told)) == told
    assert told["default"]["bits"] == 4 and told["default"]["group_size"] == 32
    assert told["kernels"] == [
        {
            "bits": 4,
            "groups": [64, 32],
            "channel_multiple": 1,
            "coarsens": True,
            "activation_group": 0,
            "symmetric": True,
            "stored": "",
            "scale_bits": 0,
            "width_multiple": 1,
        }
    ]
    assert told["rules"] == [["a.*", None]]
    assert told["calibration"] == "0 calls"
