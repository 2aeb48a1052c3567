"""The models that are compared, as data: published shapes with seeded random weights, and what each is asked.

Run as a module it writes a model's tensors: those that ``edgec export --random-weights`` makes, in float32.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from benchmarks.harness.cases import Case
from benchmarks.harness.models import SEED, Model, write_config
from benchmarks.harness.processes import run_worker

_REPEATS = 2
_POOLING = {"word_embedding_dimension": 384, "pooling_mode_mean_tokens": True}
_PARTS = [
    {"idx": place, "name": str(place), "path": path, "type": f"sentence_transformers.models.{kind}"}
    for place, (path, kind) in enumerate((("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize")))
]
# Beside config.json: how a sentence's vector is made of its tokens'.
_SENTENCE_FILES: Mapping[str, Any] = {"modules.json": _PARTS, "1_Pooling/config.json": _POOLING}


@dataclass(frozen=True)
class SenseModel(Model):
    """A model and what it is asked.

    Attributes:
        sense: the kind of its input: ``speech``, ``seeing`` (images in a text), ``image`` or ``sentence``.
        given: the sizes of its inputs, as `inputs` reads them, and for a text its tokens.
        cases: what is timed.
        memory_cases: after which the peak of memory is read.
        context: the tokens that edgec's KV cache holds; None: as many as the recipe says, or there is none.
        recipes: of edgec's bundles.
        files: JSON files beside config.json.
    """

    sense: str = ""
    given: Mapping[str, Any] = field(default_factory=dict)
    cases: tuple[Case, ...] = ()
    memory_cases: tuple[str, ...] = ()
    context: int | None = None
    recipes: tuple[str, ...] = ("float", "8bit")
    files: Mapping[str, Any] = field(default_factory=dict)


def _case(name: str, steps: int = 1, repeats: int = _REPEATS) -> Case:
    return Case(name, 0, 1, steps=steps, repeats=repeats)


def _speech(name: str, architecture: str, about: str, given: Mapping[str, Any]) -> SenseModel:
    cases = (_case("encoder"), _case("to first token"), _case("decode", given["new_tokens"], repeats=3))
    return SenseModel(
        name,
        architecture,
        about,
        sense="speech",
        given=given,
        cases=cases,
        memory_cases=("to first token", "decode"),
        recipes=("float", "8bit", "4bit"),
    )


def _sentence(name: str, architecture: str, about: str, lengths: tuple[int, ...], words: int) -> SenseModel:
    cases = tuple(_case(f"{length} tokens", repeats=3 if length > 128 else 5) for length in lengths)
    return SenseModel(
        name,
        architecture,
        about,
        sense="sentence",
        given={"lengths": lengths, "first_word": 1, "last_word": words},
        cases=cases,
        memory_cases=(cases[-1].name,),
        files=_SENTENCE_FILES,
    )


def _image(name: str, architecture: str, about: str, size: int) -> SenseModel:
    given = {"channels": 3, "size": size}
    cases = (_case("image", repeats=3),)
    return SenseModel(name, architecture, about, sense="image", given=given, cases=cases, memory_cases=("image",))


def _with_vision(name: str, architecture: str, about: str, given: Mapping[str, Any], context: int) -> SenseModel:
    return SenseModel(
        name,
        architecture,
        about,
        sense="seeing",
        given={"channels": 3, **given},
        cases=(_case("image encoder"), _case("image to first token")),
        memory_cases=("image to first token",),
        context=context,
    )


# Whisper's own ids: the start of a transcript, English, transcribe, no timestamps; before the start, the end.
_WHISPER = {"mels": 80, "frames": 3000, "prompt": (50258, 50259, 50359, 50363), "new_tokens": 64, "end": 50257}
MODELS = (
    _speech("whisper-tiny", "whisper-tiny", "Whisper tiny, a window of 30 s", _WHISPER),
    _speech("whisper-base", "whisper-base", "Whisper base, a window of 30 s", _WHISPER),
    _image("vit-b", "vit-b", "ViT-B/16, an image of 224 x 224", 224),
    _sentence("minilm", "minilm-l6", "MiniLM-L6, sentences of 16, 128 and 512 tokens", (16, 128, 512), 30522),
    _with_vision(
        "smolvlm-256m",
        "smolvlm-256m",
        "SmolVLM-256M, a tile of 512 x 512 (64 rows) among 32 words",
        {"size": 512, "rows": 64, "image_token": 49190, "words": 32, "first_word": 3, "last_word": 49000},
        512,
    ),
)
_TINY_WHISPER = {"mels": 16, "frames": 100, "prompt": (41, 42, 43, 44), "new_tokens": 6, "end": 40}
_TINY_TILE = {"size": 32, "rows": 4, "image_token": 90, "words": 6, "first_word": 3, "last_word": 90}
TINY = (
    _speech("tiny-whisper", "tiny-whisper", "checks the harness, measures nothing", _TINY_WHISPER),
    _image("tiny-vit", "tiny-vit", "checks the harness, measures nothing", 32),
    _sentence("tiny-minilm", "tiny-minilm", "checks the harness, measures nothing", (8, 64), 96),
    _with_vision("tiny-smolvlm", "tiny-smolvlm", "checks the harness, measures nothing", _TINY_TILE, 64),
)


def with_repeats(model: SenseModel, repeats: int) -> SenseModel:
    """The same model, each case timed so often in a process."""
    return replace(model, cases=tuple(replace(case, repeats=repeats) for case in model.cases))


def prepared(model: SenseModel, folder: Path) -> Path:
    """The model's folder with config, other files and tensors, made in a process of its own where they are absent."""
    config = write_config(model, folder)
    for name, content in model.files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(json.dumps(content))
    tensors = folder / "model.safetensors"
    if not tensors.is_file():
        run_worker(__name__, {"config": str(config), "out": str(tensors)})
    return folder


def _write_tensors(config: Path, out: Path) -> None:
    from safetensors.torch import save_file

    from edgec.exporter.sources.resolve import resolve

    made = resolve(str(config), random_weights=True, seed=SEED).weights
    assert made is not None  # only factories own theirs
    tensors = {name: made.tensor(name) for name in made.names()}
    save_file(tensors, out.with_suffix(".partial"), metadata={"format": "pt"})
    out.with_suffix(".partial").rename(out)


if __name__ == "__main__":
    job = json.load(sys.stdin)
    _write_tensors(Path(job["config"]), Path(job["out"]))
    print("\n{}")
