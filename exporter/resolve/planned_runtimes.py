"""Which runtime an app on a phone should take for each of its units: edgec's own, LiteRT-LM, or a vendor's.

edgec makes two artifacts for CPUs and GPUs of Android phones that differ in who executes them. What is proposed rests
on what was executed and measured here; a phone's own bench decides.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from edgec.backends.forms import form_of
from edgec.backends.litert.npu import NPU_PACKAGES
from edgec.devices.targets import Target, all_targets
from edgec.exporter.sources.hf_config import DECODER

EDGEC, LITERT_LM, NOTHING = "edgec", "LiteRT-LM", "none"
_FORMAT: Final = "litertlm"
_CPU: Final = (
    "on an x86 CPU, Qwen3-0.6B cut to 8 layers read prompts 3 to 4 times and wrote twice as fast by edgec's kernels (4 "
    "bits in groups of 32) as by LiteRT-LM's (4 bits for a channel), which --format litertlm is for"
)
_GPU: Final = (
    "edgec runs LiteRT-LM's artifact on a GPU in software and compares its words; what it makes for Vulkan (--format "
    "pte) was executed nowhere"
)
_ONLY_VULKAN: Final = "{} has no place in a .litertlm for GPUs; what edgec makes for Vulkan was executed nowhere"
_NPU: Final = (
    "LiteRT alone reaches it, through {}; edgec makes nothing with it, and nothing of it was ever executed here"
)


@dataclass(frozen=True)
class RuntimeChoice:
    """What executes a model on one unit of a phone.

    Attributes:
        unit: ``cpu``, ``gpu`` or ``npu``.
        target: what to export for; empty where nothing is made.
        runtime: ``edgec``, ``LiteRT-LM`` or ``none``.
        reason: why, in words.
    """

    unit: str
    target: str
    runtime: str
    reason: str


def runtime_choices(planned: Target, kind: str, context: int | None, recurrent: bool) -> tuple[RuntimeChoice, ...]:
    """The runtime for each unit that LiteRT has an answer for; none where the phone is not an Android one.

    Args:
        planned: the target.
        kind: of the model.
        context: what the user asks for; None: the export's own.
        recurrent: the model keeps states beside keys and values.
    """
    same = [each for each in all_targets() if each.phone == planned.phone]
    if not any(each.format == _FORMAT for each in same):
        return ()
    return (*_processors(same, kind, context, recurrent), *_npu(planned, same))


def _processors(same: Sequence[Target], kind: str, context: int | None, recurrent: bool) -> Iterator[RuntimeChoice]:
    """CPU and GPU, whose first formats are edgec's own."""
    own = {each.unit: each for each in reversed(same) if each.format == "pte"}
    for other in (each for each in same if each.format == _FORMAT):
        if other.unit == "cpu":
            yield RuntimeChoice("cpu", own["cpu"].name, EDGEC, _CPU)
            continue
        unfit = _unfit(kind, context, recurrent, form_of(other).longest)
        if unfit:
            yield RuntimeChoice("gpu", own["gpu"].name, EDGEC, _ONLY_VULKAN.format(unfit))
        else:
            yield RuntimeChoice("gpu", other.name, LITERT_LM, _GPU)


def _unfit(kind: str, context: int | None, recurrent: bool, longest: int) -> str:
    """What of a model a ``.litertlm`` for GPUs cannot hold, in words; empty where it can."""
    if kind != DECODER:
        return f"a model of kind {kind}"
    if recurrent:
        return "a model with recurrences"
    return f"a context of {context:,} tokens" if context and context > longest else ""


def _npu(planned: Target, same: Sequence[Target]) -> Iterator[RuntimeChoice]:
    """An NPU that vendors' compilers reach through LiteRT, and nothing else that edgec has."""
    needed = NPU_PACKAGES.get(planned.vendor or "")
    if needed is not None and not any(each.unit == "npu" for each in same):
        yield RuntimeChoice("npu", "", NOTHING, _NPU.format(needed.package))
