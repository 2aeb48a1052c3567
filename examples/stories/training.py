"""The training loop: it begins or resumes a run, takes steps until the budget is spent, and writes the model."""

import math
import os
import time
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer

from examples.stories.corpus import Corpus, all_stories, build_corpus, rows, split
from examples.stories.model import build_model, loss_of
from examples.stories.model_folder import write_model
from examples.stories.muon import Muon
from examples.stories.settings import Progress, StorySettings
from examples.stories.tokens import train_tokenizer

TOKENIZER_STORIES = 20_000
LAST_RATE = 0.02


@dataclass(frozen=True)
class Run:
    """What the steps of one run share."""

    settings: StorySettings
    tokenizer: Tokenizer
    corpus: Corpus
    model: Any
    optimizers: tuple[torch.optim.Optimizer, ...]


def build_optimizers(model: Any, settings: StorySettings) -> tuple[torch.optim.Optimizer, ...]:
    """Muon for the matrices of the blocks, AdamW for the embedding (tied with lm_head) and the norms."""
    named = list(model.named_parameters())
    matrices = [one for name, one in named if one.dim() == 2 and "layers" in name]
    others = [one for name, one in named if one.dim() != 2 or "layers" not in name]
    return (
        Muon(matrices, lr=settings.matrix_rate, weight_decay=settings.weight_decay),
        torch.optim.AdamW(others, lr=settings.learning_rate, betas=(0.9, 0.95), weight_decay=0.0),
    )


def rate_at(share: float, warm_up: float) -> float:
    """The factor of the learning rates at a share of the budget: linear warm-up, then a cosine to a fiftieth."""
    if share < warm_up:
        return (share + 1e-3) / (warm_up + 1e-3)
    angle = math.pi * (share - warm_up) / (1 - warm_up)
    return LAST_RATE + (1 - LAST_RATE) * 0.5 * (1 + math.cos(angle))


def start(settings: StorySettings) -> tuple[Run, Progress]:
    """Prepare a run, from its checkpoint where there is one."""
    torch.set_num_threads(settings.threads)
    torch.manual_seed(settings.seed)
    saved = torch.load(settings.checkpoint, weights_only=True) if settings.checkpoint.exists() else None
    stories, _ = split(all_stories(settings.stories))
    texts = [story.text for story in stories[:TOKENIZER_STORIES]]
    tokenizer = Tokenizer.from_str(saved["tokenizer"]) if saved else train_tokenizer(texts, settings.shape.vocabulary)
    model = build_model(settings.shape, tokenizer)
    optimizers = build_optimizers(model, settings)
    if saved:
        model.load_state_dict(saved["model"])
        for optimizer, state in zip(optimizers, saved["optimizers"], strict=True):
            optimizer.load_state_dict(state)
    run = Run(settings, tokenizer, build_corpus(tokenizer, stories), model, optimizers)
    return run, Progress(**saved["progress"]) if saved else Progress()


def save_checkpoint(run: Run, progress: Progress) -> None:
    """Save everything that a later run needs to continue, whole or not at all."""
    path = run.settings.checkpoint
    content = {
        "progress": asdict(progress),
        "tokenizer": run.tokenizer.to_str(),
        "model": run.model.state_dict(),
        "optimizers": [optimizer.state_dict() for optimizer in run.optimizers],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(path.name + ".part")
    with aside.open("wb") as file:
        torch.save(content, file)
        file.flush()
        os.fsync(file.fileno())
    aside.replace(path)


def set_rates(run: Run, share: float) -> None:
    """Set the learning rates of both optimizers for a share of the budget."""
    factor, settings = rate_at(share, run.settings.warm_up), run.settings
    for optimizer, peak in zip(run.optimizers, (settings.matrix_rate, settings.learning_rate), strict=True):
        for group in optimizer.param_groups:
            group["lr"] = peak * factor


def take_step(run: Run, progress: Progress) -> float:
    """Take one step and return the loss before it, in nats per token; the batch depends on seed and step alone."""
    settings = run.settings
    set_rates(run, progress.spent(settings))
    rng = np.random.default_rng([settings.seed, progress.step])
    batch = torch.from_numpy(rows(run.corpus, settings.batch, settings.length, rng))
    loss = loss_of(run.model, batch)
    run.model.zero_grad(set_to_none=True)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(run.model.parameters(), 1.0)
    for optimizer in run.optimizers:
        optimizer.step()
    return loss.item()


def advanced(progress: Progress, loss: float, settings: StorySettings, seconds: float) -> Progress:
    """The progress after one more step."""
    mean = loss if progress.step == 0 else 0.95 * progress.loss + 0.05 * loss
    tokens = progress.tokens + settings.batch * settings.length
    return replace(progress, step=progress.step + 1, loss=mean, tokens=tokens, seconds=seconds)


def report(progress: Progress, settings: StorySettings) -> None:
    """Print a bar with the share of the budget, the loss, the speed and the time left."""
    share = max(progress.spent(settings), 1e-6)
    left = progress.seconds * (1 - share) / share / 60
    bar = "#" * round(20 * share) + "." * (20 - round(20 * share))
    speed = progress.tokens / progress.seconds
    print(
        f"[{bar}] step {progress.step}  loss {progress.loss:.3f}  {speed:.0f} tokens/s  {left:.0f} min left", flush=True
    )


def keep(run: Run, progress: Progress) -> None:
    """Save a checkpoint and write the model folder in its present state."""
    save_checkpoint(run, progress)
    write_model(run.model, run.tokenizer, run.settings.out)


def train(settings: StorySettings) -> Progress:
    """Train until the budget is spent; a later call continues from the checkpoint."""
    run, progress = start(settings)
    count = sum(parameter.numel() for parameter in run.model.parameters())
    stories, tokens = len(run.corpus.beginnings), len(run.corpus.stream)
    print(f"{count:,} parameters; {stories:,} stories, {tokens:,} tokens", flush=True)
    began, kept = time.monotonic() - progress.seconds, progress.seconds
    run.model.train()
    while progress.spent(settings) < 1:
        loss = take_step(run, progress)
        progress = advanced(progress, loss, settings, time.monotonic() - began)
        if progress.step % settings.log_steps == 0:
            report(progress, settings)
        if progress.seconds - kept >= settings.checkpoint_seconds:
            keep(run, progress)
            kept = progress.seconds
    keep(run, progress)
    return progress
