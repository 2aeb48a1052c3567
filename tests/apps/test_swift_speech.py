"""The generated Swift package of a model that transcribes, built by SwiftPM on Linux: Python's text of a sound."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import edgec
from edgec.apps.embed.embed import embed
from edgec.bundle.folder import open_bundle
from edgec.bundle.golden import read_golden
from edgec.runtime_py.encoder_decoder.transcription import Transcript
from tests.apps.swift_builds import build
from tests.apps.swift_bundles import any_version
from tests.apps.swift_toolchain import WORK, Swift
from tests.speech_bundles import RATE, SWEEP, audio_bundle, write_wav

pytestmark = pytest.mark.slow
HERE = Path(__file__).parent / "swift_speech"
MAIN, TOKENIZER = HERE / "main.swift", HERE / "NumberTokenizer.swift"


@pytest.fixture(scope="module")
def bundle() -> Path:
    return audio_bundle("timed", "iphone-16-pro-cpu")


@pytest.fixture(scope="module")
def lines(swift: Swift, bundle: Path) -> list[str]:
    """What the program printed."""
    folder = swift.work / "speech"
    folder.mkdir()
    module = embed(bundle, "ios", folder / "kit").package.module
    any_version(folder / "kit" / "Sources" / module)
    beside = [TOKENIZER, folder / "kit" / "Sample" / "EdgecTranscribe" / "TranscribeModel.swift"]
    built = build(swift, folder, module, MAIN.read_text().replace("KIT", module), beside)
    opened = open_bundle(bundle)
    assert opened.golden_path is not None
    labels = ",".join(vector.label for vector in read_golden(opened.golden_path).texts)
    write_wav(folder / "a.wav", SWEEP)
    (folder / "a.f32").write_bytes(SWEEP.astype("<f4").tobytes())
    words = [*(f"{WORK}/{folder.name}/{name}" for name in ("a.wav", "a.f32")), labels]
    done = swift.run(["env", f"HOME={WORK}/{folder.name}", "timeout", "300", built.program, *words])
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    return done.stdout.splitlines()


@pytest.fixture(scope="module")
def said(lines: list[str]) -> dict[str, str]:
    return dict(line.split("=", 1) for line in lines)


def assert_transcribed(lines: list[str], name: str, wanted: Transcript) -> None:
    """Assert that the package wrote what Python writes: times, tokens and text of every segment."""
    said, mark = dict(line.split("=", 1) for line in lines), f"{name} segment="
    rows = [f"{each.start_s} {each.end_s} {list(each.tokens)} {each.text}" for each in wanted.segments]
    assert [line.removeprefix(mark) for line in lines if line.startswith(mark)] == rows and rows
    assert said[f"{name} text"] == wanted.text and said[f"{name} language"] == (wanted.language or "none")
    assert said[f"{name} timed"] == "true" and float(said[f"{name} sound"]) == wanted.sound_s


def test_samples_files_and_options_are_written_as_python_writes_them(lines: list[str], bundle: Path) -> None:
    model, sound = edgec.load(bundle), SWEEP
    assert_transcribed(lines, "plain", model.transcribe(sound))
    assert_transcribed(lines, "file", model.transcribe(sound, max_new_tokens=20))
    options: dict[str, Any] = {"language": "de", "task": "translate", "timestamps": False, "max_new_tokens": 12}
    assert_transcribed(lines, "asked", model.transcribe(sound, **options))
    assert f"limits={RATE} {RATE} true" in lines


def test_segments_come_one_by_one_and_a_call_can_be_cancelled(said: dict[str, str]) -> None:
    names = ("seen", "stream", "left", "after")
    assert {name: said[name] for name in names} == dict.fromkeys(names, "true")
    assert said["cancelled"] == "true 1"


def test_what_cannot_be_transcribed_is_a_typed_error(said: dict[str, str]) -> None:
    module = r"(\w+\.)*"
    faults = {"empty": "empty", "rate": "rateDiffers", "long": "tooLong", "odd": "notFinite", "absent": "unreadable"}
    for name, fault in faults.items():
        assert re.match(rf"soundRefused\({module}SoundFault\.{fault}, why: ", said[name]), said[name]
    assert said["language"].startswith("languageUnknown(") and said["most"] == 'optionOutOfRange("maxNewTokens")'


def test_the_sample_writes_what_it_recorded_and_what_was_chosen(said: dict[str, str], bundle: Path) -> None:
    assert (said["sample before"], said["sample loaded"], said["sample recording"]) == (
        "unloaded",
        "ready",
        "recording",
    )
    wanted = edgec.load(bundle).transcribe(SWEEP).text
    assert said["sample heard"] == wanted
    assert re.fullmatch(r"\d+\.\d s of sound, \d+\.\d s of it a second \(measured\)", said["sample note"])
    assert "absent.wav" in said["sample absent"] and said["sample stopped"] == "ready stopped 2"
    assert said["sample hot"].startswith("The device is too hot") and said["sample unloaded"] == "unloaded stopped"
    assert said["sample refused"] == "ready no microphone"


def test_the_first_start_compares_texts_and_the_tokens_after_a_made_up_sound(said: dict[str, str]) -> None:
    """The tokenizer is a stand-in that gives no ids; the second load replayed the model's own vectors."""
    assert said["unaccepted"].startswith("tokenizerDiffers(")
