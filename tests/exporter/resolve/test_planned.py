"""`edgec plan` and `edgec export` are one: the same recipe, context and calls, and commands that an export accepts."""

from __future__ import annotations

import json
import shlex
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from edgec.devices.prediction.estimate import Range
from edgec.devices.prediction.oldest_fit import FAMILY
from edgec.devices.prediction.speed import Measured
from edgec.devices.prediction.speed_forecast import Speeds, Task
from edgec.devices.targets import DEFAULT_TARGET, Target, aliases, all_targets, load_target
from edgec.errors import EdgecError
from edgec.exporter.options import ExportOptions
from edgec.exporter.request import ExportRequest
from edgec.exporter.resolve.planned import Planned, Question, answer
from edgec.exporter.resolve.planned_commands import proposed_commands
from edgec.exporter.resolve.resolved import resolve_options
from edgec.exporter.resolve.widths import recipe_widths
from tests.exporter.resolve.cached_models import cache_models
from tests.exporter.sources.gguf_forms import q4_k_m, write_forms
from tests.exporter.sources.hub_cache import offline_cache, snapshot

ARCHITECTURES = Path(__file__).parents[3] / "benchmarks" / "architectures"
MODELS = ("smollm2-135m", "qwen3-0.6b", "tiny-qwen3", "lfm2-1.2b", "qwen3.5-0.8b")
_NOT_HERE = ("E584", "E585", "E586")
"""What makes ExecuTorch's delegate for Qualcomm is not on every machine."""
_NO_TOKENIZER = "E906"
"""A config alone brings none, and LiteRT-LM's files hold one."""


def _options(command: str) -> ExportOptions:
    words = shlex.split(command)
    assert words[:2] == ["edgec", "export"]
    given = dict(zip(words[3::2], words[4::2], strict=True))
    context = int(given["--context"]) if "--context" in given else None
    return ExportOptions(
        model=words[2], target=given["--target"], recipe=given.get("--recipe"), context=context, random_weights=True
    )


@pytest.mark.long
@pytest.mark.sweep(2)
@pytest.mark.parametrize("model", MODELS)
def test_what_is_planned_is_what_is_exported(model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every target with every command that its plan prints.

    An export is resolved once for each kind of target: what it resolves to depends on unit, format and NPU, and a
    family's phone on its name. Speeds, which choose no more than which commands are printed, are those of one table.
    """
    cache_models(monkeypatch)
    _with_quick_speeds(monkeypatch)
    file, resolved = str(ARCHITECTURES / f"{model}.json"), dict[object, ExportRequest | str]()

    def exported(options: ExportOptions) -> ExportRequest | str:
        """The request, or the code of the error."""
        kind = (_kind(str(options.target)), options.recipe, options.context)
        if kind not in resolved:
            resolved[kind] = _request(replace(options, out=tmp_path / "out.edgec", emulate=False))
        return resolved[kind]

    targets = [target.name for target in all_targets()] + list(aliases())
    for target in targets:
        answered = answer(Question(file, target))
        _check_same(answered, exported(ExportOptions(model=file, target=target, random_weights=True)))
        for command in proposed_commands(answered):
            made = exported(_options(command.line))
            assert isinstance(made, ExportRequest) or made == _NO_TOKENIZER, command
    assert len(targets) > 700 and len(resolved) > 40


def _check_same(answered: Planned, request: ExportRequest | str) -> None:
    planned, name = answered.plan, answered.question.target
    if not planned.target.export_supported:
        assert request == "E117", name
    elif answered.refusal is not None:
        assert request == answered.refusal.code, name
    elif isinstance(request, str):
        assert request in (*_NOT_HERE, _NO_TOKENIZER), (name, request)
    else:
        limits, target = request.limits, request.target
        assert (limits.context, limits.prefill_chunk) == (planned.context, planned.call_tokens), name
        assert (target.unit, target.format) == (planned.target.unit, planned.target.format), name
        assert target.phone == planned.target.phone or name != "iphone"
        assert (request.recipe.name, recipe_widths(request.recipe)) == (answered.recipe, planned.widths), name


def _kind(target: str) -> object:
    one = load_target(target)
    return (one.os, one.unit, one.format, one.hexagon, one.soc_model, target == DEFAULT_TARGET, target == FAMILY)


def _request(options: ExportOptions) -> ExportRequest | str:
    try:
        return resolve_options(options).request
    except EdgecError as error:
        return error.code


def _with_quick_speeds(monkeypatch: pytest.MonkeyPatch) -> None:
    """GPUs decode best and CPUs read prompts best, so that a plan of every unit prints commands of others."""
    speeds = {"gpu": (1.0, 3.0), "cpu": (3.0, 2.0), "npu": (2.0, 1.0)}

    def quick(task: Task, target: Target, measured: Measured = ()) -> Speeds:
        prefill, decode = (Range(speed, speed, speed, 0.8) for speed in speeds[target.unit])
        return Speeds(prefill, prefill, decode, ())

    monkeypatch.setattr("edgec.devices.prediction.forecast.forecast", quick)


@pytest.mark.long
@pytest.mark.parametrize("model", ["qwen3.5-0.8b", "qwen3-0.6b"])
def test_a_hub_id_is_planned_as_its_config_is(model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No weights are fetched, and yet what an export refuses is refused."""
    config, folder = ARCHITECTURES / f"{model}.json", snapshot(offline_cache(tmp_path, monkeypatch))
    folder.mkdir(parents=True)
    shutil.copy(config, folder / "config.json")
    of_hub, of_file = (answer(Question(name, "galaxy-s24-ultra")) for name in ("owner/tiny", str(config)))
    codes = [each.refusal and each.refusal.code for each in (of_hub, of_file)]
    assert codes == [{"qwen3.5-0.8b": "E528"}.get(model)] * 2
    assert (of_hub.plan.footprint, of_hub.recipe) == (of_file.plan.footprint, of_file.recipe)
    assert all("owner/tiny" in command.line for command in proposed_commands(of_hub))


def test_a_quantised_checkpoint_on_the_hub_says_what_is_not_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = snapshot(offline_cache(tmp_path, monkeypatch))
    folder.mkdir(parents=True)
    config = json.loads((ARCHITECTURES / "tiny-qwen3.json").read_text())
    config["quantization_config"] = {"quant_method": "gptq", "bits": 4, "group_size": 128}
    (folder / "config.json").write_text(json.dumps(config))
    answered = answer(Question("owner/tiny", "host"))
    assert any("quantised (gptq)" in note for note in answered.notes)


@pytest.mark.long
def test_a_smaller_plan_is_a_command_that_fits() -> None:
    question = Question(str(ARCHITECTURES / "qwen3-4b.json"), "iphone-12-mini", recipe="8bit")
    answered = answer(question)
    smaller = answered.plan.smaller
    assert answered.plan.verdict == "does not fit" and smaller is not None
    commands = [command.line for command in proposed_commands(answered)]
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


@pytest.mark.long
def test_the_gpu_of_an_iphone_is_proposed_with_the_command_that_makes_its_artifact() -> None:
    model = str(ARCHITECTURES / "qwen3-0.6b.json")
    answered = answer(Question(model, "iphone-17-pro"))
    assert {speed.unit for phase in answered.phases for speed in phase.speeds} == {"npu", "gpu", "cpu"}
    assert answered.phases[1].unit == "gpu"
    lines = [command.line for command in proposed_commands(answered)]
    assert f"edgec export {model} --target iphone-17-pro-gpu" in lines


@pytest.mark.long
def test_a_unit_of_a_family_is_planned_and_its_command_says_it() -> None:
    answered = answer(Question(str(ARCHITECTURES / "qwen3-0.6b.json"), "mac-m4", unit="gpu"))
    assert answered.plan.target.backend == "coreml_gpu"
    family = answer(Question(str(ARCHITECTURES / "qwen3-0.6b.json"), "iphone", unit="gpu"))
    target = family.plan.target
    assert (target.unit, target.backend) == ("gpu", "coreml_gpu") and target.phone.startswith("iphone")
    assert next(proposed_commands(family)).line.endswith(f"--target {target.name}")
    asked = answer(Question(str(ARCHITECTURES / "qwen3-0.6b.json"), "iphone-17-pro", unit="gpu"))
    assert next(proposed_commands(asked)).line.endswith("--target iphone-17-pro --unit gpu")


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
