"""A ``.tflite`` with LiteRT-LM's signatures, executed by ai-edge-litert's interpreter with XNNPACK.

``BUILTIN_REF``, its resolver of reference kernels, is never used: it ignores the scales of blocks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from edgec.backends.litert.names import CACHE, LOGITS, POSITIONS, TOKENS, prefill_sizes, signature_name
from edgec.backends.litert.network import refused
from edgec.backends.litert.toolkit import runtime_module
from edgec.ir.static_methods import DECODE


class LitertMethods:
    """The signatures as ``Methods``; the caches are kept for the next call.

    LiteRT-LM asks a signature for prompts for no logits, so that the wanted token goes through ``decode`` once more, at
    its own place.
    """

    def __init__(self, content: bytes, threads: int = 1) -> None:
        """Load a model.

        Raises:
            InputError: E903, the interpreter refuses it, or it lacks the signatures.
            ToolError: E900, there is no interpreter.
        """
        litert = runtime_module("ai_edge_litert.interpreter")
        try:
            self._interpreter = litert.Interpreter(model_content=content, num_threads=threads)
            names = self._interpreter.get_signature_list()
            self.sizes = prefill_sizes(names)
            self._runners = {name: self._interpreter.get_signature_runner(name) for name in names}
            details = self._runners[DECODE].get_input_details()
        except (RuntimeError, ValueError, KeyError) as error:
            raise refused(str(error)) from error
        self._caches = {name: np.zeros(each["shape"], each["dtype"]) for name, each in details.items() if _held(name)}

    @property
    def chunk(self) -> int:
        """The most tokens that a call takes."""
        return max(self.sizes, default=1)

    def call(self, method: str, inputs: Mapping[str, Tensor]) -> Tensor:
        """The logits of row ``last``, float32 [V]; padding after it is filled as LiteRT-LM fills it."""
        start, count = int(inputs["start"]), int(inputs["last"]) + 1
        tokens = inputs["tokens"].numpy().astype(np.int32)[:, :count]
        if method != DECODE:
            self.prefill(tokens, start)
        return self.decode(int(tokens[0, -1]), start + count - 1)

    def prefill(self, tokens: Any, start: int) -> None:
        """Read tokens, int32 [1, S], by the signature that has room for them with the least padding."""
        count = tokens.shape[1]
        size = next(size for size in self.sizes if size >= count)
        positions = np.zeros(size, np.int32)
        positions[:count] = start + np.arange(count)
        self._run(signature_name(size), np.pad(tokens, ((0, 0), (0, size - count))), positions)

    def decode(self, token: int, position: int) -> Tensor:
        """Read one token; the logits of the next, float32 [V]."""
        given = np.array([[token]], np.int32), np.array([position], np.int32)
        return torch.from_numpy(self._run(DECODE, *given)[LOGITS]).reshape(-1)

    def _run(self, signature: str, tokens: Any, positions: Any) -> Mapping[str, Any]:
        given = {TOKENS: tokens, POSITIONS: positions, **self._caches}
        outputs: Mapping[str, Any] = self._runners[signature](**given)
        self._caches = {name: outputs[name] for name in self._caches}
        return outputs


def _held(name: str) -> bool:
    return name.startswith(CACHE)
