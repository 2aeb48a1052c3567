"""The models of the session benchmarks: the trained example, and Qwen3-0.6B cut to 8 layers with random weights.

The random one uses the example's tokenizer, whose ids are all in its vocabulary.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.harness.models import Q8L, write_config
from benchmarks.harness.subjects import EQUAL

EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "tiny-stories"
TOKENIZER = ("tokenizer.json", "tokenizer_config.json")


@dataclass(frozen=True)
class Subject:
    """A model to measure: ``options`` are those of ``edgec.export``."""

    name: str
    about: str
    options: Mapping[str, Any]


SUBJECTS = {
    "tiny-stories": Subject("tiny-stories", "the example, 5 million weights, trained", {"recipe": "4bit"}),
    "q8L": Subject("q8L", Q8L.about, {"recipe": EQUAL, "random_weights": True, "context": 1024}),
}


def model_folder(subject: Subject, build: Path) -> Path:
    """The model folder or config for ``edgec.export``."""
    if not subject.options.get("random_weights"):
        return EXAMPLE
    config = write_config(Q8L, build / subject.name)
    for name in TOKENIZER:
        shutil.copy(EXAMPLE / name, config.parent / name)
    return config


def exported(subject: Subject, build: Path, prefix_tokens: int = 0) -> Path:
    """Export the subject's bundle, with a system prompt of about ``prefix_tokens`` tokens, if any."""
    import edgec

    build.mkdir(parents=True, exist_ok=True)
    options = dict(subject.options)
    if prefix_tokens:
        options["system_prompt"] = build / "system.txt"
        options["system_prompt"].write_text(system_text(prefix_tokens))
    out = build / f"{subject.name}-{prefix_tokens}.edgec"
    return edgec.export(model_folder(subject, build), out=out, force=True, **options)


def system_text(tokens: int) -> str:
    """A system message of about ``tokens`` tokens, including those of the chat template."""
    from edgec.exporter.parity.probe import TEXT
    from edgec.exporter.sources.tokenizer import load_tokenizer
    from edgec.runtime_py.chat import chat_tokens

    tokenizer = load_tokenizer(EXAMPLE)
    ids = tokenizer(TEXT.read_text() * (1 + tokens // 300), add_special_tokens=False)["input_ids"]
    around = len(chat_tokens(tokenizer, [{"role": "system", "content": "."}, {"role": "user", "content": ""}]))
    return str(tokenizer.decode(ids[: tokens - around]))
