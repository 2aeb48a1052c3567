"""The training loop: a step is some forward and backward passes and one update; some are followed by a measurement."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from edgec.errors import InputError
from edgec.exporter.adapt.batches import Batches
from edgec.exporter.adapt.checkpoint import Point, restore, save
from edgec.exporter.adapt.losses import distillation, hidden_match, text_loss
from edgec.exporter.adapt.optimiser import MovingAverage, learning_rate_share, make_optimiser, set_rate
from edgec.exporter.adapt.settings import Settings


@dataclass(frozen=True)
class TrainingEvent:
    """How far training is.

    Attributes:
        step: updates done.
        steps: of the whole run.
        loss: of the last update, nats.
        held_out: last measured, nats per token.
        tokens_per_s: of this process group, measured since this run began.
        eta_s: estimated.
    """

    step: int
    steps: int
    loss: float
    held_out: float
    tokens_per_s: float
    eta_s: float


TrainingListener = Callable[[TrainingEvent], None]


@dataclass
class Run:
    """One training run.

    Attributes:
        accelerator: accelerate's; knows devices and processes.
        learner: the student, a TrainableDecoder.
        teacher: the original, a TrainableDecoder; None when nothing is learned from it.
        batches: the text.
        settings: all numbers.
        file: the checkpoint.
        key: fingerprint of the run.
        listener: told of every step.
    """

    accelerator: Any
    learner: nn.Module
    teacher: nn.Module | None
    batches: Batches
    settings: Settings
    file: Path
    key: str
    listener: TrainingListener

    def __post_init__(self) -> None:
        """Put everything on its device, and continue where an earlier run stopped."""
        self.optimizer = make_optimiser(self.learner, self.settings)
        self.average = MovingAverage.of(self.learner, self.settings.ema)
        self.state = restore(self.file, self.key, self.learner, self.optimizer, self.average.values)
        self.model, self.optimizer = self.accelerator.prepare(self.learner, self.optimizer)
        self.average.values = {name: value.to(self.accelerator.device) for name, value in self.average.values.items()}
        if self.teacher is not None:
            self.teacher.to(self.accelerator.device).requires_grad_(False)

    def train(self) -> list[Point]:
        """Train to the last step; the learner then holds the weights to write.

        Raises:
            InputError: E512, a gradient or a measured loss is not finite; the last checkpoint is kept.
        """
        started, first = time.perf_counter(), self.state.step
        before = self.state.seconds
        if not self.state.curve:
            self._measure()
        while self.state.step < self.settings.steps:
            loss = self._step()
            self.state.losses.append(loss)
            self.state.step += 1
            self.state.seconds = before + time.perf_counter() - started
            if self._due(self.settings.evaluate_every):
                self._measure()
            if self.settings.checkpoint_every and self._due(self.settings.checkpoint_every) and self._is_finite():
                self._save()
            self._tell(loss, self.state.step - first, time.perf_counter() - started)
        self.average.settle()
        return self.state.curve

    def _is_finite(self) -> bool:
        """Whether the weights are numbers still: those of a checkpoint must be; the next step says what happened."""
        trained = [p.detach().isfinite().all() for p in self.learner.parameters() if p.requires_grad]
        return bool(torch.stack(trained).all())

    def _due(self, every: int) -> bool:
        return self.state.step % every == 0 or self.state.step == self.settings.steps

    def _step(self) -> float:
        settings, share = self.settings, learning_rate_share(self.state.step, self.settings)
        set_rate(self.optimizer, share)
        self.optimizer.zero_grad(set_to_none=True)
        total = 0.0
        for micro in range(settings.accumulation):
            last = micro == settings.accumulation - 1
            with _sync_if_last(self.accelerator, self.model, last):
                with step_arithmetic(self.accelerator.device):
                    loss = self._loss(self._rows(micro)) / settings.accumulation
                self.accelerator.backward(loss)
            total += float(loss.detach())
        norm = self.accelerator.clip_grad_norm_(self.model.parameters(), settings.clip)
        if not math.isfinite(float(norm)):
            raise _diverged(self.state.step + 1)
        self.optimizer.step()
        self.average.update(self.state.step)
        return float(self.accelerator.reduce(torch.tensor(total, device=self.accelerator.device), "mean"))

    def _rows(self, micro: int) -> Tensor:
        settings, processes = self.settings, self.accelerator.num_processes
        number = (self.state.step * settings.accumulation + micro) * processes + self.accelerator.process_index
        return self.batches.at(number, settings.batch, settings.length).to(self.accelerator.device)

    def _loss(self, rows: Tensor) -> Tensor:
        settings = self.settings
        logits, layers = self.model(rows[:, :-1])
        student_logits = logits.flatten(0, 1)
        parts = []
        if settings.text_loss:
            parts.append(settings.text_loss * text_loss(student_logits, rows[:, 1:].flatten()))
        if self.teacher is not None:
            with torch.no_grad():
                teacher_logits, teacher_layers = self.teacher(rows[:, :-1])
            if settings.text_loss < 1:
                share = 1 - settings.text_loss
                parts.append(share * distillation(student_logits, teacher_logits.flatten(0, 1), settings.temperature))
            if settings.hidden_loss:
                parts.append(settings.hidden_loss * hidden_match(layers, teacher_layers))
        return torch.stack(parts).sum()

    def _measure(self) -> None:
        """A point of the curve, measured with the weights that would be written."""
        settings, state = self.settings, self.state
        with self.average.in_place():
            held_out, divergence = measure(self.learner, self.teacher, self.batches.held_out, settings.batch)
        if not (math.isfinite(held_out) and math.isfinite(divergence or 0.0)):
            raise _diverged(state.step)
        loss = sum(state.losses) / len(state.losses) if state.losses else None
        seen = state.step * settings.batch * settings.accumulation * settings.length * self.accelerator.num_processes
        state.curve.append(Point(state.step, seen, loss, held_out, divergence))
        state.losses = []

    def _save(self) -> None:
        if self.accelerator.is_main_process:
            plain = getattr(self.optimizer, "optimizer", self.optimizer)
            save(self.file, self.key, self.state, self.learner, plain, self.average.values)
        self.accelerator.wait_for_everyone()

    def _tell(self, loss: float, done: int, seconds: float) -> None:
        settings = self.settings
        tokens = settings.batch * settings.accumulation * settings.length * self.accelerator.num_processes
        left = (settings.steps - self.state.step) * seconds / done
        event = TrainingEvent(
            self.state.step, settings.steps, loss, self.state.curve[-1].held_out, tokens * done / seconds, left
        )
        if self.accelerator.is_main_process:
            self.listener(event)


def _diverged(step: int) -> InputError:
    return InputError(
        what="training diverged; nothing was written",
        where=f"step {step}",
        why="a gradient or a loss is not finite: the learning rates are too high, or text or model have extreme values",
        fix="give lower --learning-rate and --scale-rate, with --restart",
        code="E512",
    )


def step_arithmetic(device: torch.device) -> AbstractContextManager[Any]:
    """Products of matrices of a step: bfloat16 on a GPU, float32 on a CPU. What is measured is float32 on both."""
    return torch.autocast(device.type, torch.bfloat16) if device.type == "cuda" else nullcontext()


def _sync_if_last(accelerator: Any, model: nn.Module, last: bool) -> Any:
    """Processes exchange gradients in the last pass of an update only."""
    return nullcontext() if last or accelerator.num_processes == 1 else accelerator.no_sync(model)


@torch.no_grad()
def measure(model: nn.Module, teacher: nn.Module | None, held_out: Tensor, batch: int) -> tuple[float, float | None]:
    """Loss on held-out text, and distance from the teacher; both in nats per token, float32 arithmetic.

    Args:
        model: a TrainableDecoder.
        teacher: a TrainableDecoder, or None.
        held_out: int64 [M, length + 1].
        batch: sequences at a time.
    """
    nll, distance, count = 0.0, 0.0, 0
    device = next(model.parameters()).device
    for rows in held_out.to(device).split(batch):
        logits = model(rows[:, :-1])[0].flatten(0, 1)
        nll += float(text_loss(logits, rows[:, 1:].flatten())) * len(logits)
        if teacher is not None:
            distance += float(distillation(logits, teacher(rows[:, :-1])[0].flatten(0, 1), 1.0)) * len(logits)
        count += len(logits)
    return nll / count, distance / count if teacher is not None else None
