"""How a published bundle is run: one paragraph for each runtime that its artifact can run in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, get_args

from edgec.bundle.delegates import ON_CPUS, OWN_DELEGATES
from edgec.bundle.hub.address import HubAddress
from edgec.bundle.manifest import Manifest
from edgec.devices.simulators import simulator_elsewhere
from edgec.devices.targets import load_target
from edgec.errors import InputError
from edgec.exporter.publish.markdown import code
from edgec.runtime_py.runners.executorch_llm import RunnerClass, runner_name


@dataclass(frozen=True)
class Way:
    """One runtime.

    Attributes:
        title: of its paragraph.
        fits: whether a bundle's artifact can run in it.
        told: the paragraph.
    """

    title: str
    fits: Callable[[Manifest], bool]
    told: Callable[[Manifest, HubAddress], str]


def ways(manifest: Manifest, address: HubAddress) -> str:
    """The paragraphs of the runtimes that this bundle's artifact can run in."""
    fitting = [way for way in WAYS if way.fits(manifest)]
    return "\n\n".join(f"### {way.title}\n\n{way.told(manifest, address)}" for way in fitting)


def command(manifest: Manifest, address: HubAddress) -> str:
    """The command that shows most of what a bundle does."""
    if manifest.vision_language is not None:
        return f'edgec run {address} --image photo.jpg -p "What is this?"'
    if manifest.audio_language is not None:
        return f'edgec run {address} --audio speech.wav -p "What is said?"'
    if manifest.encoder_decoder is not None and manifest.encoder_decoder.sound_input is not None:
        return f"edgec run {address} --audio speech.wav"
    if manifest.model.task == "sentence-similarity":
        return f'edgec run {address} --embed -p "A red ball in the park."'
    if manifest.limits is not None or manifest.encoder_decoder is not None:
        return f'edgec run {address} -p "Once upon a time"'
    return f"edgec inspect {address}"


def _computer(manifest: Manifest, address: HubAddress) -> str:
    checked = f"edgec verify {address}    # executes it against its golden vectors"
    lines = [f"```bash\n{command(manifest, address)}\n{checked}\n```"]
    if manifest.limits is not None:
        text = f'model = edgec.load("{address}")\nprint(model.generate("Once upon a time", max_new_tokens=40).text)'
        lines.append(f"```python\nimport edgec\n\n{text}\n```")
    lines.append("Files are fetched once, checked by size and sha256, and kept in edgec's cache.")
    if simulator := simulator_elsewhere(manifest):
        lines.append(f"A computer executes this artifact by {simulator}: the answers count, the speed does not.")
    return "\n\n".join(lines)


def _runs_here(manifest: Manifest) -> bool:
    """Whether edgec executes the artifact on a computer: a .pte for CPUs, or what a simulator reads."""
    for_cpus = manifest.format == "pte" and ON_CPUS.issuperset(manifest.runtime.backends)
    return for_cpus or bool(simulator_elsewhere(manifest))


def _for_apps(platform: str) -> Callable[[Manifest], bool]:
    """Whether ``edgec embed`` writes a bundle for a platform."""

    def fits(manifest: Manifest) -> bool:
        reads = manifest.encoder_decoder
        held = manifest.audio_language is None and (reads is None or reads.sound_input is not None)
        return held and system_of(manifest) == platform

    return fits


def system_of(manifest: Manifest) -> str:
    """The operating system of a bundle's target; empty where this edgec does not know the target."""
    try:
        return load_target(manifest.target).os
    except InputError:
        return ""


def _app(platform: str, what: str) -> Callable[[Manifest, HubAddress], str]:
    return lambda _, address: (
        f"```bash\nedgec embed {address} --platform {platform}\n```\n\n"
        f"writes {what} around the bundle: typed calls, tokenizer, a sample and a bench app."
    )


def _wrote_in(kind: RunnerClass) -> Callable[[Manifest], bool]:
    """Whether a runner of ExecuTorch wrote edgec's words when a bundle was made."""
    name = runner_name(kind)
    return lambda manifest: any(rung.stage == name and rung.gated and rung.passed for rung in manifest.parity)


def _executorch_runner(manifest: Manifest, _: HubAddress) -> str:
    operators = (name for name in manifest.runtime.operators if name.startswith("edgec::"))
    own = any(operators) or not OWN_DELEGATES.isdisjoint(manifest.runtime.backends)
    images = " An image is the float32 tile that `vision_encoder` reads." if manifest.vision_language else ""
    needs = " It needs edgec's kernels, which packages of ExecuTorch for phones do not have." if own else ""
    return (
        f"Give the runner {code(manifest.artifact)} and `tokenizer/tokenizer.json`: where the bundle was made, it "
        f"wrote the words that edgec writes (see the ladder).{images} Speculation, schemas, tools, adapters and prompt "
        f"caches are edgec's alone.{needs}"
    )


def _onnx(manifest: Manifest, _: HubAddress) -> str:
    return f"{code(manifest.artifact)} is a plain ONNX graph; `edgec inspect` lists inputs, outputs and states."


def _litert_lm(manifest: Manifest, _: HubAddress) -> str:
    return (
        f"Give LiteRT-LM's `Engine` {code(manifest.artifact)}: tokenizer, chat template and ends of texts are inside. "
        "Where the bundle was made, the ladder says what LiteRT-LM wrote."
    )


def _core_ml(manifest: Manifest, _: HubAddress) -> str:
    return (
        f"Core ML loads {code(manifest.artifact)} as any other package; `edgec inspect` lists functions, inputs and "
        "states. Tokenizer and sampling are then the app's."
    )


def _llama_cpp(_: Manifest, address: HubAddress) -> str:
    return (
        f"```bash\nhf download {address.repository} model.gguf --local-dir .\n"
        f'llama-cli -m model.gguf -p "Once upon a time"\n```'
    )


WAYS: Final = (
    Way("On a computer, with edgec", _runs_here, _computer),
    Way("In an iPhone app", _for_apps("ios"), _app("ios", "a Swift package")),
    Way("In an Android app", _for_apps("android"), _app("android", "Gradle modules")),
    *(Way(f"In {runner_name(kind)}", _wrote_in(kind), _executorch_runner) for kind in get_args(RunnerClass)),
    Way("In ONNX Runtime", lambda one: one.format == "onnx", _onnx),
    Way("In LiteRT-LM", lambda one: one.format == "litertlm", _litert_lm),
    Way("In Core ML, without edgec's package", lambda one: one.format == "mlpackage", _core_ml),
    Way("In llama.cpp", lambda one: one.format == "gguf", _llama_cpp),
)
