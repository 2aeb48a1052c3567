"""What training minimises: the distance from the teacher, and the negative log-likelihood of the text."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.nn import functional

_ROWS = 512


def distillation(student: Tensor, teacher: Tensor, temperature: float) -> Tensor:
    """Mean KL(teacher || student) per token, nats x temperature^2, so that gradients keep their size.

    Args:
        student: logits [P, V].
        teacher: logits [P, W]; of different widths the rest are padding, which is left out.
        temperature: both are divided by it.
    """
    width = min(student.shape[-1], teacher.shape[-1])
    student, teacher = student[..., :width], teacher[..., :width]
    parts = [
        functional.kl_div(
            functional.log_softmax(student_logits.float() / temperature, -1),
            functional.log_softmax(teacher_logits.float() / temperature, -1),
            reduction="sum",
            log_target=True,
        )
        for student_logits, teacher_logits in zip(student.split(_ROWS), teacher.split(_ROWS), strict=True)
    ]
    return torch.stack(parts).sum() / len(student) * temperature**2


def text_loss(student: Tensor, targets: Tensor) -> Tensor:
    """Mean negative log-likelihood of the text's next tokens, nats.

    Args:
        student: logits [P, V].
        targets: int64 [P].
    """
    return functional.cross_entropy(student.float(), targets)


def hidden_match(student: Mapping[int, Tensor], teacher: Mapping[int, Tensor]) -> Tensor:
    """Mean squared distance of attention outputs, in units of the teacher's mean square; mean over the layers."""
    parts = [
        (student[layer].float() - target.float()).square().mean() / target.float().square().mean().clamp_min(1e-12)
        for layer, target in teacher.items()
        if layer in student
    ]
    return torch.stack(parts).mean()
