"""The options of an export: one set of fields for the command line, ``edgec.toml`` and ``edgec.export()``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from edgec.bundle.layouts import LAYOUTS
from edgec.bundle.limited_json import is_number
from edgec.bundle.schemas import SCHEMA_NAME
from edgec.bundle.shipped_adapters import ADAPTER_NAME
from edgec.errors import InputError
from edgec.exporter.progress import Listener, silent
from edgec.exporter.recipes.budgets import BUDGETS
from edgec.exporter.schemas.refusals import not_named

if TYPE_CHECKING:
    from edgec.exporter.recipes.recipe import Recipe

KERNELS = ("edgec", "standard")
REQUANTISE = ("never", "allow")


@dataclass(frozen=True)
class ExportOptions:
    """The options of one export; None stands for the default described below.

    Attributes:
        model: Hugging Face id, local folder, GGUF file, config.json (with ``random_weights``) or
            ``package.module:factory``.
        target: a name from ``edgec targets``, ``host`` by default; ``iphone`` is the oldest iPhone that the model fits.
        recipe: a recipe's name, its TOML file, or a Recipe; by default the one that ``edgec adapt`` trained the model
            under, else ``4bit``; on CPUs, the integers that a quantised checkpoint stores are then kept. For models
            other than language models ``float`` on accelerators and ``8bit`` on CPUs, ``float`` where that costs much.
        out: path of the bundle; by default NAME-TARGET.edgec in the current folder.
        force: replace an existing bundle.
        random_weights: export an architecture with seeded random weights.
        revision: hub branch, tag or commit.
        allow_pickle: open pickled weights (data only).
        trust_remote_code: run Python code that comes with the model.
        task: optimum's task name, for non-decoder models.
        context: positions the artifact serves; by default the recipe's, or the model's own.
        image_size: ``HxW`` in pixels, for vision-language models that read images of any size: all of theirs get this
            one; by default a square of 256 rows.
        kernels: ``edgec`` or ``standard`` (those of every ExecuTorch app); by default the recipe's, or ``standard``
            where edgec's cannot be compiled.
        unit: ``cpu``, ``gpu`` or ``npu`` of the target's phone; else its first, or the one that the target names.
        format: ``pte``, ``mlpackage``, ``aimodel``, ``onnx``, ``qnn``, ``litertlm``, ``tflite`` or ``gguf``, where the
            target has several; else its first. ``gguf``, of the target ``host``, is for llama.cpp and holds models like
            Llama, Qwen and Gemma; ``litertlm`` is for LiteRT-LM, and ``tflite`` the same without tokenizer.
        layout: whose names the artifact's functions, inputs and outputs have, so that another runtime finds them:
            ``edgec``, the default; with the format ``onnx``, ``genai`` (onnxruntime-genai); with ``mlpackage``,
            ``swift-transformers``; with ``aimodel``, ``coreai-models``.
        keep_float: layers of a network that compute in float32 where the target computes in float16: patterns on a
            module's path (``encoder.*.norm``), or on PATH:OPERATOR (``attention:softmax``). Layers that float16 does
            not hold are found and kept without it.
        max_fallback: largest share of the arithmetic outside the accelerator, 0..1.
        budgets: parity budgets that replace the recipe's (``kl_mean`` nats, ``top1_agreement`` 0..1).
        inputs: a ``.npz`` file with an array of examples for each input of a module, or a folder of ``.npz`` or
            ``.npy`` files, images or sounds (prepared as the factory declares): what the app will pass. The ladder
            judges on them, and ranges are calibrated on them; by default inputs are made.
        text: a file with text for the parity ladder; a built-in text by default.
        calibrate: a file with text like what the model will see: rounding errors are then weighted by the size of
            activations on that text. Without it, recipes that use text (``4bit-gptq``, look-up tables) get the
            model's own and a built-in one.
        target_bits: average bits per weight of the linear layers; the bits of each layer are searched for on the text
            of ``calibrate`` and written into the recipe as rules.
        max_kl: the most that the model may differ from the float one, nats per token: layers where a bit buys most get
            more than the recipe gives them until it holds. Without it, and without a recipe or budgets, the default
            recipe's own budget is reached so.
        system_prompt: a file with a text whose KV state the bundle ships, so that conversations that begin with it
            need not compute it again.
        schemas: files with JSON Schemas by name, which the bundle ships compiled for apps and the runner.
        regexes: regular expressions by name, likewise.
        grammars: files with grammars in Lark's notation or GBNF by name, likewise.
        adapters: folders of LoRA adapters that PEFT saved, by name, for the formats of Apple's Core ML and Core AI:
            each method exists once more under each adapter, over the same weights.
        draft_heads: what guesses tokens for speculative decoding: a Medusa or EAGLE-3 folder, safetensors of
            ``examples/train_heads.py``, or ``mtp``, the checkpoint's own predictor.
        compare_layers: lower a decoder for a CPU a second time, with its rounded activations as outputs, and compare
            these with the graph's, layer by layer; otherwise that is done where the logits differ by more than two
            right executions do.
        emulate: True, the phone's own runner must execute the artifact under qemu, as a rung of the ladder; False, it
            must not; by default it does for decoders on the CPU of a phone where ``edgec runner build --abi arm64`` has
            compiled it, qemu is installed and the model is small.
        requantise: ``never``: refuse to round integers again that a quantised checkpoint stores; ``allow``, the
            default: do so where the recipe asks for other bits or the target cannot read them, and say so.
        seed: seed of random weights.
        progress: called with an Event at every step; a notebook shows a bar where it is not given.
    """

    model: str | Path
    _: KW_ONLY
    target: str | None = None
    recipe: str | Path | Recipe | None = None
    out: str | Path | None = None
    force: bool = False
    random_weights: bool = False
    revision: str | None = None
    allow_pickle: bool = False
    trust_remote_code: bool = False
    task: str | None = None
    context: int | None = None
    image_size: str | None = None
    kernels: str | None = None
    keep_float: Sequence[str] = ()
    max_fallback: float | None = None
    unit: str | None = None
    format: str | None = None
    layout: str | None = None
    budgets: Mapping[str, float] | None = None
    inputs: str | Path | None = None
    text: str | Path | None = None
    calibrate: str | Path | None = None
    target_bits: float | None = None
    max_kl: float | None = None
    system_prompt: str | Path | None = None
    schemas: Mapping[str, str | Path] | None = None
    regexes: Mapping[str, str] | None = None
    grammars: Mapping[str, str | Path] | None = None
    adapters: Mapping[str, str | Path] | None = None
    draft_heads: str | Path | None = None
    compare_layers: bool = False
    emulate: bool | None = None
    requantise: str | None = None
    seed: int = 0
    progress: Listener = field(default=silent, compare=False)

    def check(self) -> None:
        """Refuse values that are wrong for every model and target.

        Raises:
            InputError: E115, E764.
        """
        if self.max_fallback is not None and not 0.0 <= self.max_fallback <= 1.0:
            fix = "give a share from 0 to 1"
            raise InputError(f"{self.max_fallback} is not a share", "--max-fallback", fix=fix, code="E115")
        for name, limit in (self.budgets or {}).items():
            _check_budget(name, limit)
        for name in self.adapters or {}:
            if not ADAPTER_NAME.fullmatch(name):
                raise misnamed_adapter(name, f"{name!r} cannot be part of a function's name")
        if self.max_kl is not None and not (is_number(self.max_kl) and self.max_kl > 0):
            fix = "give a finite number above 0, for example 0.05"
            raise InputError(f"{self.max_kl!r} is not a divergence", "--max-kl", fix=fix, code="E115")
        if self.kernels not in (None, *KERNELS):
            fix = "use edgec or standard"
            raise InputError(f"{self.kernels!r} is not a set of kernels", "--kernels", fix=fix, code="E115")
        if self.layout not in (None, *LAYOUTS):
            fix = f"use {' or '.join(LAYOUTS)}"
            raise InputError(f"{self.layout!r} is not a layout", "--layout", fix=fix, code="E115")
        if self.requantise not in (None, *REQUANTISE):
            what = f"{self.requantise!r} does not say when integers may be rounded again"
            raise InputError(what, "--requantise", fix="use never or allow", code="E115")


def _check_budget(name: str, limit: float) -> None:
    if name not in BUDGETS:
        raise InputError(f"{name!r} is not a budget", "--budget", fix=f"use one of {', '.join(BUDGETS)}", code="E115")
    if not is_number(limit):
        raise InputError(f"{limit!r} is not a limit for {name}", "--budget", fix="give a finite number", code="E115")


def parse_budgets(texts: Sequence[str]) -> dict[str, float]:
    """Parse budgets of the form ``NAME=LIMIT``.

    Raises:
        InputError: E115.
    """
    return dict(map(_parsed_budget, texts))


def _parsed_budget(text: str) -> tuple[str, float]:
    name, _, limit = text.partition("=")
    try:
        return name, float(limit)
    except ValueError as error:
        raise InputError(
            what=f"{text!r} is not a budget",
            where="--budget",
            fix="write NAME=LIMIT, for example kl_mean=0.1",
            code="E115",
        ) from error


def parse_schemas(texts: Sequence[str]) -> dict[str, Path]:
    """Parse schemas or grammars of the form ``NAME=FILE``.

    Raises:
        InputError: E712.
    """
    return {name: Path(file) for name, file in parse_regexes(texts).items()}


def parse_regexes(texts: Sequence[str]) -> dict[str, str]:
    """Parse regular expressions of the form ``NAME=REGEX``.

    Raises:
        InputError: E712.
    """
    out: dict[str, str] = {}
    for text in texts:
        name, _, given = text.partition("=")
        if not given or name in out or not SCHEMA_NAME.fullmatch(name):
            raise not_named(text)
        out[name] = given
    return out


def parse_adapters(texts: Sequence[str]) -> dict[str, Path]:
    """Parse adapters of the form ``NAME=FOLDER``.

    Raises:
        InputError: E764.
    """
    out: dict[str, Path] = {}
    for text in texts:
        name, _, folder = text.partition("=")
        if not folder:
            raise misnamed_adapter(text, "it is not NAME=FOLDER")
        if name in out:
            raise misnamed_adapter(text, "the name occurs twice")
        out[name] = Path(folder)
    return out


def misnamed_adapter(text: str, why: str) -> InputError:
    """The refusal of an adapter without a name of its own."""
    return InputError(
        "An adapter needs a name of its own.",
        where=f"--adapter {text[:80]}",
        why=why,
        fix="give NAME=PEFT_FOLDER; a name has up to 64 letters, digits and _, and does not begin with a digit",
        code="E764",
    )
