"""The two trained models, the text to evaluate them on, and separate text to calibrate them on.

- ``tiny-stories`` (examples/, 5 M parameters): evaluated on stories that its training held out, calibrated on
  windows spread over stories that it was trained on. Both are sampled into build/stories first, which takes minutes.
- ``stories260K`` (../shared/data): evaluated on every 25th of 1,000 TinyStories, calibrated on others of them. Whether
  its training saw any of these stories is not recorded.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

    from edgec.ir.program import Program
    from edgec.passes.graph.calibration import Calibration

ROOT = Path(__file__).resolve().parents[2]
TEXTS = ROOT.parent / "shared" / "data" / "text"
EXAMPLE = ROOT / "examples" / "tiny-stories"
STORIES = ROOT / "build" / "stories"
WINDOW = 256
Call = list["Tensor"]


@dataclass(frozen=True)
class Subject:
    """A trained model with its texts as tokens.

    Attributes:
        name: the name in the tables.
        folder: config, weights, tokenizer.
        held_out: token ids of each evaluated window, int64 [1, S].
        known: token ids of each calibration window, from other text.
        texts: one line about the texts.
        joined: all of the held-out text, int64 [T], for sequences longer than a window.
    """

    name: str
    folder: Path
    held_out: Sequence[Tensor]
    known: Sequence[Tensor]
    texts: str
    joined: Tensor

    @cached_property
    def program(self) -> Program:
        """The captured model in float32, norms fused."""
        return float_program(self.folder, WINDOW)

    @property
    def calibration(self) -> Calibration:
        """The known windows, each a separate call."""
        from edgec.passes.graph.calibration import Calibration

        return Calibration(calls=calls(self.known))

    @property
    def evaluated(self) -> int:
        """The number of predicted tokens, which excludes the first one of each window."""
        return sum(ids.shape[1] - 1 for ids in self.held_out)

    @property
    def calibrated(self) -> int:
        """The number of tokens for calibration."""
        return sum(ids.shape[1] for ids in self.known)


def calls(windows: Sequence[Tensor]) -> list[Call]:
    """The calls for windows: tokens and positions of each."""
    import torch

    return [[ids, torch.arange(ids.shape[1])] for ids in windows]


def float_program(folder: Path, length: int) -> Program:
    """A model's captured graph over float32 weights, norms fused."""
    import torch
    from transformers import AutoModelForCausalLM

    from edgec.exporter.capture.decoder import build_skeleton, capture_decoder
    from edgec.exporter.sources.decoders.spec import model_spec
    from edgec.passes.cleanup.remove_noops import RemoveNoops
    from edgec.passes.contract import run_passes
    from edgec.passes.fuse.fuse_rms_norm import FuseRmsNorm

    model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    skeleton = build_skeleton(lambda: AutoModelForCausalLM.from_config(model.config, attn_implementation="edgec"))
    captured = capture_decoder(skeleton, model_spec(model.config.to_dict()), _StateDict(model.state_dict()), length)
    return run_passes(captured, [RemoveNoops(), FuseRmsNorm()])


@dataclass(frozen=True)
class _StateDict:
    state: dict[str, Any]

    def tensor(self, name: str) -> Tensor:
        value: Tensor = self.state[name]
        return value


def _windows(tokenizer: Any, text: str, count: int, length: int = WINDOW) -> list[Tensor]:
    """Whole windows, spread evenly over a text."""
    import torch

    ids = torch.tensor(tokenizer(text, add_special_tokens=False).input_ids)
    whole = ids[: len(ids) // length * length].view(-1, 1, length)
    wanted = min(count, len(whole))
    return [whole[i * len(whole) // wanted] for i in range(wanted)]


def example_model(tokens: int, known: int) -> Subject:
    """The subject examples/tiny-stories.

    Raises:
        SystemExit: There are no sampled stories in build/stories, or too few for this many held-out tokens.
    """
    import torch
    from transformers import AutoTokenizer

    from examples.stories.corpus import all_stories, in_one_text, split

    trained, held_out = split(all_stories(STORIES))
    tokenizer = AutoTokenizer.from_pretrained(EXAMPLE)
    joined = torch.tensor(tokenizer(in_one_text(held_out), add_special_tokens=False).input_ids)
    if len(joined) < tokens:
        wanted = "examples/train_stories.py sample --teacher stories260K --work build/stories --tokens 1.6e6"
        raise SystemExit(f"{STORIES} holds out {len(joined):,} tokens, {tokens:,} are needed: python {wanted}")
    evaluated = _windows(tokenizer, in_one_text(held_out), tokens // WINDOW)
    calibrated = _windows(tokenizer, in_one_text(trained), known // WINDOW)
    return Subject("tiny-stories", EXAMPLE, evaluated, calibrated, "stories that its training held out", joined)


def stories(tokens: int, known: int) -> Subject:
    """The subject stories260K."""
    import torch
    from transformers import AutoTokenizer

    folder = ROOT.parent / "shared" / "data" / "models" / "stories260K"
    tokenizer = AutoTokenizer.from_pretrained(folder)
    texts = json.loads((TEXTS / "tinystories_1000.json").read_text())

    def read(wanted: Callable[[int], bool], total: int) -> list[Tensor]:
        windows: list[Tensor] = []
        for index in (i for i in range(len(texts)) if wanted(i)):
            if sum(ids.shape[1] for ids in windows) >= total:
                break
            windows.append(torch.tensor([tokenizer(texts[index]).input_ids[:WINDOW]]))
        return windows

    held_out = read(lambda i: i % 25 == 0, tokens)
    known_ones = read(lambda i: i % 25 != 0 and i % 7 == 1, known)
    joined = torch.cat([ids[0] for ids in held_out])
    return Subject("stories260K", folder, held_out, known_ones, "every 25th of 1,000 TinyStories", joined)


SUBJECTS: Mapping[str, Callable[[int, int], Subject]] = {"tiny-stories": example_model, "stories260K": stories}
