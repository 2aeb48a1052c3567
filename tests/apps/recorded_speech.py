"""What an app that transcribes through Core ML is asked, and what the C++ of speech calls the functions with."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import edgec
from edgec.backends.coreml.execute import PackageMethods
from edgec.bundle.golden import GOLDEN_SOURCE_TOKENS, probe_values, read_golden
from edgec.runtime_py.engines.static_decoder import StaticDecoder
from tests.apps.recorded_calls import KeptCalls, KeptFunction, KeptMethods
from tests.engine.audio_library import CalledAudio, Said
from tests.engine.vision_library import Refused
from tests.speech_bundles import RATE, SWEEP


@dataclass(frozen=True)
class Audio:
    """A sound that is transcribed.

    Attributes:
        name: of the step.
        language: that is spoken; None: detected.
        translates: into English.
        timestamps: None: as the model has them.
        most: new tokens of a window; None: as many as the context takes.
        failing: the function whose first call fails.
    """

    name: str
    language: str | None = None
    translates: bool = False
    timestamps: bool | None = None
    most: int | None = None
    failing: str | None = None

    @property
    def task(self) -> str:
        """The task by its name."""
        return "translate" if self.translates else "transcribe"

    @property
    def own(self) -> dict[str, Any]:
        """The options as the C interface has them."""
        timestamps = {None: 0, False: 1, True: 2}[self.timestamps]
        return {"language": self.language, "task": self.task, "timestamps": timestamps, "most_tokens": self.most or 0}


HEARINGS = (
    Audio("plain"),
    Audio("few", most=20),
    Audio("asked", language="de", translates=True, timestamps=False, most=12),
    Audio("encoder fails", failing="encode"),
    Audio("keys fail", failing="cross"),
    Audio("decoder fails", language="en", most=6, failing="decode"),
    Audio("after", language="en", most=6),
)


class Recording:
    """A bundle in Python's runtime under the C++ of speech, which keeps every call of its functions.

    Attributes:
        kept: the calls.
        chunk: tokens of a call of ``prefill``.
    """

    def __init__(self, bundle: Path) -> None:
        """Load the bundle."""
        model = edgec.load(bundle)
        session: Any = model.encoder_decoder
        self.kept = KeptCalls(model.bundle.manifest.methods)
        decoder = session._forward
        assert isinstance(decoder, StaticDecoder) and isinstance(decoder._methods, PackageMethods)
        self.chunk = decoder._methods.chunk
        decoder._methods = KeptMethods(decoder._methods, self.kept)
        session._encode = KeptFunction(session._encode, self.kept, "encode")
        session._cross = KeptFunction(session._cross, self.kept, "cross")
        self._shape = session.info.source_shape(GOLDEN_SOURCE_TOKENS)
        self._golden = model.bundle.golden_path
        self._speech = CalledAudio(bundle, lambda source: session.read(source.reshape(self._shape)), session.prefill)

    def replay(self) -> None:
        """Feed the golden vectors as an app does at its first start."""
        assert self._golden is not None
        self._speech.read(probe_values(self._shape, "float32"))
        for vector in read_golden(self._golden).outputs:
            self._speech.feed(vector.prompt_ids, 0)
            for position, token in enumerate(vector.continuation_ids[:-1], len(vector.prompt_ids)):
                self._speech.feed([token], position)

    def hear(self, asked: Audio) -> list[Said] | None:
        """What is said in the sound; None where a function fails."""
        self.kept.failing = asked.failing or ""
        try:
            return self._speech.transcribe(SWEEP, RATE, **asked.own)
        except Refused:
            return None
