"""Let transformers' reference run a delta rule token by token, as its own code does once it decodes.

In chunks it solves a triangular system of keys that resemble each other, which costs digits: on tiny random models of
Qwen3.5 the chunks differ from double precision by 1.1e-6 of the largest output, the steps by 1.2e-7. Gated norms over
small heads then make 5e-4 of the largest logit out of the former.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from unittest.mock import patch

from torch import nn

# Functions of model files, each with the equivalent one of the same arguments.
_STEPS: Mapping[str, str] = {
    "torch_chunk_gated_delta_rule": "torch_recurrent_gated_delta_rule",
    "chunk_kimi_delta_attention": "recurrent_kimi_delta_attention",
}


@contextmanager
def step_by_step(model: nn.Module) -> Iterator[None]:
    """Run recurrences of a model token by token inside the block."""
    files = {sys.modules[type(module).__module__] for module in model.modules()}
    with ExitStack() as stack:
        for chunks, steps in _STEPS.items():
            for file in (file for file in files if hasattr(file, chunks) and hasattr(file, steps)):
                stack.enter_context(patch.object(file, chunks, getattr(file, steps)))
        yield
