"""The training loop: it begins or resumes a run, takes steps until the budget is spent, and writes the model."""

import time

import numpy as np
import torch
from tokenizers import Tokenizer

from examples.training.files import export_model, load_checkpoint, save_checkpoint
from examples.training.model import build_model, build_optimizer, held_out_loss, learning_rate, loss_of, spent
from examples.training.settings import HeldOutLoss, Progress, Session, Settings, Shape
from examples.training.text import training_passages
from examples.training.tokens import BOS, build_corpus, dialogue_row, passage_row, token_id, train_tokenizer


def batch_at(session: Session, step: int) -> torch.Tensor:
    """Return the batch of a step, which depends only on the seed and the step, so that resuming is exact."""
    settings, corpus = session.settings, session.corpus
    rng = np.random.default_rng([settings.seed, step])
    bos, share = token_id(session.tokenizer, BOS), settings.dialogue_share if corpus.dialogues else 0.0
    rows = [
        dialogue_row(corpus, settings.length, rng)
        if rng.random() < share
        else passage_row(corpus, bos, settings.length, rng)
        for _ in range(settings.batch)
    ]
    return torch.from_numpy(np.stack(rows))


def start(settings: Settings, shape: Shape) -> tuple[Session, Progress]:
    """Prepare a run, from its checkpoint where there is one."""
    torch.set_num_threads(settings.threads)
    torch.manual_seed(settings.seed)
    saved = load_checkpoint(settings)
    passages = training_passages(settings.texts)
    tokenizer = Tokenizer.from_str(saved["tokenizer"]) if saved else train_tokenizer(passages, shape.vocabulary)
    model = build_model(shape, tokenizer)
    optimizer = build_optimizer(model, settings)
    if saved:
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
    corpus = build_corpus(tokenizer, settings.texts, settings.length)
    progress = Progress(**saved["progress"]) if saved else Progress()
    return Session(settings, tokenizer, corpus, model, optimizer), progress


def take_step(session: Session, progress: Progress) -> float:
    """Take one step of the optimizer and return the loss before it."""
    rate = learning_rate(session.settings, spent(session.settings, progress))
    for group in session.optimizer.param_groups:
        group["lr"] = rate
    loss = loss_of(session.model, batch_at(session, progress.step))
    session.optimizer.zero_grad(set_to_none=True)
    loss.backward()  # type: ignore[no-untyped-call]
    torch.nn.utils.clip_grad_norm_(session.model.parameters(), 1.0)
    session.optimizer.step()
    return loss.item()


def report(session: Session, progress: Progress, loss: float) -> None:
    """Print one line of progress."""
    share = max(spent(session.settings, progress), 1e-6)
    left = progress.seconds * (1 - share) / share / 60
    print(
        f"step {progress.step}  {100 * share:.1f} %  loss {loss:.4f}  "
        f"{progress.tokens / progress.seconds:.0f} tokens/s  {left:.1f} min left",
        flush=True,
    )


def measure(session: Session) -> HeldOutLoss:
    """Measure the model of a run on the held-out text and print the result."""
    bos = token_id(session.tokenizer, BOS)
    result = held_out_loss(session.model, session.corpus, bos, session.settings.length)
    print(f"held-out {result.nats_per_token:.4f} nats/token  {result.bits_per_byte:.4f} bits/byte", flush=True)
    return result


def keep(session: Session, progress: Progress) -> None:
    """Measure, save a checkpoint and write the model folder in its present state."""
    measure(session)
    save_checkpoint(session, progress)
    export_model(session, session.settings.out)


def run(session: Session, progress: Progress) -> Progress:
    """Train until the budget is spent."""
    settings, last_kept = session.settings, progress.seconds
    began = time.monotonic() - progress.seconds
    session.model.train()
    while spent(settings, progress) < 1:
        loss = take_step(session, progress)
        tokens = progress.tokens + settings.batch * settings.length
        progress = Progress(step=progress.step + 1, seconds=time.monotonic() - began, tokens=tokens)
        if progress.step % settings.log_steps == 0:
            report(session, progress, loss)
        if progress.seconds - last_kept >= settings.checkpoint_seconds:
            keep(session, progress)
            last_kept = progress.seconds
    return progress


def train(settings: Settings, shape: Shape | None = None) -> tuple[Progress, HeldOutLoss]:
    """Train the example model and write its folder."""
    session, progress = start(settings, shape or Shape())
    count = sum(parameter.numel() for parameter in session.model.parameters())
    print(f"{count:,} parameters, {len(session.corpus.stream):,} tokens of text", flush=True)
    progress = run(session, progress)
    save_checkpoint(session, progress)
    export_model(session, settings.out)
    return progress, measure(session)
