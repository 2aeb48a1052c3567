"""Log-mel features of sound, as Whisper's feature extractor makes them: transformers' own functions, in numpy.

samples -> windows of ``fft`` samples every ``hop`` -> power spectrum -> mel filters -> log10, clipped 8 below its
largest value -> (x + 4) / 4
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from edgec.bundle.entry_points import SoundInfo, SoundInput
from edgec.runtime_py.engines.executor import Array
from edgec.runtime_py.media.sound_file import Samples

# Of Whisper's filters, Hz.
_HIGHEST = 8000.0
_RANGE = 8.0


def encoder_input(samples: Samples, sound: SoundInput) -> Array:
    """What the encoder reads of one window: features, or the samples themselves with silence up to the fewest."""
    if isinstance(sound, SoundInfo):
        return log_mel(samples, sound)
    missing = max(0, sound.fewest_samples - samples.size)
    return np.pad(samples[: sound.window_samples].astype(np.float32, copy=False), (0, missing))[None]


def log_mel(samples: Samples, sound: SoundInfo) -> Array:
    """The features of one window, float32 [1, mels, frames].

    Args:
        samples: at most ``frames * hop``, float32 [N]; silence follows to the window's end.
        sound: how features are made.
    """
    from transformers.audio_utils import spectrogram, window_function

    window = np.zeros(sound.window_samples, np.float32)
    window[: samples.size] = samples[: window.size]
    logs = spectrogram(
        window,
        window_function(sound.fft, "hann"),
        frame_length=sound.fft,
        hop_length=sound.hop,
        power=2.0,
        mel_filters=_filters(sound),
        log_mel="log10",
    )[:, :-1]
    features: Array = (np.maximum(logs, logs.max() - _RANGE) + 4.0) / 4.0
    return features.astype(np.float32)[None]


@lru_cache(maxsize=4)
def _filters(sound: SoundInfo) -> Any:
    from transformers.audio_utils import mel_filter_bank

    return mel_filter_bank(
        num_frequency_bins=1 + sound.fft // 2,
        num_mel_filters=sound.mels,
        min_frequency=0.0,
        max_frequency=_HIGHEST,
        sampling_rate=sound.sampling_rate,
        norm="slaney",
        mel_scale="slaney",
    )
