"""Greedy texts of llama.cpp and of edgec on one model: python -m benchmarks.gguf_greedy FILE.gguf BUNDLE.

FILE is a GGUF file. BUNDLE is one that edgec exported from it for ``host``, or one with ``--format gguf`` whose
``model.gguf`` is FILE itself: transformers then computes the file's values in float32. Twenty questions in the model's
chat template, 32 tokens each. Where two texts part, the lead of either program's token over the other's is printed, in
nats: both round activations to 8 bits, each in its own way, and a lead within that noise does not tell models apart.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.harness.processes import ROOT, run
from benchmarks.peers.environment import LLAMA

PROMPTS = (
    *("What is the capital of France?", "Write a short poem about the sea.", "What is 12 times 12?"),
    *("Name three planets.", "Why is the sky blue?", "Translate 'good morning' into Spanish."),
    *("Who wrote Hamlet?", "List the colours of the rainbow.", "What does a carpenter do?"),
    *("Explain photosynthesis in one sentence.", "What is the largest ocean?", "Give me a recipe for pancakes."),
    *("How many legs does a spider have?", "What is the opposite of hot?", "Write a function that adds two numbers."),
    *("What year did the Second World War end?", "Tell me a joke.", "What is the boiling point of water?"),
    *("Describe a cat.", "How do I tie a tie?"),
)
_TOKENS = 32


@dataclass(frozen=True)
class Text:
    """What one program wrote after one prompt.

    Attributes:
        tokens: ids.
        leads: of each over the next best one, nats.
        others: the next best ones.
    """

    tokens: Sequence[int]
    leads: Sequence[float]
    others: Sequence[int]


@dataclass(frozen=True)
class Parting:
    """Where two texts part: the place, both tokens, and how far each program prefers its own, nats."""

    place: int
    ours: int
    theirs: int
    our_lead: float
    their_lead: float


def parting(ours: Text, theirs: Text) -> Parting | None:
    """Where two texts part; None where they are equal."""
    pairs = enumerate(zip(ours.tokens, theirs.tokens, strict=False))
    place = next((index for index, (one, other) in pairs if one != other), None)
    if place is None:
        return None
    return Parting(place, ours.tokens[place], theirs.tokens[place], ours.leads[place], theirs.leads[place])


def prompts_of(file: Path) -> tuple[Any, list[list[int]], list[int]]:
    """The tokenizer of a GGUF file, the prompts' ids and the ids that end a text."""
    from edgec.exporter.sources.resolve import resolve
    from edgec.exporter.sources.tokenizer import load_tokenizer

    source = resolve(str(file))
    assert source.path is not None
    tokenizer = load_tokenizer(source.path)
    ends = source.generation_config.get("eos_token_id") or []
    ids = [_prompt(tokenizer, text) for text in PROMPTS]
    return tokenizer, ids, ends if isinstance(ends, list) else [ends]


def _prompt(tokenizer: Any, text: str) -> list[int]:
    if not tokenizer.chat_template:
        return list(tokenizer(text)["input_ids"])
    chat = [{"role": "user", "content": text}]
    ids = tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_dict=False)
    return list(ids)


def transformers_texts(file: Path, prompts: Sequence[Sequence[int]], ends: Sequence[int]) -> list[Text]:
    """What transformers writes with the file's values in float32."""
    import torch

    from edgec.exporter.sources.resolve import resolve
    from edgec.exporter.sources.weights.streamed import LoadedWeights
    from edgec.exporter.stages.capturing import eager_model

    source = resolve(str(file))
    assert source.weights is not None
    model = eager_model(source, LoadedWeights(source.weights))

    def last(ids: Sequence[int], cache: Any) -> tuple[Any, Any]:
        with torch.no_grad():
            made = model(torch.tensor([list(ids)]), past_key_values=cache, use_cache=True, logits_to_keep=1)
        return made.logits[0, -1], made.past_key_values

    return [_written(prompt, ends, last) for prompt in prompts]


def _written(prompt: Sequence[int], ends: Sequence[int], last: Callable[[Sequence[int], Any], tuple[Any, Any]]) -> Text:
    tokens, leads, others, cache, ids = [], [], [], None, prompt
    for _ in range(_TOKENS):
        row, cache = last(ids, cache)
        best, second = row.topk(2).indices.tolist()
        tokens.append(best)
        leads.append(float(row[best] - row[second]))
        others.append(second)
        ids = [best]
        if best in ends:
            break
    return Text(tokens, leads, others)


def engine_texts(
    worker: str, python: Path | str, artifact: Path, prompts: Sequence[Sequence[int]], ends: Sequence[int]
) -> list[Text]:
    """What an engine of the harness writes, in a process of its own."""
    job = {"kind": "greedy", "artifact": str(artifact), "threads": 1, "context": 1024, "prompts": prompts}
    told = run([python, "-m", worker], stdin={**job, "tokens": _TOKENS, "ends": list(ends)}).json()
    return [Text(**text) for text in told["texts"]]


def main(write: Callable[[str], None] = print) -> None:
    """Print how many texts are equal, and where the others part."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("file", type=Path, help="a GGUF file")
    parser.add_argument("bundle", type=Path, help="a bundle of it for host, or with --format gguf")
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "bench", help="where llama.cpp is installed")
    options = parser.parse_args()
    from edgec.bundle.folder import read_manifest

    tokenizer, prompts, ends = prompts_of(options.file)
    llama = LLAMA.python(options.build)
    theirs = engine_texts("benchmarks.peers.llama_cpp", llama, options.file, prompts, ends)
    if read_manifest(options.bundle).format == "gguf":
        ours = transformers_texts(options.file, prompts, ends)
    else:
        ours = engine_texts("benchmarks.harness.edgec_engine", sys.executable, options.bundle, prompts, ends)
    partings = [parting(one, other) for one, other in zip(ours, theirs, strict=True)]
    write(f"{partings.count(None)} of {len(PROMPTS)} texts of {_TOKENS} tokens are equal (measured)")
    for prompt, found in zip(PROMPTS, partings, strict=True):
        if found is not None:
            ours_said, theirs_said = (tokenizer.decode([token]) for token in (found.ours, found.theirs))
            leads = f"edgec {ours_said!r} by {found.our_lead:.3f}, llama.cpp {theirs_said!r} by {found.their_lead:.3f}"
            write(f"  {prompt}  part at token {found.place}: {leads}")


if __name__ == "__main__":
    main()
