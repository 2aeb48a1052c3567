"""The generated Kotlin of models that transcribe, over the real engine in a Java machine: Python's text of a sound."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import edgec
from edgec.apps.embed.embed import embed
from edgec.runtime_py.encoder_decoder.transcription import Transcript
from tests.apps.android_engine import build, lacking
from tests.apps.kotlin_compiler import STAND_INS, WITH_KOTLIN, compiled
from tests.speech_bundles import RATE, SWEEP, audio_bundle, write_wav

pytestmark = [
    pytest.mark.slow,
    WITH_KOTLIN,
    pytest.mark.skipif(lacking(arm=False) is not None, reason=str(lacking(arm=False))),
]
FAMILIES = ("timed", "moonshine")
_RUNTIMES = ("ExecuTorch.kt", "OnnxRuntime.kt")


@dataclass(frozen=True)
class Ran:
    """What an app printed, and the bundle that it was made of."""

    bundle: Path
    sound: Path
    lines: tuple[str, ...]

    @property
    def said(self) -> dict[str, str]:
        """The facts that were printed once."""
        return dict(line.split("=", 1) for line in self.lines)

    def segments(self, name: str) -> list[str]:
        """The segments of a transcription."""
        mark = f"{name} segment="
        return [line.removeprefix(mark) for line in self.lines if line.startswith(mark)]


@pytest.fixture(scope="module")
def apps(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Ran]:
    """The app of each family, run over one library: both bundles have one name, and their projects are equal."""
    folder = tmp_path_factory.mktemp("speech")
    bundles = {family: audio_bundle(family, "android-cpu") for family in FAMILIES}
    for family, bundle in bundles.items():
        package = embed(bundle, "android", folder / family / "kit").package
    projects = [_project(folder / family / "kit") for family in FAMILIES]
    assert projects[0] == projects[1]
    module = package.module
    engine = build(folder / FAMILIES[0] / "kit", f"edgec_{module.rpartition('.')[2]}", arm=False)
    sound = write_wav(folder / "a.wav", SWEEP)
    (folder / "a.f32").write_bytes(SWEEP.astype("<f4").tobytes())
    ran = {}
    for family, bundle in bundles.items():
        line = ["java", "-Xcheck:jni", f"-Djava.library.path={engine.folder}", "-cp", _classes(folder / family, module)]
        (folder / family / "own").mkdir()
        words = [f"{module}.MainKt", str(bundle), str(folder / family / "own"), str(sound), str(folder / "a.f32")]
        done = subprocess.run([*line, *words], capture_output=True, text=True, check=False)
        assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
        assert "WARNING in native method" not in done.stdout + done.stderr
        ran[family] = Ran(bundle, sound, tuple(done.stdout.splitlines()))
    return ran


def _project(kit: Path) -> str:
    """The CMake project without the operators, which a build over ExecuTorch's package has all."""
    text = (kit / "model/src/main/cpp/CMakeLists.txt").read_text()
    before, _, rest = text.partition("set(EDGEC_ROOT_OPERATORS\n")
    return before + rest.partition(")\n")[2]


def _classes(folder: Path, module: str) -> str:
    main = folder / "Main.kt"
    main.write_text((STAND_INS / "SpeechMain.kt.txt").read_text().replace("PACKAGE", module))
    stand_ins = [path for path in sorted(STAND_INS.glob("*.kt")) if path.name not in _RUNTIMES]
    sample = (folder / "kit/sample").rglob("TranscribeModel.kt")
    return compiled([*stand_ins, *sorted((folder / "kit/model").rglob("*.kt")), *sample, main], folder / "classes")


def assert_transcribed(ran: Ran, name: str, wanted: Transcript) -> None:
    """Assert that the app wrote what Python writes: times, tokens and text of every segment."""
    rows = [f"{each.start_s} {each.end_s} {list(each.tokens)} {each.text}" for each in wanted.segments]
    assert ran.segments(name) == rows and rows
    assert ran.said[f"{name} text"] == wanted.text and wanted.text
    assert ran.said[f"{name} language"] == (wanted.language or "null")
    assert ran.said[f"{name} timed"] == "true" and float(ran.said[f"{name} sound"]) == wanted.sound_s


@pytest.mark.parametrize("family", FAMILIES)
def test_samples_and_files_are_written_as_python_writes_them(apps: dict[str, Ran], family: str) -> None:
    ran = apps[family]
    model = edgec.load(ran.bundle)
    assert_transcribed(ran, "plain", model.transcribe(SWEEP))
    assert_transcribed(ran, "file", model.transcribe(ran.sound, max_new_tokens=20))
    window, timed = {"timed": (RATE, "true"), "moonshine": (30 * RATE, "false")}[family]
    assert ran.said["limits"] == f"{RATE} {window} {timed}"


def test_language_task_and_timestamps_are_those_asked_for(apps: dict[str, Ran]) -> None:
    ran = apps["timed"]
    options: dict[str, Any] = {"language": "de", "task": "translate", "timestamps": False, "max_new_tokens": 12}
    assert_transcribed(ran, "asked", edgec.load(ran.bundle).transcribe(ran.sound, **options))
    starts = {name: [row.split()[0] for row in ran.segments(name)] for name in ("asked", "plain")}
    assert ran.said["asked language"] == "<|de|>" and starts["asked"] == ["0.0", "1.0", "2.0", "3.0"]
    ends = [float(row.split()[1]) for row in ran.segments("plain")]
    # The model's own timestamps, in steps of 20 ms, cut the other text.
    assert any(end % 1 and end != len(SWEEP) / RATE for end in ends)


def test_segments_come_one_by_one_and_a_call_can_be_cancelled(apps: dict[str, Ran]) -> None:
    said = apps["timed"].said
    names = ("seen", "flow", "taken", "after")
    assert {name: said[name] for name in names} == dict.fromkeys(names, "true")
    assert said["cancelled"] == "true 1"


@pytest.mark.parametrize("family", FAMILIES)
def test_the_sample_writes_what_it_recorded_and_what_was_chosen(apps: dict[str, Ran], family: str) -> None:
    said = apps[family].said
    assert (said["sample before"], said["sample recording"]) == ("Unloaded", "Recording")
    assert said["sample heard"] == said["plain text"] and said["sample file"] == "true"
    assert re.fullmatch(r"\d+\.\d s of sound, \d+\.\d s of it a second \(measured\)", said["sample note"])
    assert "absent.wav" in said["sample absent"] and said["sample gone"] == "The sound cannot be read: gone."
    assert said["sample unloaded"] == "Unloaded stopped" and "too hot" in said["sample hot"]


REFUSED = {
    "empty": "SoundEmpty: ",
    "rate": "SoundRateDiffers: ",
    "no rate": "SoundRateDiffers: ",
    "long": "SoundTooLong: ",
    "odd": "SoundNotFinite: ",
    "absent": "SoundUnreadable: ",
    "text": "SoundUnreadable: ",
    "language": "LanguageUnknown: ",
    "most": "OptionOutOfRange: ",
    "other golden": "OutputDiffers: ",
    "short source": "EngineFailed: ",
    "far position": "EngineFailed: ",
    "closed runtime": "EngineFailed: edgec's engine failed: the model is closed.",
    "no bundle": "EngineFailed: ",
    "closed": "EngineFailed: edgec's engine failed: the model is closed.",
}


@pytest.mark.parametrize("family", FAMILIES)
def test_what_cannot_be_transcribed_is_a_typed_exception(apps: dict[str, Ran], family: str) -> None:
    said = apps[family].said
    assert {name: said[name][: len(start)] for name, start in REFUSED.items()} == REFUSED
    assert "8000 samples a second, and the model expects 16000" in said["rate"]
    assert "absent.wav" in said["absent"] and "RIFF" in said["text"]
    assert said["golden"] == "kotlin.Unit"
    if family == "moonshine":
        assert said["task"].startswith("TranscriptionRefused: ") and "no timestamps" in said["stamps"]
    else:
        assert int(said["task"]) >= 1 and int(said["stamps"]) >= 1
