"""What a function of an artifact answers: the only one, or an encoder's beside a decoder."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from edgec.bundle.entry_points import MethodInfo
from edgec.runtime_py.encoder_decoder.session import encoded_states
from edgec.runtime_py.vision_language.session import seen_rows

if TYPE_CHECKING:
    from edgec.runtime_py.model import Model


def function_outputs(model: Model, method: MethodInfo, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
    """The outputs of a function for its inputs, by name.

    Raises:
        InputError: E152, it is none that can be called alone, or the inputs do not fit; as ``Model.run``.
    """
    if model.bundle.manifest.vision_language is not None:
        return seen_rows(model.session, method, inputs)
    if model.bundle.manifest.encoder_decoder is not None:
        return encoded_states(model.encoder_decoder, method, inputs)
    outputs: Mapping[str, Any] = model.run(**inputs)
    return outputs
