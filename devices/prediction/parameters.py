"""A decoder's parameters, in the kinds that the forecast counts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from edgec.ir.spec import ModelSpec

REVOCABLE = 15
"""The tokens of a log in artifacts of the default recipe: one less than the rows of logits that a call gives."""


class Kind(StrEnum):
    """What a parameter is used for; each kind has its own bits in a recipe."""

    EMBEDDING = "embedding"
    LM_HEAD = "lm_head"
    LINEAR = "linear"
    OTHER = "other"


@dataclass(frozen=True)
class Parameter:
    """One tensor of weights.

    Attributes:
        name: in the model's state dict; the first one where it has several.
        tied: the embedding and the lm_head share it; its kind is then ``LM_HEAD``.
        active: share that one token uses (mixture of experts: experts per token / experts; embedding: one row).
    """

    name: str
    shape: tuple[int, ...]
    kind: Kind
    tied: bool = False
    active: float = 1.0

    @property
    def count(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)


@dataclass(frozen=True)
class StateForm:
    """How an artifact holds what a recurrence remembers.

    Attributes:
        value_bytes: of one value.
        multiple: the state's last dimension is padded to a multiple of it.
        revocable: tokens that may be dropped again, from a log of them in float32; None where there is no log.
    """

    value_bytes: int = 4
    multiple: int = 1
    revocable: int | None = None


STATE_FORMS: Mapping[str, StateForm] = {
    "xnnpack": StateForm(revocable=REVOCABLE),
    "coreml": StateForm(2, 32),
    "coreai": StateForm(2, 32),
    "coreml_gpu": StateForm(2),
    "coreai_gpu": StateForm(2),
    "onnx": StateForm(),
    "genai": StateForm(),
}
"""By backend; the others hold no recurrences."""


@dataclass(frozen=True)
class StateSize:
    """What one recurrence remembers, whatever the length of the text.

    Attributes:
        values: of the state.
        logged: values that each token leaves in the log, from which it may be dropped again.
        row: the length of the state's last dimension.
    """

    values: int
    logged: int
    row: int

    def bytes(self, form: StateForm) -> int:
        """Bytes of the state, and where there is a log, of the log and of their two counts."""
        padded = self.values // self.row * -(-self.row // form.multiple) * form.multiple
        log = 0 if form.revocable is None else 4 * form.revocable * self.logged + 16
        return form.value_bytes * padded + log


@dataclass(frozen=True)
class EncoderShape:
    """What reads an image, a sound or a whole text at once: alone, or before a decoder.

    Attributes:
        activation_bytes: planned for its tensors in float32, where operators write over what nothing else reads and
            attention keeps no scores; None where its code does not run without values.
        most_activation_bytes: the same where every operator writes to a place of its own.
        memory_values: keys and values that a decoder's layers keep of its states.
        parameters: those that a decoded token does not read, each once.
    """

    activation_bytes: int | None
    most_activation_bytes: int = 0
    memory_values: int = 0
    parameters: tuple[Parameter, ...] = ()


@dataclass(frozen=True)
class DecoderShape:
    """The shape of a decoder: its layers, every parameter once, and what its recurrences remember.

    Attributes:
        spec: of a model that writes no text: without layers.
        states: of all recurrences; None where they could not be found out.
        encoder: of a model that has one.
        remarks: what a plan says about this model.
        adapter_bytes: of the adapters in its artifact.
    """

    spec: ModelSpec
    parameters: tuple[Parameter, ...]
    states: tuple[StateSize, ...] | None = ()
    encoder: EncoderShape | None = None
    remarks: tuple[str, ...] = ()
    adapter_bytes: int = 0


def macs_per_token(listed: tuple[Parameter, ...]) -> int:
    """Multiply-accumulates with weights per token; attention over the context is not counted."""
    used = (p.count * p.active for p in listed if p.kind in (Kind.LINEAR, Kind.LM_HEAD))
    return round(sum(used))
