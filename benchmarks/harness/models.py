"""The models of the benchmark: published architectures with seeded random weights, made here, nothing downloaded.

Speed depends on shapes, not on values. edgec and its peers still get the same tensors, so that their logits can be
compared and no runtime is measured with another model by mistake.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from benchmarks.harness.processes import run_worker

ARCHITECTURES = Path(__file__).resolve().parents[1] / "architectures"
SEED = 0


@dataclass(frozen=True)
class Model:
    """An architecture of ``architectures/``; ``layers`` keeps only the first ones.

    Attributes:
        name: the name in the tables.
        architecture: the file's name.
        about: the description in the tables' notes.
        changes: fields of the config that differ from the file's.
    """

    name: str
    architecture: str
    about: str
    layers: int | None = None
    changes: tuple[tuple[str, Any], ...] = ()

    @cached_property
    def config(self) -> dict[str, Any]:
        """The model's transformers config, with ``layers`` and ``changes`` applied."""
        fields: dict[str, Any] = json.loads((ARCHITECTURES / f"{self.architecture}.json").read_text())
        return fields | ({"num_hidden_layers": self.layers} if self.layers else {}) | dict(self.changes)

    @property
    def matrix_values(self) -> int:
        """The number of weights in the linear layers, without the lm_head."""
        return int(self.config["num_hidden_layers"]) * _layer_values(self.config)

    @property
    def vocab_values(self) -> int:
        """The number of weights in the lm_head, which the embedding shares in tied models."""
        return int(self.config["vocab_size"]) * int(self.config["hidden_size"])

    @property
    def parameters(self) -> int:
        """The number of weights in all matrices, tied ones counted once; norms are too few to matter."""
        copies = 1 if self.config["tie_word_embeddings"] else 2
        return self.matrix_values + copies * self.vocab_values

    def kv_values(self, positions: int) -> int:
        """The number of values in the KV cache of ``positions`` positions."""
        return 2 * positions * int(self.config["num_hidden_layers"]) * _kv_width(self.config)


def head_dim(config: Mapping[str, Any]) -> int:
    """The width of one head."""
    return int(config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"])


def _kv_width(config: Mapping[str, Any]) -> int:
    return int(config["num_key_value_heads"]) * head_dim(config)


def _layer_values(config: Mapping[str, Any]) -> int:
    hidden, queries = int(config["hidden_size"]), int(config["num_attention_heads"]) * head_dim(config)
    attention = 2 * hidden * queries + 2 * hidden * _kv_width(config)
    return attention + 3 * hidden * int(config["intermediate_size"])


Q8L = Model("q8L", "qwen3-0.6b", "Qwen3-0.6B cut to 8 layers", layers=8)
Q8L_AVX2 = Model("q8L-avx2", "qwen3-0.6b", "the same, all of it held to AVX2", layers=8)
SMOL = Model("smol", "smollm2-135m", "SmolLM2-135M, 30 layers")
QWEN3 = Model("qwen3", "qwen3-0.6b", "Qwen3-0.6B, 28 layers")
Q17L = Model("q17L", "qwen3-1.7b", "Qwen3-1.7B cut to 8 layers", layers=8)
Q4L = Model("q4L", "qwen3-4b", "Qwen3-4B cut to 8 layers", layers=8)
Q35L = Model("q35L", "qwen3.5-0.8b", "Qwen3.5-0.8B cut to 8 layers, 6 of them Gated DeltaNet", layers=8)
LFM2 = Model("lfm2", "lfm2-1.2b", "LFM2-1.2B, 16 layers, 10 of them short convolutions")
QWEN3_MOE = Model("qwen3-moe", "qwen3-30b-a3b", "Qwen3-30B-A3B cut to 2 layers of 128 experts", layers=2)
GPT_OSS = Model("gpt-oss", "gpt-oss-20b", "gpt-oss-20b cut to 2 layers of 32 experts", layers=2)
LONG = Model("long", "long-context", "2 layers of Qwen3-0.6B, vocabulary 8192")
WINDOW = Model("window", "long-context-window", "the same width as a Mistral, window of 1024 tokens")
TINY = Model("tiny", "tiny-qwen3", "a Qwen3 of two layers, hidden 64: checks the harness, measures nothing")


def write_config(model: Model, folder: Path) -> Path:
    """Write the model's config.json; returns its path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "config.json"
    path.write_text(json.dumps(model.config, indent=1))
    return path


def weights(model: Model, folder: Path) -> Path:
    """The safetensors file of a model; a separate process writes it if needed, so that this one stays small."""
    path = folder / "model.safetensors"
    if not path.is_file():
        config = write_config(model, folder)
        run_worker("benchmarks.harness.models", {"config": str(config), "out": str(path)})
    return path


def write_weights(config: Path, out: Path) -> None:
    """Write the tensors that ``edgec export --random-weights`` makes, in float16."""
    import torch
    from safetensors.torch import save_file

    from edgec.exporter.sources.resolve import resolve

    made = resolve(str(config), random_weights=True, seed=SEED).weights
    assert made is not None  # only factories own theirs
    tied = json.loads(config.read_text()).get("tie_word_embeddings", True)
    names = [name for name in made.names() if not (tied and name == "lm_head.weight")]
    tensors = {name: made.tensor(name).to(torch.float16) for name in names}
    save_file(tensors, out.with_suffix(".partial"), metadata={"format": "pt"})
    out.with_suffix(".partial").rename(out)


if __name__ == "__main__":
    given = json.load(sys.stdin)
    write_weights(Path(given["config"]), Path(given["out"]))
    print("\n{}")
