"""Matrix products, convolutions, normalisation, pooling."""

from __future__ import annotations

from itertools import product

import numpy as np
import torch
from torch.nn import functional as F

from tests.backends.coreml.interpreter.case import Case, constant

W, B = constant(10, 8), constant(10, seed=2)
KERNEL, GROUPED = constant(6, 4, 3, 3, seed=3), constant(4, 2, 3, 3, seed=4)
POINT, SCALE, SHIFT = constant(12, 4, 1, 1, seed=5), constant(4, seed=6) + 2, constant(4, seed=7)
T = torch.from_numpy
LINE = constant(5, 6, 3, seed=8)
# Odd multiples of 1/128 are exact in float16, and never as near to one pixel as to the next.
PLACES = (2 * np.floor(256 * constant(2, 5, 3, 2, seed=9)) + 1) / 128

LINEAR = [
    Case(
        "linear", lambda mb, i, f: mb.linear(x=i["x"], weight=f(W), bias=f(B)), lambda i: F.linear(i["x"], T(W), T(B))
    ),
    Case(
        "matmul",
        lambda mb, i, f: mb.matmul(x=i["x"], y=i["y"], transpose_y=True),
        lambda i: i["x"] @ i["y"].transpose(-1, -2),
    ),
    Case(
        "matmul",
        lambda mb, i, f: mb.matmul(x=i["x"], y=i["y"], transpose_x=True),
        lambda i: i["x"].transpose(-1, -2) @ i["y"],
        "transpose_x",
    ),
    Case(
        "conv",
        lambda mb, i, f: mb.conv(x=i["image"], weight=f(KERNEL), strides=[2, 1], pad_type="custom", pad=[1, 1, 0, 2]),
        lambda i: F.conv2d(F.pad(i["image"], (0, 2, 1, 1)), T(KERNEL), stride=(2, 1)),
        "custom",
    ),
    Case(
        "conv",
        lambda mb, i, f: mb.conv(x=i["image"], weight=f(POINT)),
        lambda i: F.conv2d(i["image"], T(POINT)),
        "pointwise",
    ),
    Case(
        "conv",
        lambda mb, i, f: mb.conv(x=i["image"], weight=f(GROUPED), groups=2, pad_type="same", dilations=[1, 2]),
        lambda i: F.conv2d(i["image"], T(GROUPED), groups=2, padding="same", dilation=(1, 2)),
        "grouped",
    ),
    Case(
        "conv",
        lambda mb, i, f: mb.conv(x=i["x"], weight=f(LINE), pad_type="valid"),
        lambda i: F.conv1d(i["x"], T(LINE)),
        "1d",
    ),
    Case(
        "conv_transpose",
        lambda mb, i, f: mb.conv_transpose(
            x=i["image"], weight=f(KERNEL[:4, :3]), strides=[2, 2], pad_type="custom", pad=[1, 1, 1, 1]
        ),
        lambda i: F.conv_transpose2d(i["image"], T(KERNEL[:4, :3].copy()), stride=2, padding=1),
    ),
    Case(
        "einsum",
        lambda mb, i, f: mb.einsum(values=(i["x"], mb.transpose(x=i["y"], perm=[2, 1, 0])), equation="abc,cbd->abd"),
        lambda i: torch.einsum("abc,dbc->abd", i["x"], i["y"]),
    ),
    Case(
        "scaled_dot_product_attention",
        lambda mb, i, f: mb.scaled_dot_product_attention(query=i["x"], key=i["y"], value=i["p"]),
        lambda i: F.scaled_dot_product_attention(i["x"], i["y"], i["p"]),
    ),
    Case(
        "scaled_dot_product_attention",
        lambda mb, i, f: mb.scaled_dot_product_attention(
            query=i["square"], key=i["square"], value=i["square"], attn_mask=i["square"]
        ),
        lambda i: F.scaled_dot_product_attention(i["square"], i["square"], i["square"], attn_mask=i["square"]),
        "mask",
    ),
]
NORMALIZATION = [
    Case(
        "layer_norm",
        lambda mb, i, f: mb.layer_norm(x=i["x"], axes=[-1], gamma=f(W[0]), beta=f(W[1]), epsilon=f(1e-3)),
        lambda i: F.layer_norm(i["x"], (8,), T(W[0]), T(W[1]), 1e-3),
    ),
    Case(
        "batch_norm",
        lambda mb, i, f: mb.batch_norm(x=i["image"], mean=f(SHIFT), variance=f(SCALE), gamma=f(SCALE), beta=f(SHIFT)),
        lambda i: F.batch_norm(i["image"], T(SHIFT), T(SCALE), T(SCALE), T(SHIFT)),
    ),
    Case(
        "instance_norm",
        lambda mb, i, f: mb.instance_norm(x=i["image"], gamma=f(SCALE), beta=f(SHIFT), epsilon=f(1e-3)),
        lambda i: F.instance_norm(i["image"], weight=T(SCALE), bias=T(SHIFT), eps=1e-3),
    ),
    Case(
        "l2_norm",
        lambda mb, i, f: mb.l2_norm(x=i["image"], epsilon=f(1e-3)),
        lambda i: i["image"] * torch.rsqrt(i["image"].square().sum((1, 2, 3), keepdim=True) + 1e-3),
    ),
]


def _resampled(padding: str, aligned: bool, mode: str) -> Case:
    """Values at places that reach beyond the image on all sides, as coremltools writes ``grid_sample``."""
    outside = {"zeros": "constant", "border": "border", "reflection": "reflection" if aligned else "symmetric"}
    return Case(
        "resample",
        lambda mb, i, f: mb.resample(
            x=i["image"],
            coordinates=f(PLACES),
            sampling_mode=mode,
            padding_mode=outside[padding],
            padding_value=f(0.0),
            coordinates_mode="normalized_minus_one_to_one",
            align_corners=aligned,
        ),
        lambda i: F.grid_sample(i["image"], T(PLACES), mode, padding, aligned),
        f"{padding}-{'corners' if aligned else 'edges'}-{mode}",
    )


POOLS = [
    Case(
        "max_pool",
        lambda mb, i, f: mb.max_pool(
            x=i["image"], kernel_sizes=[3, 2], strides=[2, 2], pad_type="custom", pad=[1, 1, 0, 0]
        ),
        lambda i: F.max_pool2d(F.pad(i["image"], (0, 0, 1, 1), value=float("-inf")), (3, 2), 2),
    ),
    Case(
        "avg_pool",
        lambda mb, i, f: mb.avg_pool(
            x=i["image"],
            kernel_sizes=[3, 3],
            strides=[2, 2],
            pad_type="custom",
            pad=[1, 1, 1, 1],
            exclude_padding_from_average=True,
        ),
        lambda i: F.avg_pool2d(i["image"], 3, 2, 1, count_include_pad=False),
    ),
    Case(
        "upsample_nearest_neighbor",
        lambda mb, i, f: mb.upsample_nearest_neighbor(x=i["image"], scale_factor_height=2, scale_factor_width=3),
        lambda i: F.interpolate(i["image"], scale_factor=(2, 3)),
    ),
    Case(
        "upsample_bilinear",
        lambda mb, i, f: mb.upsample_bilinear(
            x=i["image"], scale_factor_height=2, scale_factor_width=2, align_corners=False
        ),
        lambda i: F.interpolate(i["image"], scale_factor=2, mode="bilinear", align_corners=False),
    ),
    *(
        _resampled(padding, aligned, mode)
        for padding, aligned, mode in product(("zeros", "border", "reflection"), (False, True), ("bilinear", "nearest"))
    ),
]
CASES = [*LINEAR, *NORMALIZATION, *POOLS]
