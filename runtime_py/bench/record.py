"""The record of a measurement: one JSON object per line, one schema for every device.

A file holds the records of one run. Null is unavailable. Every record carries the fields by which runs are compared, so
a single line taken out of its file still says what it is. Figures have ranges (``devices/answers.py``): a record of
figures that cannot have been measured is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, model_validator

from edgec.bundle.atomic import typed_os_errors
from edgec.bundle.decoder_numbers import DecoderNumbers
from edgec.devices.answers import (
    AnswerCount,
    AnswerFault,
    AnswerShare,
    Bytes,
    Celsius,
    Energy,
    Gap,
    Megahertz,
    Milliseconds,
    PlainText,
    PromptSpeed,
    Seconds,
    Speed,
    Threads,
    parsed,
)
from edgec.devices.transport import DeviceFacts
from edgec.errors import InputError

SCHEMA_VERSION = 1


class RecordPart(BaseModel):
    """Base of all records: immutable, unknown fields refused, no infinite numbers."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, protected_namespaces=())


class Comparability(RecordPart):
    """The fields that must be equal for two runs to be compared; the recipe may differ.

    Attributes:
        machine: processor and core count.
        model: name and revision.
        model_parameters: number of the source model's parameters.
        threads: size of the runtime's thread pool.
        cores: the CPU cores that were asked for; None: all.
        runtime: name and version.
        shown: what comes with every prompt of a model of images or audio; None: nothing.
    """

    schema_version: Literal[1] = 1
    device: PlainText
    machine: PlainText
    model: PlainText
    model_parameters: Annotated[int, Field(ge=0, le=1 << 50)]
    prompt_tokens: AnswerCount
    new_tokens: AnswerCount
    threads: Threads
    runtime: PlainText
    cores: PlainText | None = None
    shown: PlainText | None = None


KvBits = Literal[4, 8, 16, 32]


class MeasuredModel(RecordPart):
    """What decides how fast the bundle's decoder runs.

    Attributes:
        numbers: its layers and parameters.
        read_bytes: weights that one decoded token reads.
        kernels: what multiplies its matrices: edgec's own kernels, or the backend.
        kv_bits: of cached keys and values.
        state_bytes: of what recurrences remember.
        call_tokens: the most tokens of a prompt that one call takes.
    """

    numbers: DecoderNumbers
    read_bytes: Bytes
    kernels: PlainText
    kv_bits: KvBits
    state_bytes: Bytes
    call_tokens: AnswerCount


class Subject(RecordPart):
    """The bundle that was measured.

    Attributes:
        adapter: the digest of the adapter that was added, or None.
        measured: of a decoder's bundle that says it; None in older ones.
    """

    name: PlainText
    digest: PlainText
    recipe: PlainText
    target: PlainText
    artifact_bytes: Bytes
    context: AnswerCount
    adapter: PlainText | None = None
    measured: MeasuredModel | None = None


class BenchRecord(RecordPart):
    """The fields that every line has.

    Attributes:
        run: equal for all lines of one run.
        obtained: how the figures of this line were obtained.
        simulated: an emulator executed the artifact; its times are kept as a trace and are not speeds.
    """

    schema_version: Literal[1] = 1
    run: PlainText
    comparability: Comparability
    subject: Subject
    obtained: PlainText
    simulated: bool = False


class RunRecord(BenchRecord):
    """The conditions of the run.

    Attributes:
        before, after: the device's facts before and after the run.
        cool_down_s: pause before each repetition.
    """

    kind: Literal["run"] = "run"
    started: PlainText
    edgec_version: PlainText
    warmups: AnswerCount
    repetitions: AnswerCount
    ignore_eos: bool
    before: DeviceFacts
    after: DeviceFacts
    energy_j: Energy | None
    cool_down_s: Seconds = 0.0


class LoadRecord(BenchRecord):
    """One load in a fresh process. ``resident_share``: share of the artifact in the page cache before it, 0..1."""

    kind: Literal["load"] = "load"
    state: Literal["cold", "warm"]
    load_ms: Milliseconds
    resident_share: AnswerShare | None


class MemoryRecord(BenchRecord):
    """Peak resident set of a process that loads and generates; ``baseline``: the same process before the load."""

    kind: Literal["memory"] = "memory"
    peak_rss_bytes: Bytes
    baseline_rss_bytes: Bytes

    @model_validator(mode="after")
    def _peak_is_one(self) -> Self:
        if not 0 < self.baseline_rss_bytes <= self.peak_rss_bytes:
            raise ValueError("the peak is below what was there before the load, or nothing was")
        return self


class RepetitionRecord(BenchRecord):
    """One measured generation. ``token_ms``: time from each new token to the next."""

    kind: Literal["repetition"] = "repetition"
    index: AnswerCount
    ttft_ms: Milliseconds
    prefill_tokens_per_s: PromptSpeed
    decode_tokens_per_s: Speed | None
    token_ms: list[Gap]
    tokens: AnswerCount
    finish_reason: PlainText


class SustainedRecord(BenchRecord):
    """A window of at least a second of a sustained run. ``elapsed_s``: from the run's start to the window's."""

    kind: Literal["sustained"] = "sustained"
    elapsed_s: Seconds
    decode_tokens_per_s: Speed
    clock_mhz: Megahertz | None
    temperature_c: Celsius | None


class OperatorCost(RecordPart):
    """The cost of an operator or kind of delegate, per prefill or per decoded token. ``share``: of the whole, 0..1."""

    operator: PlainText
    calls: float
    ms: float
    share: float


class ProfileRecord(BenchRecord):
    """The time of a phase by operator, averaged over ``repetitions``.

    Attributes:
        phase: ``prefill`` of ``tokens`` tokens at once, or ``decode`` of one.
        ms: wall, for all tokens of the phase; timing the operators is included.
        operators: the most expensive first; the last row is the time outside of them.
    """

    kind: Literal["profile"] = "profile"
    phase: Literal["prefill", "decode"]
    tokens: int
    repetitions: int
    ms: float
    operators: list[OperatorCost]


AnyRecord = RunRecord | LoadRecord | MemoryRecord | RepetitionRecord | SustainedRecord | ProfileRecord
_MAX_LINE = 16 << 20
_ADAPTER: TypeAdapter[AnyRecord] = TypeAdapter(Annotated[AnyRecord, Field(discriminator="kind")])


def write_records(records: Sequence[AnyRecord], path: Path) -> None:
    """Write one run as JSON lines.

    Raises:
        InputError: E121 the path cannot be written, E122 the disk is full.
    """
    with typed_os_errors(path):
        path.write_text(record_lines(records))


def record_lines(records: Sequence[AnyRecord]) -> str:
    """One run as JSON lines."""
    return "".join(record.model_dump_json() + "\n" for record in records)


def read_record(line: str) -> AnyRecord:
    """Read one line that an app on a device wrote.

    Raises:
        AnswerFault: it is not a record, or its figures cannot have been measured.
    """
    return parsed(_ADAPTER, line)


def holds_record(path: Path) -> bool:
    """Whether a file begins with a record, so that a new run may take its place."""
    try:
        with path.open("rb") as file:
            read_record(file.readline(_MAX_LINE).decode())
    except (OSError, ValueError, InputError):
        return False
    return True


def read_records(path: Path) -> list[AnyRecord]:
    """Read the records of one run from a file.

    Raises:
        InputError: E161, the file is missing, has another schema, or does not hold exactly one run.
    """
    try:
        lines = path.read_text().splitlines()
        records = [read_record(line) for line in lines if line.strip()]
    except (OSError, UnicodeDecodeError, AnswerFault) as cause:
        raise _unreadable(path, str(cause)) from cause
    if len({(record.run, record.comparability) for record in records}) != 1:
        raise _unreadable(path, "it holds no run, or several runs")
    return records


def _unreadable(path: Path, why: str) -> InputError:
    return InputError(
        "This is not the record of one benchmark run.",
        str(path),
        why,
        "give a file that 'edgec bench --out' wrote",
        "E161",
    )
