"""Whether a subject computes the same model: its outputs against those of transformers in float32.

A job has ``folder`` (config.json, tensors), ``sense``, ``given`` and ``made``: by subject, the file of its outputs.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.senses_parts import inputs
from benchmarks.senses_parts.jobs import AGREEMENT_TOKENS

Outputs = dict[str, NDArray[np.float32]]
Expected = Callable[[Mapping[str, Any], int], Outputs]
OTHER = 1
"""The seed of another input, whose outputs say how far apart unrelated ones are."""


def difference(actual: NDArray[Any], expected: NDArray[Any]) -> float:
    """The largest difference, relative to the largest value that is expected."""
    if actual.shape != expected.shape:
        return float("inf")
    return float(np.abs(actual - expected).max() / np.abs(expected).max())


def _levelled(logits: NDArray[Any], end: int) -> NDArray[np.float32]:
    """Logits without the constant that some runtimes take off, and without the token that is never chosen."""
    kept: NDArray[np.float32] = np.delete(np.asarray(logits, np.float32), end, axis=-1)
    levelled: NDArray[np.float32] = kept - kept.mean(-1, keepdims=True)
    return levelled


def _speech(folder: Path, given: Mapping[str, Any]) -> Expected:
    import torch
    from transformers import WhisperForConditionalGeneration

    model: Any = WhisperForConditionalGeneration.from_pretrained(folder, dtype=torch.float32).eval()

    def expected(made: Mapping[str, Any], seed: int) -> Outputs:
        features, tokens = torch.from_numpy(inputs.features(given, seed)), torch.from_numpy(made["tokens"])[None]
        out = model(input_features=features, decoder_input_ids=tokens, use_cache=False)
        logits = _levelled(out.logits[0, -AGREEMENT_TOKENS:].numpy(), given["end"])
        return {"states": out.encoder_last_hidden_state[0].numpy(), "logits": logits}

    return expected


def _with_vision(folder: Path, given: Mapping[str, Any]) -> Expected:
    import torch
    from transformers import AutoModelForImageTextToText

    model: Any = AutoModelForImageTextToText.from_pretrained(folder, dtype=torch.float32).eval()

    def expected(_: Mapping[str, Any], seed: int) -> Outputs:
        pixels, tokens = torch.from_numpy(inputs.pixels(given, seed))[None], torch.from_numpy(inputs.prompt(given))
        rows = torch.cat(list(model.get_image_features(pixels, return_dict=True).pooler_output))
        logits = model(input_ids=tokens, pixel_values=pixels, use_cache=False).logits[0, -1]
        return {"rows": rows.numpy(), "logits": logits.numpy()}

    return expected


def _image(folder: Path, given: Mapping[str, Any]) -> Expected:
    import torch
    from transformers import AutoModelForImageClassification

    model: Any = AutoModelForImageClassification.from_pretrained(folder, dtype=torch.float32).eval()
    return lambda _, seed: {"logits": model(torch.from_numpy(inputs.pixels(given, seed))).logits[0].numpy()}


def _sentence(folder: Path, given: Mapping[str, Any]) -> Expected:
    import torch
    from transformers import AutoModel

    model: Any = AutoModel.from_pretrained(folder, dtype=torch.float32).eval()

    def vector(length: int, seed: int) -> NDArray[np.float32]:
        states = model(torch.from_numpy(inputs.text(given, length, seed))).last_hidden_state[0]
        made: NDArray[np.float32] = torch.nn.functional.normalize(states.mean(0), dim=0).numpy()
        return made

    return lambda _, seed: {f"{length} tokens": vector(length, seed) for length in given["lengths"]}


_MODELS: Mapping[str, Callable[[Path, Mapping[str, Any]], Expected]] = {
    "speech": _speech,
    "seeing": _with_vision,
    "image": _image,
    "sentence": _sentence,
}


def compare(job: Mapping[str, Any]) -> dict[str, Any]:
    """By subject: how far its outputs are from those expected, and how far those of another input are."""
    import torch

    given = job["given"]
    with torch.no_grad():
        expected = _MODELS[job["sense"]](Path(job["folder"]), given)
        return {subject: _compared(expected, given, dict(np.load(file))) for subject, file in job["made"].items()}


def _compared(expected: Expected, given: Mapping[str, Any], made: Outputs) -> dict[str, Any]:
    wanted, other = expected(made, 0), expected(made, OTHER)
    if "tokens" in made:
        made["logits"] = _levelled(made["logits"], given["end"])
    return {
        "differences": {name: difference(made[name], wanted[name]) for name in wanted},
        "unrelated": {name: difference(other[name], wanted[name]) for name in wanted},
    }


if __name__ == "__main__":
    print("\n" + json.dumps(compare(json.load(sys.stdin))))
