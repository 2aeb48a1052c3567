"""The manifest on what an export found: the parity ladder, what is delegated, devices' checks and linters' remarks."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from edgec.bundle.part import JsonPart


class Rung(JsonPart):
    """One step of the parity ladder: ``stage`` compared with ``reference`` over ``positions`` positions.

    KL in nats; ``top1_agreement`` counts a differing top-1 only where the reference's top-2 margin exceeds ``epsilon``.
    ``kl_error``: two standard errors of ``kl_mean`` over the positions, where texts are sampled: of quality.
    Outputs of a module have other figures: ``channel_relative``, the largest difference in a channel beside the
    channel's own spread, and ``place``, that channel in words; ``probability``, the largest difference of one;
    ``equal_share`` of integers and truth values.
    """

    half: Literal["lowering", "quality"]
    stage: str
    reference: str
    effect: Literal["exact", "approximate", "semantic"]
    positions: int
    max_abs: float | None
    mean_abs: float | None
    reference_max_abs: float | None
    kl_mean: float | None
    kl_max: float | None
    kl_error: float | None = Field(default=None, exclude_if=lambda value: value is None)
    top1_agreement: float | None
    # Left out where there are none, so that the bundles of other models stay as they were written.
    channel_relative: float | None = Field(default=None, exclude_if=lambda value: value is None)
    probability: float | None = Field(default=None, exclude_if=lambda value: value is None)
    equal_share: float | None = Field(default=None, exclude_if=lambda value: value is None)
    place: str = Field(default="", exclude_if=lambda value: not value)
    epsilon: float
    budget: dict[str, float]
    gated: bool
    passed: bool
    first_diverging_layer: int | None = None
    note: str = ""
    # Tokens are compared as text: what wrote them tells nobody its logits.
    in_words: bool = Field(default=False, exclude_if=lambda value: not value)
    # How the stage's values fit the range of its numbers, in words, where it has one: float16 or fixed point.
    values: str = Field(default="", exclude_if=lambda value: not value)


class Fallback(JsonPart):
    """An operator outside the accelerator. ``share`` of the multiply-accumulates of one decoded token, 0..1."""

    operator: str
    count: int
    reason: str
    share: float


class Delegation(JsonPart):
    """The share of the arithmetic that runs on the backend, and the operators that do not."""

    backend: str
    delegates: int
    delegated_operators: int
    delegated_share: float
    fallbacks: list[Fallback]


class Placement(JsonPart):
    """Operators of one kind in a method that the system puts on one compute unit."""

    method: str
    operator: str
    unit: Literal["cpu", "gpu", "neural engine", "unknown"]
    count: int


class DeviceCheck(JsonPart):
    """A check that only a Mac or a phone can make.

    ``status``: ``not run`` where there was none, with the reason in ``note``; ``machine``: where it ran;
    ``placement``: of the check of that name.
    """

    name: Literal["compile", "predict", "placement"]
    status: Literal["passed", "failed", "not run"]
    machine: str = ""
    note: str = ""
    placement: list[Placement] = Field(default=[])


class LintFinding(JsonPart):
    """What a target's linter found before conversion.

    ``place``: the node, weight or file; ``severity``: ``warning`` where it runs slower or elsewhere, ``refused`` where
    the format has no form for it.
    """

    rule: str
    severity: Literal["warning", "refused"]
    place: str
    found: str
    fix: str
