"""The time of each operator and each kind of delegate of a decoder, in prefill and in decoding.

The engine times every instruction of the program. Instructions of one name are summed; delegates are told apart by the
matrices inside them, so that the equal delegates of all layers make one row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from edgec.bundle.entry_points import Limits
from edgec.errors import ToolError
from edgec.runtime_py.adapters.use import opened_adapter, use_adapter
from edgec.runtime_py.decoding.stepper import Logits, prefill_in_chunks
from edgec.runtime_py.engines.choice import engine_for
from edgec.runtime_py.engines.open_artifact import artifact_digest, open_executor
from edgec.runtime_py.sessions.session import decoder_limits

if TYPE_CHECKING:
    from edgec.bundle.folder import Bundle
    from edgec.bundle.pte_layout import DelegateCall
    from edgec.runtime_py.engines.engine import EngineSession, Instruction

OUTSIDE = "outside instructions"
_NO_TIMES: Final[Mapping[str, tuple[str, str]]] = {
    "executorch": (
        "ExecuTorch's Python binding executes this artifact here, and it does not time operators",
        "install a C++ compiler; 'edgec doctor' says what is missing",
    ),
    "apple": (
        "Core ML or a delegate of ExecuTorch executes this artifact here, and it gives no times of operators",
        "measure without --profile; Xcode's Core ML report has the time of each operator of a package",
    ),
    "simulated": ("a simulator executes this artifact here", "measure it on its target, without --profile"),
}
"""Why an engine has no profile, and what to do."""
CallPlace = tuple[int, int]


@dataclass(frozen=True)
class OperatorTime:
    """The time of one operator or kind of delegate.

    Attributes:
        operator: its name, or the delegate's kind; ``OUTSIDE`` is what no instruction accounts for.
        calls: per repetition; 0 for ``OUTSIDE``.
        ms: per repetition, wall.
        share: of the repetition's time, 0..1.
    """

    operator: str
    calls: float
    ms: float
    share: float


@dataclass(frozen=True)
class PhaseProfile:
    """The profile of one repetition of a phase, averaged over several.

    Attributes:
        phase: ``prefill`` of ``tokens`` tokens, or ``decode`` of one.
        repetitions: how many were averaged.
        ms: wall, timing of the instructions included.
        operators: the most expensive first.
    """

    phase: str
    tokens: int
    repetitions: int
    ms: float
    operators: tuple[OperatorTime, ...]


class ProfiledDecoder:
    """A decoder in edgec's engine that times its instructions."""

    def __init__(self, bundle: Bundle, limits: Limits, adapter: str | None = None) -> None:
        """Load the artifact; ``adapter``: the file of an adapter that is added.

        Raises:
            ToolError: E350, this artifact runs without edgec's engine here.
            InputError: E695 or E696, the adapter is at fault.
        """
        if (engine := engine_for(bundle)) != "edgec":
            raise _no_engine(bundle, _NO_TIMES[engine])
        digest = artifact_digest(bundle)
        executor: Any = open_executor("edgec", bundle.artifact_path, digest=digest, profile=True)
        self.limits = limits
        self._session: EngineSession = executor
        self._adapter = None if adapter is None else opened_adapter(adapter, bundle)
        use_adapter(self._session, self._adapter)

    def forward(self, tokens: Sequence[int], start: int, rows: Sequence[int]) -> Logits:
        """Feed ``tokens`` at positions ``start``.. by the profiled engine, and return the logits of ``rows``."""
        positions = np.arange(start, start + len(tokens), dtype=np.int64)
        inputs = (np.array([tokens], dtype=np.int64), positions, np.array(rows, dtype=np.int64))
        logits: Logits = self._session.run(inputs)[0][0]
        return logits

    def prefill(self, tokens: Sequence[int], start: int) -> Logits:
        """Feed any number of tokens chunk by chunk, and return the last one's logits, float32 [vocabulary]."""
        return prefill_in_chunks(self, tokens, start)

    def reusable(self, _tokens: Sequence[int]) -> int:
        """Reuse nothing, so that every repetition does the same work."""
        return 0

    def profile(self) -> tuple[Instruction, ...]:
        """The instructions executed since the last call."""
        return self._session.profile(reset=True)


def _no_engine(bundle: Bundle, why_and_fix: tuple[str, str]) -> ToolError:
    why, fix = why_and_fix
    return ToolError("Profiling needs edgec's engine.", str(bundle.path), why, fix, "E350")


def profile_phases(
    decoder: ProfiledDecoder, names: Mapping[CallPlace, str], prompt: Sequence[int], new_tokens: int, repetitions: int
) -> list[PhaseProfile]:
    """Profile prefill and decoding.

    Args:
        decoder: a loaded decoder.
        names: names of the instructions, by (chain, instruction).
        prompt: token ids.
        new_tokens: tokens decoded after it, one repetition each.
        repetitions: prefills that count; one more before them does not.
    """
    decoder.prefill(prompt, 0)
    token, first = prompt[0], len(prompt)
    decoder.forward([token], first, [0])

    def decode(index: int) -> None:
        decoder.forward([token], first + index, [0])

    def prefill(_index: int) -> None:
        decoder.prefill(prompt, 0)

    return [
        _phase(decoder, names, ("prefill", len(prompt)), prefill, repetitions),
        _phase(decoder, names, ("decode", 1), decode, new_tokens),
    ]


def _phase(
    decoder: ProfiledDecoder,
    names: Mapping[CallPlace, str],
    what: tuple[str, int],
    work: Callable[[int], None],
    repetitions: int,
) -> PhaseProfile:
    decoder.profile()
    began = perf_counter()
    for index in range(repetitions):
        work(index)
    ms = 1e3 * (perf_counter() - began) / repetitions
    rows = operator_times(decoder.profile(), names, repetitions, ms)
    return PhaseProfile(*what, repetitions, ms, rows)


def operator_times(
    instructions: Iterable[Instruction], names: Mapping[CallPlace, str], repetitions: int, ms: float
) -> tuple[OperatorTime, ...]:
    """The instructions summed by name, and what remains of ``ms``, the time of a repetition."""
    calls, spent = dict[str, int](), dict[str, float]()
    for step in instructions:
        name = names.get((step.chain, step.index), step.name)
        calls[name] = calls.get(name, 0) + step.calls
        spent[name] = spent.get(name, 0.0) + step.total_ns / 1e6 / repetitions
    rows = [OperatorTime(name, calls[name] / repetitions, time, time / ms) for name, time in spent.items()]
    rest = ms - sum(spent.values())
    return (*sorted(rows, key=lambda row: -row.ms), OperatorTime(OUTSIDE, 0.0, rest, rest / ms))


def instruction_names(artifact: Path) -> dict[CallPlace, str]:
    """The name of each instruction of ``forward``: its operator, or its delegate's backend and matrices."""
    from edgec.bundle.pte_layout import read_calls

    return {place: _name(call) for place, call in read_calls(artifact).items()}


def _name(call: DelegateCall) -> str:
    if call.constants is None:
        return call.name if "::" in call.name else f"delegate {call.name}"
    matrices = [int(np.prod(constant.shape)) for constant in call.constants if len(constant.shape) == 2]
    if not matrices:
        return f"delegate {call.name} without matrices"
    plural = "matrix" if len(matrices) == 1 else "matrices"
    return f"delegate {call.name}: {len(matrices)} {plural}, {sum(matrices) / 1e6:.4g} M weights"


def profile_bundle(
    bundle: Bundle, prompt: Sequence[int], new_tokens: int, repetitions: int, adapter: str | None = None
) -> dict[str, Any]:
    """Profile both phases of a decoder's bundle, as plain data; ``adapter``: the file of one that is added.

    Raises:
        ToolError: E350.
        InputError: E155 not a decoder, E157 the runtime refuses the artifact.
    """
    decoder = ProfiledDecoder(bundle, decoder_limits(bundle), adapter)
    phases = profile_phases(decoder, instruction_names(bundle.artifact_path), prompt, new_tokens, repetitions)
    return {"phases": [asdict(phase) for phase in phases]}
