"""The generated Swift package of a model that transcribes through Core ML, built by SwiftPM on Linux: Python's text.

A stand-in for Core ML gives, call by call, what the artifact gave to Python's runtime under the same C++ of speech, and
keeps its inputs: features of sounds, tokens at positions, and the encoder's keys and values.
"""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import edgec
from edgec.apps.embed.embed import embed
from edgec.bundle.folder import open_bundle
from edgec.bundle.golden import read_golden
from tests.apps.recorded_calls import Called, read
from tests.apps.recorded_speech import HEARINGS, Recording
from tests.apps.swift_builds import build
from tests.apps.swift_toolchain import WORK, Swift
from tests.engine.audio_library import Said
from tests.speech_bundles import SWEEP, audio_bundle

# An export, and the build of a package.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]
HERE = Path(__file__).parent
MAIN = HERE / "swift_static_speech" / "main.swift"
BESIDE = (HERE / "swift_speech" / "NumberTokenizer.swift", HERE / "swift_replayed" / "Replayed.swift")


@dataclass(frozen=True)
class Ran:
    """What a package did, and what it had to do.

    Attributes:
        bundle: the folder.
        chunk: tokens of a call of ``prefill``.
        wanted: calls of the functions, in order.
        said: the segments of each sound; None where a function fails.
        told: by the package.
    """

    bundle: Path
    chunk: int
    wanted: list[Called]
    said: dict[str, list[Said] | None]
    told: dict[str, Any]

    @property
    def calls(self) -> list[Called]:
        """The calls of the artifact's functions."""
        return [read(call) for call in self.told["calls"]]


@pytest.fixture(scope="module")
def ran(swift: Swift) -> Ran:
    bundle = audio_bundle("timed", "iphone", format="mlpackage")
    folder = swift.work / "static_speech"
    folder.mkdir()
    recording = Recording(bundle)
    recording.replay()
    said = {each.name: recording.hear(each) for each in HEARINGS}
    module = embed(bundle, "ios", folder / "kit").package.module
    facts = folder / "kit" / "Sources" / module / "ModelFacts.swift"
    # Linux's version is below any iOS.
    facts.write_text(re.sub(r"majorVersion: \d+", "majorVersion: 0", facts.read_text()))
    built = build(swift, folder, module, MAIN.read_text().replace("KIT", module), BESIDE, engine=False)
    shutil.copytree(bundle, folder / "bundle")
    (folder / "a.f32").write_bytes(SWEEP.astype("<f4").tobytes())
    seen = f"{WORK}/{folder.name}"
    asked = {
        "bundle": f"{seen}/bundle",
        "accepted": _labels(bundle),
        "sound": f"{seen}/a.f32",
        "steps": [asdict(each) for each in HEARINGS],
        "answers": [call.answer() for call in recording.kept.made],
    }
    (folder / "asked.json").write_text(json.dumps(asked))
    line = ["env", f"HOME={seen}", "timeout", "300", built.program, f"{seen}/asked.json", f"{seen}/told.json"]
    done = swift.run(line)
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    return Ran(bundle, recording.chunk, recording.kept.made, said, json.loads((folder / "told.json").read_text()))


def _labels(bundle: Path) -> list[str]:
    golden = open_bundle(bundle).golden_path
    assert golden is not None
    return [vector.label for vector in read_golden(golden).texts]


def test_sounds_are_written_as_python_writes_them(ran: Ran) -> None:
    right = [each for each in HEARINGS if each.failing is None]
    assert set(ran.told["segments"]) == {each.name for each in right}
    for each in right:
        options: dict[str, Any] = {"language": each.language, "task": each.task, "timestamps": each.timestamps}
        wanted = edgec.load(ran.bundle).transcribe(SWEEP, **options, max_new_tokens=each.most)
        assert ran.told["segments"][each.name] == [
            {"start": one.start_s, "end": one.end_s, "tokens": list(one.tokens), "text": one.text}
            for one in wanted.segments
        ]
        assert ran.told["languages"][each.name] == wanted.language


def test_a_call_that_fails_is_told_and_the_next_sound_is_written(ran: Ran) -> None:
    failing = {each.name for each in HEARINGS if each.failing}
    assert {name for name, said in ran.said.items() if said is None} == failing
    assert ran.told["refused"] == dict.fromkeys(failing, "CoreMLFailed()")
    assert ran.told["left"] == 0


def test_every_call_is_that_of_the_same_code_under_python(ran: Ran) -> None:
    assert [call.function for call in ran.calls] == [call.function for call in ran.wanted]
    for place, (own, wanted) in enumerate(zip(ran.calls, ran.wanted, strict=True)):
        assert set(own.inputs) == set(wanted.inputs), place
        # Sums in float64 by two compilers, stored in float32; all else exactly, the encoder's keys and values among it.
        tolerance = 1e-6 if own.function == "encode" else 0
        for name, value in wanted.inputs.items():
            assert own.inputs[name].shape == value.shape, (place, name)
            np.testing.assert_allclose(own.inputs[name], value, rtol=0, atol=tolerance, err_msg=f"{place} {name}")


def test_the_calls_have_what_windows_differ_in(ran: Ran) -> None:
    """That the cases are there: prompts in a chunk, a language that is detected, tokens one by one, several windows."""
    names = [call.function for call in ran.calls]
    assert set(names) == {"encode", "cross", "prefill", "decode"} and names.count("encode") > 2 * len(HEARINGS)
    prompts = {int(call.inputs["last"][0]) + 1 for call in ran.calls if call.function == "prefill"}
    # After a language, a task and no timestamps; the golden vector's prompt has 4 as well.
    assert prompts == {3, 4} and ran.chunk > 4


def test_the_decoder_alone_is_given_the_state(ran: Ran) -> None:
    assert all(call.state == (call.function in ("prefill", "decode")) for call in ran.calls)
