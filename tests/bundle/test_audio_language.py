"""How many windows, frames and tokens a sound takes."""

from __future__ import annotations

from typing import Any

import pytest

from edgec.bundle.audio_language import AudioLanguageInfo
from edgec.bundle.entry_points import Limits, MethodInfo, SoundInfo, TensorInfo
from tests.bundle.bundle_samples import sample_manifest

# Windows of 30 s, as those of the published models.
SOUND = SoundInfo(sampling_rate=16_000, mels=128, frames=3000, fft=400, hop=160)
SECOND = SOUND.sampling_rate


def info(**changed: Any) -> AudioLanguageInfo:
    """A model that makes a row of four frames, in up to three windows."""
    facts = {"stride": 2, "merge": 2, "rows": 750, "audio_token": 7, "windows": 3, **changed}
    return AudioLanguageInfo(limits=Limits(context=4096, prefill_chunk=128, logit_rows=16), sound=SOUND, **facts)


@pytest.mark.parametrize("merge", [2, 4])
def test_rows_are_counted_as_by_the_families_own_formulas(merge: int) -> None:
    made = info(merge=merge, rows=1500 // merge)
    for frames in range(1, 3001):
        positions = (frames - 1) // 2 + 1
        # Of Qwen2-Audio and Audio Flamingo 3 with merge 2, of GLM-ASR with merge 4.
        assert made.rows_of(frames) == max(0, (positions - merge) // merge + 1)


def test_a_sound_is_cut_into_windows_and_only_its_own_frames_are_rows() -> None:
    made = info()
    assert made.window_frames(1) == [1] and made.sound_rows(1) == 0
    assert made.window_frames(30 * SECOND) == [3000] and made.sound_rows(30 * SECOND) == 750
    assert made.window_frames(30 * SECOND + 1) == [3000, 1] and made.sound_rows(30 * SECOND + 1) == 750
    assert made.window_frames(70 * SECOND) == [3000, 3000, 1000] and made.sound_rows(70 * SECOND) == 1750
    assert made.longest_s == 90


def test_silence_counts_where_windows_are_filled_with_it() -> None:
    made = info(whole=True, windows=None)
    assert made.window_frames(1) == [3000] and made.sound_rows(31 * SECOND) == 1500 and made.longest_s is None


def test_rows_that_do_not_follow_from_the_frames_are_refused() -> None:
    with pytest.raises(ValueError, match="3000 frames make 750 rows, not 749"):
        info(rows=749)


@pytest.mark.parametrize(
    ("changed", "what"),
    [({"hop": 1 << 20}, "samples"), ({"mels": 1 << 20}, "features"), ({"fft": 1 << 30}, "at a time")],
)
def test_a_window_that_no_memory_holds_is_refused(changed: dict[str, int], what: str) -> None:
    with pytest.raises(ValueError, match=what):
        SoundInfo.model_validate({**SOUND.model_dump(), **changed})


@pytest.mark.parametrize("shape", [None, [1, "S"], [1, "S", "W"]])
def test_a_decoder_that_reads_no_rows_is_refused(shape: list[int | str] | None) -> None:
    hear, forward = MethodInfo(name="audio_encoder", inputs=[], outputs=[]), sample_manifest().methods[0]
    rows = [] if shape is None else [TensorInfo(name="input_embeds", dtype="float32", shape=shape)]
    reading = forward.model_copy(update={"name": "forward", "inputs": [*forward.inputs, *rows]})
    with pytest.raises(ValueError, match="has an input input_embeds"):
        sample_manifest(methods=[hear, reading], audio_language=info(), limits=None)
