"""What Python's runtime calls the functions of a bundle that takes images with, for a stand-in of Core ML to replay."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import edgec
from edgec.backends.coreml.execute import PackageMethods
from edgec.bundle.golden import OutputVector, probe_values
from edgec.runtime_py.engines.static_decoder import StaticDecoder
from tests.apps.recorded_calls import Called, KeptCalls, KeptFunction, KeptMethods, sizes


class Recording:
    """A bundle in Python's runtime, which keeps every call of its functions.

    Attributes:
        model: the bundle.
        kept: every call of its functions.
    """

    def __init__(self, bundle: Path) -> None:
        """Load the bundle."""
        self.model = edgec.load(bundle)
        self.kept = KeptCalls(self.model.bundle.manifest.methods)
        session: Any = self.model.session
        self._session = session
        decoder = self._session.executor
        assert isinstance(decoder, StaticDecoder)
        assert isinstance(decoder._methods, PackageMethods)
        decoder._methods = KeptMethods(decoder._methods, self.kept)
        # The image encoder is opened with the first image.
        session.encode_images(probe_values(self._tile, "float32"))
        session._vision_encoder = KeptFunction(session._vision_encoder, self.kept, "vision_encoder")

    @property
    def calls(self) -> list[Called]:
        """The calls since the beginning, in order."""
        return self.kept.made

    @property
    def _tile(self) -> list[int]:
        return sizes(self.kept.methods["vision_encoder"].inputs[0])

    @property
    def chunk(self) -> int:
        """Tokens of a call."""
        return int(self.kept.methods["prefill"].inputs[0].shape[1])

    def ask(self, tokens: Sequence[int], pixels: NDArray[np.float32] | None, most: int, start: int = 0) -> list[int]:
        """The greedy tokens after a prompt, of which the states hold ``start``."""
        session, said = self._session, list[int]()
        session.look(tokens, pixels)
        session.cache.tokens[:] = tokens[:start]
        logits = session.prefill(tokens[start:], start)
        while True:
            said.append(int(logits.argmax()))
            if len(said) == most:
                return said
            logits = session.prefill(said[-1:], len(tokens) + len(said) - 1)

    def replay(self, vector: OutputVector) -> None:
        """Feed a golden vector as an app does at its first start."""
        session, tokens = self._session, list(vector.prompt_ids)
        session.look(tokens, probe_values(self._tile, "float32"))
        session.prefill(tokens, 0)
        for position, token in enumerate(vector.continuation_ids[:-1], len(tokens)):
            session.prefill([token], position)
