"""``edgec verify``: whether a bundle is intact, and still gives the outputs that it gave when it was exported."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from edgec.bundle.chat_template import render_messages
from edgec.bundle.delegates import ON_CPUS
from edgec.bundle.encoding import token_ids
from edgec.bundle.folder import Bundle, open_bundle
from edgec.bundle.golden import (
    FunctionVector,
    Golden,
    OutputVector,
    golden_source,
    probe_values,
    read_golden,
)
from edgec.bundle.golden_texts import ChatVector, TextVector
from edgec.bundle.hub.located import bundle_folder
from edgec.bundle.manifest import Runtime
from edgec.devices.simulators import simulator_of
from edgec.devices.transport import parse_address
from edgec.errors import EdgecError, InputError, ToolError
from edgec.runtime_py.audio_language.prompt import SoundPrompt
from edgec.runtime_py.audio_language.session import AudioLanguageSession
from edgec.runtime_py.decoding.text_stream import streamed_text
from edgec.runtime_py.engines.choice import engine_for
from edgec.runtime_py.engines.executor import BY_METHODS
from edgec.runtime_py.engines.trial import in_another_process
from edgec.runtime_py.verify.function_outputs import function_outputs
from edgec.runtime_py.verify.report import BundleCheck, CheckStatus, VerifyReport
from edgec.runtime_py.verify.signing import signature_check
from edgec.runtime_py.vision_language.session import VisionLanguageSession

if TYPE_CHECKING:
    from edgec.runtime_py.decoding.stepper import Stepper
    from edgec.runtime_py.model import Model

V = TypeVar("V")


def verify(
    bundle: Path | str, threads: int | None = None, device: str = "host", public_key: Path | None = None
) -> VerifyReport:
    """Check every file, the runtime, and replay the golden vectors by executing the artifact.

    Args:
        bundle: the folder NAME.edgec, or its address on the hub.
        threads: CPU threads of the runtime; None leaves the choice to the runtime.
        device: ``host``, or ``qemu``: Android's arm64 runner executes the artifact.
        public_key: of whoever signed the bundle; the signature is checked before anything else of it is used.

    Raises:
        InputError: E130 to E138, the bundle is not intact; E170 or E574, the device; E601 to E605, the signature or the
            key.
        ToolError: E600, there is a key, and the library that checks signatures is not installed.
    """
    replayed_on = _device(device)
    folder = bundle_folder(bundle)
    signature = signature_check(folder, public_key)
    opened = open_bundle(folder)
    golden = read_golden(opened.golden_path) if opened.golden_path else Golden()
    files = opened.manifest.files
    intact = BundleCheck(
        "files", "passed", f"{len(files)} files, {sum(f.bytes for f in files):,} bytes: size and sha256 as listed"
    )
    schema = BundleCheck(
        "manifest", "passed", f"schema {opened.manifest.schema_version}, digest {opened.manifest.digest[:12]}…"
    )
    replayed = replayed_on(opened, golden, threads)
    return VerifyReport(opened.path, (intact, schema, signature, runtime_check(opened.manifest.runtime), *replayed))


def runtime_check(required: Runtime) -> BundleCheck:
    """Check the installed runtime's version against the one that the artifact was made for."""
    try:
        present = version(required.name)
    except PackageNotFoundError:
        return BundleCheck(
            "runtime", "unavailable", f"{required.name} {required.version} is required, none is installed here"
        )
    if present == required.version:
        return BundleCheck("runtime", "passed", f"{required.name} {present}")
    advice = "the golden vectors show whether that matters; if so, install that version or export again with this one"
    return BundleCheck(
        "runtime", "warning", f"made for {required.name} {required.version}, here is {present}: {advice}"
    )


def _replay(bundle: Bundle, golden: Golden, threads: int | None) -> list[BundleCheck]:
    """Execute the artifact in a separate process, which it may crash; one that survives is then loaded here."""
    from edgec.runtime_py.model import load

    try:
        engine = engine_for(bundle)
        executed = {} if engine in BY_METHODS else in_another_process(bundle, engine, verify=True, threads=threads)
        checks = executed.get("checks", [])
        model = load(bundle, threads)
    except EdgecError as error:
        status: CheckStatus = "unavailable" if isinstance(error, ToolError) else "failed"
        return [BundleCheck("artifact", status, f"{error.what} {error.why}")]
    simulator = simulator_of(model.bundle.manifest)
    accepted = "the runtime accepts it, with every operator it needs"
    if simulator:
        accepted = f"simulated: executed by {simulator}, not by its own unit"
    chat = [*([golden.chat] if golden.chat else []), *golden.chats]
    return [
        BundleCheck("artifact", "passed", accepted),
        _outcome("tokenizer", "text", golden.texts, lambda vector: text_fault(model, vector)),
        _outcome("chat template", "conversation", chat, lambda vector: chat_fault(model, vector)),
        *(map(BundleCheck.from_json, checks) if checks else replay_vectors(model, golden)),
    ]


def replay_vectors(model: Model, golden: Golden) -> list[BundleCheck]:
    """Replay the golden vectors of a bundle by executing its artifact in this process."""
    return [
        _outcome("output vectors", "vector", golden.outputs, lambda vector: output_fault(model, vector)),
        _outcome("function vectors", "vector", golden.functions, lambda vector: function_fault(model, vector)),
    ]


def _device(text: str) -> Callable[[Bundle, Golden, int | None], list[BundleCheck]]:
    address = parse_address(text)
    if address.kind in _REPLAYS:
        return _REPLAYS[address.kind]
    raise InputError(
        f"A bundle is not verified on {address}.",
        where="--device",
        why="golden vectors are replayed on this machine, by its own runtime or by the phone's under an emulator",
        fix=f"use --device {' or '.join(_REPLAYS)}; the app of 'edgec embed' replays them on the phone",
        code="E574",
    )


def _replay_emulated(bundle: Bundle, golden: Golden, threads: int | None) -> list[BundleCheck]:
    """Replay the output vectors by the phone's runner; ``--device host`` checks what needs no artifact."""
    from edgec.runtime_py.verify.emulated import EmulatedRunner

    runtime = bundle.manifest.runtime.backends
    if bundle.manifest.limits is None or not ON_CPUS.issuperset(runtime):
        why = f"the arm64 runner executes decoders for CPUs; this is made for {', '.join(runtime) or 'no backend'}"
        return [BundleCheck("artifact", "unavailable", why)]
    runner = EmulatedRunner.of_bundle(bundle, threads)

    def fault(vector: OutputVector) -> str | None:
        # The last token of the continuation is not fed: nothing follows it.
        fed = [*vector.prompt_ids, *vector.continuation_ids[:-1]]
        return rows_fault(runner.replay(fed, len(vector.prompt_ids)), vector)

    outcome = _outcome("output vectors", "vector", golden.outputs, fault)
    return [replace(outcome, detail=f"simulated: the arm64 runner under qemu; {outcome.detail}")]


def _outcome(name: str, noun: str, vectors: Sequence[V], fault_of: Callable[[V], str | None]) -> BundleCheck:
    """Replay vectors until one differs, as one check."""
    if not vectors:
        return BundleCheck(name, "unavailable", "the bundle holds none")
    try:
        fault = next((fault for vector in vectors if (fault := fault_of(vector))), None)
    except EdgecError as error:
        fault = f"{error.what} {error.why}"
    return (
        BundleCheck(name, "failed", fault)
        if fault
        else BundleCheck(name, "passed", f"{len(vectors)} {noun}{'s' if len(vectors) > 1 else ''} as at export")
    )


def text_fault(model: Model, vector: TextVector) -> str | None:
    """How the tokenizer differs on one text, or None. Ids must be equal, and so must what is shown of them."""
    ids = token_ids(model.tokenizer, vector.text)
    if ids != vector.ids:
        return f"{vector.label!r} gives {_first_difference(vector.ids, ids)}"
    if vector.shown is None:
        return None
    if model.decode(ids) != vector.shown:
        return f"{vector.label!r} comes back as {model.decode(ids)!r}"
    streamed = streamed_text(model.decode, ids)
    return None if streamed == vector.pieces else f"{vector.label!r} in pieces comes back as {streamed!r}"


def chat_fault(model: Model, vector: ChatVector) -> str | None:
    """How the rendered conversation or its ids differ, or None. Both must be equal."""
    if render_messages(model.tokenizer, vector.messages, clock=vector.clock) != vector.rendered:
        return f"the chat template renders a different text for {vector.label!r}"
    ids = token_ids(model.tokenizer, vector.rendered, special=False)
    return None if ids == vector.ids else f"the rendered text gives {_first_difference(vector.ids, ids)}"


def _first_difference(wanted: Sequence[int], ids: Sequence[int]) -> str:
    pairs = enumerate(zip(wanted, ids, strict=False))
    index = next((i for i, (one, other) in pairs if one != other), min(len(wanted), len(ids)))
    return f"ids {list(ids[index : index + 4])} from index {index} on instead of {list(wanted[index : index + 4])}"


def output_fault(model: Model, vector: OutputVector) -> str | None:
    """How the artifact's output differs on this machine, or None."""
    allowed = vector.tolerance * _share(model, vector)
    return rows_fault(_rows(_ready(model, vector), vector), vector.model_copy(update={"tolerance": allowed}))


def _share(model: Model, vector: OutputVector | FunctionVector) -> float:
    """The share of a vector's tolerance that is allowed here."""
    return vector.simulated_share if simulator_of(model.bundle.manifest) else 1.0


def rows_fault(rows: Iterable[Any], vector: OutputVector) -> str | None:
    """How the logits that chose each continued token ([vocabulary] each) differ from a vector, or None.

    The continuation is fed as it was, so that one differing token does not hide the rest. A token may differ where the
    margin was below the tolerance; a probed logit may move by the tolerance.
    """
    probes = {probe.position: probe for probe in vector.probes}
    for step, row in zip(range(len(vector.continuation_ids)), rows, strict=True):
        position = len(vector.prompt_ids) - 1 + step
        best, wanted = int(row.argmax()), vector.continuation_ids[step]
        if best != wanted and vector.margins[step] > vector.tolerance:
            return f"after position {position} it continues with {best} instead of {wanted}"
        probe = probes.get(position)
        if probe and max(probe.ids) >= row.size:
            return f"a probe at position {position} has an id outside the vocabulary of {row.size}"

        moved = float(np.abs(row[probe.ids] - probe.logits).max()) if probe else 0.0
        if not moved <= vector.tolerance:
            return f"a logit at position {position} moved by {moved:.3g}, more than {vector.tolerance:.3g}"
    return None


def _ready(model: Model, vector: OutputVector) -> Stepper:
    """The decoder that replays a vector; an encoder has read what it read at export, vision or audio have taken it."""
    if model.bundle.manifest.vision_language is not None:
        return _looking(model, vector)
    if model.bundle.manifest.audio_language is not None:
        return _listening(model, vector)
    if model.bundle.manifest.encoder_decoder is None:
        return model.session
    session, info = model.encoder_decoder, model.bundle.manifest.encoder_decoder
    session.read(golden_source(info, model.bundle.manifest.model.vocab_size or 0))
    return session


def _looking(model: Model, vector: OutputVector) -> Stepper:
    """The decoder of a model with vision, after it looked at the tile that it saw at export."""
    session = model.session
    assert isinstance(session, VisionLanguageSession)
    info = session.info
    tile = probe_values([1, info.channels, info.height, info.width], "float32", 0)
    session.look(vector.prompt_ids, tile)
    return session


def _listening(model: Model, vector: OutputVector) -> Stepper:
    """The decoder of a model with audio, after the window of sound that it was exported with."""
    session = model.session
    assert isinstance(session, AudioLanguageSession)
    sound = session.info.sound
    window = probe_values([1, sound.mels, sound.frames], "float32", 0)
    session.listen(vector.prompt_ids, SoundPrompt(list(vector.prompt_ids), window, (sound.frames,)))
    return session


def _rows(session: Stepper, vector: OutputVector) -> Iterator[Any]:
    """The logits [vocabulary] that chose each continued token, fed as in generation."""
    yield session.prefill(vector.prompt_ids, 0)
    for step, token in enumerate(vector.continuation_ids[:-1]):
        yield session.forward([token], len(vector.prompt_ids) + step, [0])[0]


def function_fault(model: Model, vector: FunctionVector) -> str | None:
    """How the outputs of a non-decoder model, or of an encoder beside a decoder, differ, or None."""
    methods = model.bundle.manifest.methods
    method = next((each for each in methods if each.name == (vector.method or methods[0].name)), None)
    if method is None:
        return f"the model has no method {vector.method!r}"
    try:
        inputs = {
            each.name: probe_values(method.largest(each), each.dtype, vector.bounds.get(each.name, 0))
            for each in method.inputs
        }
    except (TypeError, ValueError, OverflowError) as error:
        return f"no inputs can be made: {error}"
    outputs = function_outputs(model, method, inputs)
    for name, indices in vector.indices.items():
        if name not in outputs or max(indices) >= outputs[name].size:
            return f"the model has no output {name!r} with that many values"
        moved = np.abs(outputs[name].ravel()[indices] - np.asarray(vector.values[name]))
        allowed = np.asarray(vector.allowed(name)) * _share(model, vector)
        if not (moved <= allowed).all():
            worst = int(np.argmax(np.where(moved <= allowed, -1.0, moved)))
            return f"a value of {name!r} moved by {moved[worst]:.3g}, more than {allowed[worst]:.3g}"
    return None


_REPLAYS: Mapping[str, Callable[[Bundle, Golden, int | None], list[BundleCheck]]] = {
    "host": _replay,
    "qemu": _replay_emulated,
}
