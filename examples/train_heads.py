"""Train draft heads for a decoder: each guesses a token further ahead from the hidden state of the present one.

    python -m examples.train_heads --text build/stories/stories.txt --out heads.safetensors --minutes 10

The model is not changed. It writes continuations of passages that it was trained on, greedily and drawn, and the heads
learn to foresee these: what matters for speculation is what the model will say, not what the text says. A head is one
residual block, ``hidden + silu(W hidden)``, before the model's own lm_head (Medusa, arXiv 2401.10774). The pass
``draft_heads`` appends the result to the model's graph.
"""

import argparse
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor
from torch.nn import functional
from transformers import AutoModelForCausalLM, AutoTokenizer

from edgec.exporter.adapt.texts import read_texts

# The share of a continuation's positions that one step of training uses.
SHARE = 0.25


@dataclass(frozen=True)
class Settings:
    """The settings of one training run: a model, its texts, the budget, and the file of the heads.

    Lengths are in tokens; ``writing_share`` of the minutes goes into writing continuations, the rest into learning.
    """

    texts: tuple[Path, ...]
    out: Path
    model: Path = Path("examples/tiny-stories")
    heads: int = 4
    minutes: float = 10.0
    writing_share: float = 0.4
    prompt: int = 48
    continuation: int = 80
    batch: int = 32
    learning_rate: float = 1e-3
    temperature: float = 0.8
    seed: int = 0
    threads: int = 2


@dataclass(frozen=True)
class Examples:
    """Sequences that the model wrote, [N, T] token ids, and its hidden states after each token, [N, T, H]."""

    tokens: Tensor
    hidden: Tensor


@dataclass(frozen=True)
class Foresight:
    """The share of tokens that each head foresaw, 0..1, and the mean number of right guesses in a row."""

    shares: tuple[float, ...]
    in_a_row: float


def stream(tokenizer: Any, passages: Sequence[str]) -> Tensor:
    """Encode all passages as one row of token ids."""
    return torch.tensor(tokenizer("\n\n".join(passages), add_special_tokens=False, verbose=False)["input_ids"])


def prompts(ids: Tensor, first: int, settings: Settings, seed: int) -> Tensor:
    """Cut prompts out of a stream: [batch, prompt] token ids, each after the token that begins a text."""
    generator = torch.Generator().manual_seed(seed)
    starts = torch.randint(0, len(ids) - settings.prompt, (settings.batch,), generator=generator).tolist()
    cut = [ids[start : start + settings.prompt - 1] for start in starts]
    return torch.stack([torch.cat([torch.tensor([first]), part]) for part in cut])


@torch.no_grad()
def write(model: Any, beginnings: Tensor, settings: Settings) -> Examples:
    """Let the model continue each prompt, half of them greedily, half drawn."""
    drawn = {"do_sample": True, "temperature": settings.temperature, "top_p": 0.9}
    kinds: tuple[dict[str, Any], ...] = ({"do_sample": False}, drawn)
    written = [
        model.generate(
            part,
            attention_mask=torch.ones_like(part),
            max_new_tokens=settings.continuation,
            min_new_tokens=settings.continuation,
            pad_token_id=0,
            **kind,
        )
        for part, kind in zip(beginnings.chunk(2), kinds, strict=True)
    ]
    tokens = torch.cat(written)
    return Examples(tokens, model.model(tokens, use_cache=False).last_hidden_state)


def collect(model: Any, tokenizer: Any, settings: Settings) -> list[Examples]:
    """Write continuations for their share of the time, at least two batches."""
    ids = stream(tokenizer, read_texts(settings.texts).train)
    end = time.monotonic() + 60 * settings.minutes * settings.writing_share
    batches: list[Examples] = []
    while len(batches) < 2 or time.monotonic() < end:
        beginnings = prompts(ids, tokenizer.bos_token_id, settings, settings.seed + len(batches))
        batches.append(write(model, beginnings, settings))
    return batches


def guesses(weight: Tensor, hidden: Tensor, vocabulary: Tensor) -> Tensor:
    """The logits of all heads, [heads, N, V], for hidden states [N, H], as the pass ``draft_heads`` computes them."""
    bent = functional.silu(torch.einsum("nh,kih->kni", hidden, weight))
    return (hidden + bent) @ vocabulary.T


def targets(tokens: Tensor, heads: int) -> Tensor:
    """The token that head k should give after each token, k + 2 places later: [heads, N, T - heads - 1]."""
    length = tokens.shape[1] - heads - 1
    return torch.stack([tokens[:, k + 2 : k + 2 + length] for k in range(heads)])


def loss_of(weight: Tensor, examples: Examples, vocabulary: Tensor, generator: torch.Generator) -> Tensor:
    """The loss at a random share of the positions; near heads weigh more, since far ones depend on them."""
    heads = weight.shape[0]
    wanted = targets(examples.tokens, heads).flatten(1)
    hidden = examples.hidden[:, : -heads - 1].flatten(0, 1)
    picked = torch.randperm(hidden.shape[0], generator=generator)[: int(SHARE * hidden.shape[0])]
    logits = guesses(weight, hidden[picked], vocabulary)
    losses = [functional.cross_entropy(logits[k], wanted[k, picked]) * 0.8**k for k in range(heads)]
    return torch.stack(losses).sum()


def learn(examples: Sequence[Examples], vocabulary: Tensor, settings: Settings) -> Tensor:
    """Train the heads for the rest of the time; returns float32 [heads, H, H]."""
    width = vocabulary.shape[1]
    weight = torch.zeros(settings.heads, width, width, requires_grad=True)
    optimizer = torch.optim.AdamW([weight], lr=settings.learning_rate, weight_decay=0.01)
    generator = torch.Generator().manual_seed(settings.seed)
    budget = 60 * settings.minutes * (1 - settings.writing_share)
    began, step, share = time.monotonic(), 0, 0.0
    while step < len(examples) or share < 1:
        share = min(1.0, (time.monotonic() - began) / budget)
        optimizer.param_groups[0]["lr"] = settings.learning_rate * (0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * share)))
        loss = loss_of(weight, examples[step % len(examples)], vocabulary, generator)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        if step % 50 == 0:
            print(f"step {step}  {100 * share:.0f} %  loss {loss.item():.3f}", flush=True)
        step += 1
    return weight.detach()


@torch.no_grad()
def foresight(weight: Tensor, examples: Examples, vocabulary: Tensor, prompt: int) -> Foresight:
    """Measure how well the heads foresee continuations that they were not trained on."""
    heads = weight.shape[0]
    wanted = targets(examples.tokens, heads)[:, :, prompt:].flatten(1)
    hidden = examples.hidden[:, prompt : -heads - 1].flatten(0, 1)
    right = guesses(weight, hidden, vocabulary).argmax(-1) == wanted
    in_a_row = right.int().cumprod(0).sum(0).float().mean()
    return Foresight(tuple(right.float().mean(1).tolist()), float(in_a_row))


def train(settings: Settings) -> Foresight:
    """Train heads, write them, and measure them on continuations of held-out text."""
    torch.manual_seed(settings.seed)
    torch.set_num_threads(settings.threads)
    model: Any = AutoModelForCausalLM.from_pretrained(settings.model, dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(settings.model)
    vocabulary = model.get_output_embeddings().weight.detach()
    examples = collect(model, tokenizer, settings)
    print(f"{sum(one.tokens.numel() for one in examples):,} tokens written", flush=True)
    weight = learn(examples, vocabulary, settings)
    settings.out.parent.mkdir(parents=True, exist_ok=True)
    save_file({"draft_heads": weight.to(torch.bfloat16).contiguous()}, settings.out)
    unseen = stream(tokenizer, read_texts(settings.texts).held_out)
    written = write(model, prompts(unseen, tokenizer.bos_token_id, settings, settings.seed), settings)
    return foresight(weight, written, vocabulary, settings.prompt)


def parse(arguments: Sequence[str] | None = None) -> Settings:
    """Read the settings from the command line."""
    parser = argparse.ArgumentParser(description="Train draft heads for a decoder.")
    parser.add_argument("--text", type=Path, nargs="+", required=True, help="texts the model was trained on, UTF-8")
    parser.add_argument("--out", type=Path, required=True, help="safetensors file to write")
    parser.add_argument("--model", type=Path, default=Settings.model, help="model folder")
    parser.add_argument("--heads", type=int, default=Settings.heads, help="tokens to foresee")
    parser.add_argument("--minutes", type=float, default=Settings.minutes, help="for writing and learning")
    parser.add_argument("--seed", type=int, default=Settings.seed)
    parser.add_argument("--threads", type=int, default=Settings.threads, help="processor threads")
    given = parser.parse_args(arguments)
    return Settings(
        texts=tuple(given.text),
        out=given.out,
        model=given.model,
        heads=given.heads,
        minutes=given.minutes,
        seed=given.seed,
        threads=given.threads,
    )


def main() -> None:
    """Train as the command line says."""
    result = train(parse())
    shares = "  ".join(f"{100 * share:.1f} %" for share in result.shares)
    print(f"foreseen on held-out continuations, head by head: {shares}; {result.in_a_row:.2f} tokens in a row")


if __name__ == "__main__":
    main()
