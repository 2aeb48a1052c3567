"""What arranges, takes and puts values."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from tests.backends.coreml.interpreter.case import Case, moved

LAYOUT = [
    moved("reshape", lambda x: x.reshape(2, 3, 16), shape=[0, 3, -1]),
    moved("expand_dims", lambda x: x[:, None, :, :, None], axes=[1, -1]),
    Case("squeeze", lambda mb, i, f: mb.squeeze(x=mb.expand_dims(x=i["x"], axes=[1]), axes=[1]), lambda i: i["x"]),
    moved("transpose", lambda x: x.permute(2, 0, 1), perm=[2, 0, 1]),
    moved("tile", lambda x: x.repeat(1, 2, 3), reps=[1, 2, 3]),
    moved("reverse", lambda x: x.flip(1, 2), axes=[1, 2]),
    moved("band_part", lambda x: x.triu(-1).tril(2), a="square", lower=1, upper=2),
    moved("split", lambda x: x.split([2, 5, 1], 2), axis=2, split_sizes=[2, 5, 1]),
    moved("split", lambda x: x.chunk(3, 1), "equal", axis=1, num_splits=3),
    moved("pixel_shuffle", lambda x: F.pixel_shuffle(x, 2), a="image", upscale_factor=2),
    moved("space_to_depth", lambda x: _blocks(x).clone(), a="image", block_size=2),
    moved("depth_to_space", lambda x: _unblocked(x).clone(), a="image", block_size=2),
    moved(
        "sliding_windows",
        lambda x: x.unfold(2, 3, 2).transpose(-1, -2).reshape(2, 6, 3, 3).mT,
        axis=2,
        size=3,
        stride=2,
    ),
    Case(
        "pad",
        lambda mb, i, f: mb.pad(x=i["x"], pad=[1, 0, 2, 3], mode="constant", constant_val=f(0.5)),
        lambda i: F.pad(i["x"], (2, 3, 1, 0), value=0.5),
    ),
    moved("pad", lambda x: F.pad(x, (2, 1), mode="reflect"), "reflect", pad=[2, 1], mode="reflect"),
    Case(
        "concat",
        lambda mb, i, f: mb.concat(values=(i["x"], i["y"]), axis=-1),
        lambda i: torch.cat([i["x"], i["y"]], -1),
    ),
    Case(
        "concat",
        lambda mb, i, f: mb.concat(values=(i["x"], i["y"]), axis=1, interleave=True),
        lambda i: torch.stack([i["x"], i["y"]], 2).reshape(2, 12, 8),
        "interleave",
    ),
    Case(
        "stack", lambda mb, i, f: mb.stack(values=(i["x"], i["y"]), axis=1), lambda i: torch.stack([i["x"], i["y"]], 1)
    ),
    moved(
        "slice_by_index",
        lambda x: x[1:, 1:5:2, 7],
        begin=[1, 1, 7],
        end=[0, -1, 0],
        stride=[1, 2, 1],
        end_mask=[True, False, False],
        squeeze_mask=[False, False, True],
    ),
    moved("slice_by_size", lambda x: x[:, 2:5, 3:], begin=[0, 2, 3], size=[2, 3, -1]),
    Case(
        "slice_update",
        lambda mb, i, f: mb.slice_update(
            x=i["x"], update=mb.slice_by_size(x=i["y"], begin=[0, 0, 0], size=[1, 3, 8]), begin=[1, 2, 0], end=[2, 5, 8]
        ),
        lambda i: torch.cat([i["x"][:1], torch.cat([i["x"][1:, :2], i["y"][:1, :3], i["x"][1:, 5:]], 1)]),
    ),
]


def _blocks(x: Tensor) -> Tensor:
    """DCR order: the block's offset is the outermost part of the channel."""
    return torch.cat([x[:, :, a::2, b::2] for a in range(2) for b in range(2)], 1)


def _unblocked(x: Tensor) -> Tensor:
    n, c, h, w = x.shape
    out = torch.zeros(n, c // 4, 2 * h, 2 * w)
    for k, part in enumerate(x.chunk(4, 1)):
        out[:, :, k // 2 :: 2, k % 2 :: 2] = part
    return out


def _scattered(x: Tensor, index: Tensor, update: Tensor, dim: int) -> Tensor:
    out = x.clone()
    for k, place in enumerate(index.tolist()):
        out.select(dim, place).add_(update.select(dim, k))
    return out


INDEXING = [
    Case(
        "gather",
        lambda mb, i, f: mb.gather(x=i["x"], indices=i["index"], axis=1),
        lambda i: i["x"][:, i["index"].long()],
    ),
    Case(
        "gather",
        lambda mb, i, f: mb.gather(
            x=i["square"], indices=mb.slice_by_size(x=i["grid"], begin=[0, 0, 0], size=[1, 3, 8]), axis=2
        ),
        lambda i: i["square"][:, :, i["grid"][:1, :3].long()],
        "many dimensions",
    ),
    Case(
        "gather_along_axis",
        lambda mb, i, f: mb.gather_along_axis(x=i["x"], indices=i["grid"], axis=1),
        lambda i: torch.gather(i["x"], 1, i["grid"].long()),
    ),
    Case(
        "gather_nd",
        lambda mb, i, f: mb.gather_nd(x=i["x"], indices=np.array([[0, 1], [1, 5], [1, -1]], np.int32)),
        lambda i: torch.stack([i["x"][0, 1], i["x"][1, 5], i["x"][1, 5]]),
    ),
    Case(
        "scatter",
        lambda mb, i, f: mb.scatter(
            data=i["x"], indices=i["index"], updates=mb.slice_by_size(x=i["y"], begin=[0, 0, 0], size=[2, 4, 8]), axis=1
        ),
        lambda i: _scattered(i["x"], i["index"], i["y"][:, :4], 1),
    ),
    Case(
        "scatter_along_axis",
        lambda mb, i, f: mb.scatter_along_axis(data=i["x"], indices=i["grid"], updates=i["y"], axis=1, mode="add"),
        lambda i: i["x"].scatter_add(1, i["grid"].long(), i["y"]),
    ),
    Case(
        "scatter_nd",
        lambda mb, i, f: mb.scatter_nd(
            data=i["x"],
            indices=np.array([[0, 1], [1, 4]], np.int32),
            updates=mb.slice_by_index(x=i["y"], begin=[0, 0, 0], end=[2, 1, 8], squeeze_mask=[False, True, False]),
            mode="update",
        ),
        lambda i: _scatter_rows(i["x"], i["y"]),
    ),
    moved("cumsum", lambda x: x.cumsum(1), axis=1),
    moved("cumsum", lambda x: _exclusive(x.flip(2)).flip(2), "exclusive", axis=2, exclusive=True, reverse=True),
    moved("topk", lambda x: (x.topk(3, 2).values,), k=3, axis=2, return_indices=False),
    moved("argsort", lambda x: x.argsort(dim=1, stable=True).int(), a="square", axis=1, ascending=True),
    Case(
        "one_hot",
        lambda mb, i, f: mb.one_hot(indices=i["index"], one_hot_vector_size=6, on_value=2, off_value=1),
        lambda i: F.one_hot(i["index"].long(), 6).int() + 1,
    ),
    Case(
        "fill_like",
        lambda mb, i, f: mb.fill_like(ref_tensor=i["x"], value=f(0.5)),
        lambda i: torch.full((2, 6, 8), 0.5),
    ),
    Case(
        "shape",
        lambda mb, i, f: mb.shape(x=mb.non_zero(x=i["x"])),
        lambda i: torch.tensor(i["x"].nonzero().shape).int(),
    ),
]


def _scatter_rows(x: Tensor, y: Tensor) -> Tensor:
    out = x.clone()
    out[0, 1], out[1, 4] = y[0, 0], y[1, 0]
    return out


def _exclusive(x: Tensor) -> Tensor:
    return x.cumsum(2) - x


CASES = [*LAYOUT, *INDEXING]
