"""Element by element, activations, reductions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from tests.backends.coreml.interpreter.case import Case, Given, binary, constant, moved, reduced, unary

COMPARISONS: Mapping[str, Callable[[Tensor, Tensor], Tensor]] = {
    "equal": torch.eq,
    "not_equal": torch.ne,
    "greater": torch.gt,
    "greater_equal": torch.ge,
    "less": torch.lt,
    "less_equal": torch.le,
}


def _compared(name: str, own: Callable[[Tensor, Tensor], Tensor]) -> Case:
    """A comparison's bool is not an output of a package; it is cast."""

    def build(mb: Any, i: Given, f: Any) -> Any:
        return mb.cast(x=getattr(mb, name)(x=i["x"], y=i["y"]), dtype="int32")

    return Case(name, build, lambda i: own(i["x"], i["y"]).int())


SHIFT = constant(4, seed=7)
T = torch.from_numpy

ELEMENTWISE = [
    binary("add", torch.add),
    binary("sub", torch.sub),
    binary("mul", torch.mul),
    binary("real_div", torch.div, "p"),
    binary("floor_div", lambda x, y: torch.floor(x / y), "p"),
    binary("mod", torch.remainder, "p"),
    Case("pow", lambda mb, i, f: mb.pow(x=i["p"], y=f(1.5)), lambda i: i["p"] ** 1.5),
    binary("minimum", torch.minimum),
    binary("maximum", torch.maximum),
    unary("abs", torch.abs),
    unary("ceil", torch.ceil),
    unary("floor", torch.floor),
    unary("round", torch.round),
    unary("sign", torch.sign),
    unary("square", torch.square),
    unary("exp", torch.exp),
    unary("exp2", torch.exp2),
    unary("erf", torch.erf),
    unary("sin", torch.sin),
    unary("cos", torch.cos),
    unary("tan", torch.tan, "p"),
    unary("atan", torch.atan),
    unary("sinh", torch.sinh),
    unary("cosh", torch.cosh),
    unary("tanh", torch.tanh),
    unary("sqrt", torch.sqrt, "p"),
    unary("rsqrt", lambda x: torch.rsqrt(x + 0.125), "p", epsilon=0.125),
    unary("inverse", lambda x: 1 / (x + 0.125), "p", epsilon=0.125),
    unary("log", lambda x: torch.log(x + 0.125), "p", epsilon=0.125),
    unary("clip", lambda x: x.clamp(-0.5, 0.75), alpha=-0.5, beta=0.75),
    unary("threshold", lambda x: x.clamp(min=0.25), alpha=0.25),
    *(_compared(name, own) for name, own in COMPARISONS.items()),
    Case("cast", lambda mb, i, f: mb.cast(x=i["x"], dtype="int32"), lambda i: i["x"].int()),
    Case(
        "select",
        lambda mb, i, f: mb.select(cond=mb.greater(x=i["x"], y=i["y"]), a=i["x"], b=i["p"]),
        lambda i: torch.where(i["x"] > i["y"], i["x"], i["p"]),
    ),
]
ACTIVATIONS = [
    unary("relu", F.relu),
    unary("relu6", F.relu6),
    unary("sigmoid", torch.sigmoid),
    unary("silu", F.silu),
    unary("softplus", F.softplus),
    unary("softsign", F.softsign),
    unary("leaky_relu", lambda x: F.leaky_relu(x, 0.25), alpha=0.25),
    unary("elu", lambda x: F.elu(x, 0.5), alpha=0.5),
    unary("clamped_relu", lambda x: torch.clamp(F.leaky_relu(x, 0.25), max=1.0), alpha=0.25, beta=1.0),
    unary("linear_activation", lambda x: 0.5 * x + 0.25, alpha=0.5, beta=0.25),
    unary("scaled_tanh", lambda x: 0.5 * torch.tanh(2 * x), alpha=0.5, beta=2.0),
    unary("sigmoid_hard", lambda x: torch.clamp(0.25 * x + 0.5, 0, 1), alpha=0.25, beta=0.5),
    unary("thresholded_relu", lambda x: torch.where(x >= 0.5, x, 0.0), alpha=0.5),
    Case("gelu", lambda mb, i, f: mb.gelu(x=i["x"]), lambda i: F.gelu(i["x"])),
    Case(
        "gelu",
        lambda mb, i, f: mb.gelu(x=i["x"], mode="TANH_APPROXIMATION"),
        lambda i: F.gelu(i["x"], approximate="tanh"),
        "tanh",
    ),
    Case("softmax", lambda mb, i, f: mb.softmax(x=i["x"], axis=1), lambda i: torch.softmax(i["x"], 1)),
    Case("prelu", lambda mb, i, f: mb.prelu(x=i["image"], alpha=f(SHIFT)), lambda i: F.prelu(i["image"], T(SHIFT))),
]
REDUCTIONS = [
    reduced("reduce_sum", lambda x: x.sum((1, 2), keepdim=True)),
    reduced("reduce_mean", lambda x: x.mean((1, 2), keepdim=True)),
    reduced("reduce_max", lambda x: x.amax((1, 2), keepdim=True)),
    reduced("reduce_min", lambda x: x.amin((1, 2), keepdim=True)),
    reduced("reduce_l1_norm", lambda x: x.abs().sum((1, 2), keepdim=True)),
    reduced("reduce_l2_norm", lambda x: x.square().sum((1, 2), keepdim=True).sqrt()),
    reduced("reduce_sum_square", lambda x: x.square().sum((1, 2), keepdim=True)),
    reduced("reduce_log_sum", lambda x: x.sum((1, 2), keepdim=True).log(), "p"),
    reduced("reduce_log_sum_exp", lambda x: x.logsumexp((1, 2), keepdim=True)),
    Case(
        "reduce_prod",
        lambda mb, i, f: mb.reduce_prod(x=i["p"], axes=[1]),
        lambda i: i["p"].prod(1),
    ),
    moved("reduce_argmax", lambda x: x.argmax(1).int(), axis=1),
    moved("reduce_argmin", lambda x: x.argmin(-1, keepdim=True).int(), axis=-1, keep_dims=True),
]
CASES = [*ELEMENTWISE, *ACTIVATIONS, *REDUCTIONS]
