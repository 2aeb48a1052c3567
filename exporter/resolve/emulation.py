"""Whether the phone's own runner executes the artifact under an emulator, as a rung of the parity ladder.

The cost of the rung is counted in products: the model's weights times the tokens that are fed. What the rung is:
``exporter/parity/emulated.py``.
"""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING, Final

from edgec.devices.qemu.emulator import find_emulator
from edgec.engine.compile.abi import ARM64
from edgec.engine.compile.build import build_runner, find_build
from edgec.errors import InputError, ToolError
from edgec.exporter.parity.emulated import Emulation, emulated_calls, fed_tokens
from edgec.exporter.progress import Progress

if TYPE_CHECKING:
    from edgec.exporter.request import ExportRequest

# Products that an export computes under the emulator unasked, and those that it computes at most: an AMD EPYC takes a
# second of CPU time for 0.3 to 0.5 billion (measured), and the runner is given 30 minutes.
AUTOMATIC: Final = 4_000_000_000
MOST: Final = 250_000_000_000
_OPTION = "--emulate"


def choose_emulation(request: ExportRequest, asked: bool | None, progress: Progress) -> Emulation:
    """Decide before any work; where the rung was asked for, the runner is compiled.

    Args:
        request: all but this choice.
        asked: True, the rung must run; False, it must not; None, it runs where the emulator and the runner are there
            and the model is small enough.
        progress: told how far the compilation is.

    Raises:
        InputError: E536, asked for a model that is too large; E537, for a target or a model that the runner cannot run.
        ToolError: asked for, and E572 no emulator, E311 no cross compiler, E312 it failed, E571 no arm64 libraries.
    """
    absent = _no_rung(request)
    unfit = absent or ("" if request.source.kind == "decoder" else "the runner executes decoders only")
    if asked and unfit:
        raise _refusal("The phone's runner cannot execute this artifact under an emulator.", unfit, "E537")
    if absent:
        return Emulation()
    if unfit or asked is False:
        return Emulation(why_not=unfit or "--no-emulate")
    large = _too_large(request, MOST if asked else AUTOMATIC)
    if not asked:
        why = large or _lacking()
        return Emulation(runs=not why, why_not=why)
    if large:
        raise _refusal("The model is too large to be executed under an emulator.", large, "E536")
    _compile(progress)
    return Emulation(runs=True)


def _no_rung(request: ExportRequest) -> str:
    """Why the ladder has no such rung: the artifact is not for a phone's CPU, or this machine's is of that family."""
    if not request.form.laid_out or request.target.processor != ARM64.name:
        return "it is not a .pte for the CPU of a phone"
    own = platform.machine() in (ARM64.name, "aarch64")
    return "this machine's own CPU has the phone's instructions, and the ladder executes the artifact on it" * own


def _too_large(request: ExportRequest, most: int) -> str:
    weights, tokens = sum(request.source.weight_sizes), fed_tokens(emulated_calls(request.probe.plan))
    if weights * tokens <= most:
        return ""
    counted = f"{weights:,} weights x {tokens} tokens are {weights * tokens / 1e9:.3g} billion products"
    asking = f"; {_OPTION} allows {MOST / 1e9:,.0f}" if most < MOST else ""
    return f"{counted}, more than {most / 1e9:,.0f}{asking}"


def _lacking() -> str:
    """What the rung lacks on this machine; nothing is compiled or downloaded unasked."""
    try:
        find_emulator()
    except ToolError as error:
        return f"qemu-aarch64 is not installed ({error.fix})"
    return "" if find_build(abi=ARM64) else "the arm64 runner is not compiled (edgec runner build --abi arm64)"


def _compile(progress: Progress) -> None:
    """Compile the runner unless it is compiled already."""
    find_emulator()
    said = "files of the arm64 runner compiled, once"
    build_runner(abi=ARM64, compiled=lambda done, files: progress.step(done / files, f"{done} of {files} {said}"))


def _refusal(what: str, why: str, code: str) -> InputError:
    return InputError(what, where=_OPTION, why=why, fix=f"leave {_OPTION} out", code=code)
