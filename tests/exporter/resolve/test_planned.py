"""`edgec plan` and `edgec export` are one: the same recipe, context and calls, and commands that an export accepts."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from edgec.cli.plan import _commands
from edgec.errors import InputError
from edgec.exporter.options import ExportOptions
from edgec.exporter.resolve.planned import Question, answer
from edgec.exporter.resolve.resolved import resolve_options
from edgec.exporter.resolve.widths import recipe_widths
from tests.exporter.sources.gguf_forms import q4_k_m, write_forms

ARCHITECTURES = Path(__file__).parents[3] / "benchmarks" / "architectures"
MODELS = ("smollm2-135m", "qwen3-0.6b", "tiny-qwen3", "lfm2-1.2b", "qwen3.5-0.8b")
TARGETS = (
    *("host", "iphone", "iphone-15-pro-npu-mlpackage", "iphone-16-pro-npu-aimodel", "iphone-13-pro-cpu"),
    *("android-cpu", "android-gpu", "galaxy-s24-ultra", "galaxy-s24-ultra-gpu", "pixel-8", "galaxy-s24-ultra-cpu-onnx"),
)


def _options(command: str) -> ExportOptions:
    words = shlex.split(command)
    assert words[:2] == ["edgec", "export"]
    given = dict(zip(words[3::2], words[4::2], strict=True))
    context = int(given["--context"]) if "--context" in given else None
    return ExportOptions(
        model=words[2], target=given["--target"], recipe=given.get("--recipe"), context=context, random_weights=True
    )


@pytest.mark.long
@pytest.mark.sweep(6)
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("target", TARGETS)
def test_what_is_planned_is_what_is_exported(model: str, target: str, tmp_path: Path) -> None:
    question = Question(str(ARCHITECTURES / f"{model}.json"), target)
    answered = answer(question)
    options = ExportOptions(
        model=question.model, target=target, random_weights=True, out=tmp_path / "out.edgec", emulate=False
    )
    if answered.refusal is not None:
        with pytest.raises(InputError) as refused:
            resolve_options(options)
        assert refused.value.code == answered.refusal.code
    else:
        request = resolve_options(options).request
        planned = answered.plan
        assert (request.limits.context, request.limits.prefill_chunk) == (planned.context, planned.call_tokens)
        assert request.target.phone == planned.target.phone and request.recipe.name == answered.recipe
        assert recipe_widths(request.recipe) == planned.widths
    for command, _ in _commands(question, answered):
        resolve_options(_options(command))


@pytest.mark.long
def test_a_smaller_plan_is_a_command_that_fits() -> None:
    question = Question(str(ARCHITECTURES / "qwen3-4b.json"), "iphone-12-mini", recipe="8bit")
    answered = answer(question)
    smaller = answered.plan.smaller
    assert answered.plan.verdict == "does not fit" and smaller is not None
    commands = [command for command, _ in _commands(question, answered)]
    assert len(commands) >= 2 and commands[1].endswith(" ".join(smaller.asked.options))
    words = dict(zip(smaller.asked.options[::2], smaller.asked.options[1::2], strict=True))
    context = int(words["--context"]) if "--context" in words else None
    again = answer(Question(question.model, question.target, words["--recipe"], context=context)).plan
    assert again.footprint.peak_bytes == smaller.peak_bytes and again.verdict == smaller.verdict


def test_bits_of_a_quantised_checkpoint_are_planned_as_they_are_kept(tmp_path: Path) -> None:
    file = write_forms(tmp_path / "tiny.gguf", q4_k_m)
    kept, phone = (answer(Question(str(file), target)) for target in ("host", "iphone"))
    assert (kept.recipe, phone.recipe) == ("as-stored", "4bit") and "Q4_K as stored" in str(kept.plan.widths)
    request = resolve_options(ExportOptions(model=file, out=tmp_path / "out.edgec", emulate=False)).request
    assert request.recipe.name == "as-stored"


def test_units_that_edgec_makes_nothing_for_are_not_proposed() -> None:
    answered = answer(Question(str(ARCHITECTURES / "qwen3-0.6b.json"), "iphone-17-pro"))
    assert {speed.unit for phase in answered.phases for speed in phase.speeds} == {"npu", "cpu"}


@pytest.mark.long
def test_units_of_a_phone_are_told_alike_whichever_was_asked_for() -> None:
    model = str(ARCHITECTURES / "qwen3-0.6b.json")
    told = [
        {
            speed.unit: speed.tokens_per_s
            for speed in answer(Question(model, f"galaxy-s24-ultra-{unit}")).phases[1].speeds
        }
        for unit in ("npu", "gpu", "cpu")
    ]
    assert told[0] == told[1] == told[2]
