"""``edgec adapt`` as a whole: trains, writes a folder, and what is exported from it is what was trained."""

from __future__ import annotations

import json
import math
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import edgec
from benchmarks.coverage_parts.tiny import tiny_config, tiny_model
from edgec.bundle.folder import read_manifest
from edgec.errors import InputError
from edgec.exporter.adapt import adapt as module
from edgec.exporter.adapt import loop, result
from edgec.exporter.adapt.adapt import adapt
from edgec.exporter.adapt.loop import TrainingEvent
from edgec.exporter.adapt.settings import Settings
from edgec.exporter.adapt.student import Traced, build_student
from edgec.exporter.recipes.adapt_record import as_recorded, record_of, recorded_grids, recorded_recipe
from edgec.exporter.recipes.file import load_recipe
from edgec.exporter.recipes.passes import passes_for
from edgec.exporter.recipes.recipe import Recipe, for_backend
from edgec.exporter.resolve.limits import decoder_limits
from edgec.exporter.sources.decoders.spec import model_spec
from edgec.exporter.sources.resolve import resolve
from edgec.exporter.stages.capturing import capture
from edgec.ir.attributes import attribute
from edgec.ir.quantized_form import decisions_of
from edgec.passes.cleanup.remove_noops import RemoveNoops
from edgec.passes.contract import run_passes
from edgec.passes.fuse.matmul_to_linear import MatmulToLinear
from edgec.passes.kv.shared_kv import SharedKv
from edgec.passes.train.fake_quantize import learned_grids

SETTINGS = Settings(steps=4, batch=2, length=32, held_out_tokens=128, evaluate_every=2, checkpoint_every=2)
LENGTH = 24


class Killed(Exception):
    """Stands for a process that ends where it is."""


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[Traced]:
    """The trained graphs, as they are handed over to be written."""
    learners: list[Traced] = []
    written = result.write_result

    def spy(out: Path, source: object, learner: Traced, *rest: object) -> None:
        learners.append(learner)
        written(out, source, learner, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(result, "write_result", spy)
    return learners


def logits(graph: torch.fx.GraphModule) -> Tensor:
    with torch.no_grad():
        output = graph(torch.arange(10, 10 + LENGTH)[None], torch.arange(LENGTH))
    first: Tensor = output[0] if isinstance(output, (tuple, list)) else output
    return first


@pytest.mark.slow
def test_training_that_diverges_writes_nothing(tiny_folder: Path, story: Path, tmp_path: Path) -> None:
    wild = replace(SETTINGS, steps=20, learning_rate=1e30, text_loss=1.0)
    with pytest.raises(InputError) as caught:
        adapt(tiny_folder, recipe="float", text=[story], out=tmp_path / "wild", settings=wild)
    assert caught.value.code == "E512" and not (tmp_path / "wild").exists()


@pytest.mark.long
def test_a_last_step_that_diverges_writes_nothing(
    tiny_folder: Path, story: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The float model's own loss, that before training, and that after it.
    losses = iter([(1.0, None), (1.0, None), (math.nan, None)])
    monkeypatch.setattr(loop, "measure", lambda *_: next(losses))
    once = replace(SETTINGS, steps=1, text_loss=1.0)
    with pytest.raises(InputError) as caught:
        adapt(tiny_folder, recipe="float", text=[story], out=tmp_path / "wild", settings=once)
    assert caught.value.code == "E512" and not (tmp_path / "wild").exists()


def test_a_teacher_that_reads_other_tokens_is_refused(tiny_folder: Path, story: Path, tmp_path: Path) -> None:
    teacher = shutil.copytree(tiny_folder, tmp_path / "teacher")
    written = json.loads((teacher / "tokenizer.json").read_text())
    ids = written["model"]["vocab"]
    first, second = sorted(ids, key=ids.get)[-2:]
    ids[first], ids[second] = ids[second], ids[first]
    (teacher / "tokenizer.json").write_text(json.dumps(written))
    for settings, why in ((SETTINGS, "other tokens"), (replace(SETTINGS, length=4096), "4096 tokens")):
        with pytest.raises(InputError) as caught:
            adapt(tiny_folder, recipe="8bit", text=[story], teacher=teacher, out=tmp_path / "x", settings=settings)
        assert caught.value.code in ("E514", "E501") and why in f"{caught.value.what} {caught.value.why}"


@pytest.mark.long
def test_what_is_exported_is_what_was_trained(
    tiny_folder: Path, story: Path, recipe: Path, tmp_path: Path, seen: list[Traced]
) -> None:
    done = adapt(tiny_folder, recipe=recipe, text=[story], out=tmp_path / "healed", settings=SETTINGS)
    source = resolve(str(done.path))
    how = as_recorded(for_backend(load_recipe(recorded_recipe(done.path) or ""), "xnnpack"), source.config)
    spec = model_spec(source.config)
    assert source.weights is not None
    program = capture(source, source.weights, spec, decoder_limits(spec, how, None))
    sharing = SharedKv(how.boundary, how.shared_kv or "")
    exported = run_passes(program, [RemoveNoops(), sharing, *passes_for(how)])
    trained = seen[0].program
    for grid in learned_grids(trained.graph):
        decision = next(d for d in decisions_of(exported.graph) if d.name == grid.parameter)
        assert decision.algorithm == "learned"
        assert torch.equal(attribute(exported.graph, decision.buffers[1]), grid.scale)
    # The trained graph rounds keys and values as well, and its attention is torch's: sums in another order, and an
    # activation on the edge between two of its 256 steps may fall to the other side.
    apart = (logits(exported.graph) - logits(trained.graph)).abs()
    assert float(apart.mean()) < 0.02 * float(logits(trained.graph).std())


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["olmoe", "gpt_oss", "gpt2"])
def test_experts_and_products_are_exported_as_they_were_trained(
    kind: str, tiny_folder: Path, story: Path, tmp_path: Path, seen: list[Traced]
) -> None:
    config = tiny_config(kind)
    config.vocab_size = json.loads((tiny_folder / "config.json").read_text())["vocab_size"]
    model = tiny_model(config)
    model.save_pretrained(tmp_path / "model")
    for file in tiny_folder.glob("tokenizer*"):
        shutil.copy(file, tmp_path / "model")
    done = adapt(tmp_path / "model", recipe="4bit", text=[story], out=tmp_path / "healed", settings=SETTINGS)
    source, how = resolve(str(done.path)), load_recipe("4bit")
    spec = model_spec(source.config)
    assert source.weights is not None
    program = capture(source, source.weights, spec, decoder_limits(spec, how, None))
    exported = run_passes(program, [RemoveNoops(), MatmulToLinear(), *passes_for(how)])
    rounded = [each for each in decisions_of(exported.graph) if ".experts." in each.name or ".c_" in each.name]
    assert {each.algorithm for each in rounded} == {"learned"}
    before, trained = model.state_dict(), seen[0].program.graph
    assert not any(torch.equal(source.weights.tensor(each.name), before[each.name]) for each in rounded)
    # As above: attention of another order, and activations on the edge between two steps.
    apart = (logits(exported.graph) - logits(trained)).abs()
    assert float(apart.mean()) < 0.02 * float(logits(trained).std())


@pytest.mark.slow
def test_the_folder_is_exported_unchanged(tiny_folder: Path, story: Path, recipe: Path, tmp_path: Path) -> None:
    done = adapt(tiny_folder, recipe=recipe, text=[story], out=tmp_path / "healed", settings=SETTINGS)
    manifest = read_manifest(edgec.export(done.path, out=tmp_path / "healed.edgec"))
    assert all(rung.passed for rung in manifest.parity if rung.gated)
    mode = load_recipe(recipe).shared_kv
    layers = {state.layer for state in manifest.states}
    assert layers == ({0} if mode == "reuse" else {0, 1})
    names = {file.name for file in done.path.iterdir()}
    assert names >= {"README.md", "config.json", "everything.toml", "model.safetensors", "report.html", "training.json"}
    report = (done.path / "report.html").read_text()
    assert "<svg" in report and "http" not in report.replace("http://www.w3.org/2000/svg", "")


@pytest.mark.slow
def test_a_float_recipe_goes_on_training_on_the_text(tiny_folder: Path, story: Path, tmp_path: Path) -> None:
    settings = replace(SETTINGS, steps=20, text_loss=1.0, learning_rate=3e-3, evaluate_every=10)
    done = adapt(tiny_folder, recipe="float", text=[story], out=tmp_path / "longer", settings=settings)
    assert done.curve[-1].held_out < done.curve[0].held_out - 0.2
    assert done.curve[-1].divergence is None and done.curve[0].tokens == 0
    source = resolve(str(done.path))
    assert record_of(source.config) is not None and recorded_grids(source) == []
    table = json.loads((done.path / "training.json").read_text())
    assert table["obtained"] == "measured" and len(table["curve"]) == 3
    # Nothing is rounded and no teacher is kept: the model began where the float model's own loss is drawn.
    assert table["baseline"]["held_out"] == done.baseline.held_out == pytest.approx(done.curve[0].held_out, abs=1e-5)


@pytest.mark.long
def test_the_stored_model_is_the_rounded_one(tiny_folder: Path, story: Path, tmp_path: Path) -> None:
    done = adapt(tiny_folder, recipe="balanced2", text=[story], out=tmp_path / "two", settings=SETTINGS)
    source = resolve(str(done.path))
    assert source.weights is not None
    weight = source.weights.tensor("model.layers.0.mlp.up_proj.weight")
    assert all(len(row.unique()) <= 4 for row in weight)


@pytest.mark.sweep(2)
@pytest.mark.long
@pytest.mark.parametrize(
    "more",
    [
        {"low_rank": 4, "merge": True},
        {"low_rank": 4},
        {"accumulation": 2},
        *(pytest.param(more, marks=pytest.mark.slow) for more in ({"recompute": True}, {"hidden_loss": 0.5})),
    ],
)
def test_every_way_of_training_trains(tiny_folder: Path, story: Path, tmp_path: Path, more: dict[str, Any]) -> None:
    settings = replace(SETTINGS, **more, ema=0.5)
    done = adapt(tiny_folder, recipe="balanced2", text=[story], out=tmp_path / "way", settings=settings)
    assert all(math.isfinite(point.held_out) for point in done.curve)
    assert done.curve[-1].held_out != done.curve[0].held_out


@pytest.mark.slow
def test_a_stopped_run_ends_as_if_it_had_not_been(tiny_folder: Path, story: Path, tmp_path: Path) -> None:
    def stop(event: TrainingEvent) -> None:
        if event.step == 3:
            raise Killed

    settings = replace(SETTINGS, steps=6, ema=0.9)
    arguments = {"recipe": "balanced2", "text": [story], "settings": settings}
    whole = adapt(tiny_folder, out=tmp_path / "whole", **arguments)  # type: ignore[arg-type]
    with pytest.raises(Killed):
        adapt(tiny_folder, out=tmp_path / "parts", progress=stop, **arguments)  # type: ignore[arg-type]
    assert not (tmp_path / "parts").exists() and (tmp_path / ".parts.adapt" / "checkpoint.pt").is_file()
    steps: list[int] = []
    parts = adapt(tiny_folder, out=tmp_path / "parts", progress=lambda e: steps.append(e.step), **arguments)  # type: ignore[arg-type]
    assert steps == [3, 4, 5, 6]
    # the same float32 operations in the same order
    assert parts.curve[-1].held_out == pytest.approx(whole.curve[-1].held_out, abs=1e-6)
    assert [p.loss for p in parts.curve] == pytest.approx([p.loss for p in whole.curve], abs=1e-6)
    assert not (tmp_path / ".parts.adapt").exists()


@pytest.mark.long
def test_what_cannot_be_trained_is_refused(tiny_folder: Path, story: Path, tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    cases: list[tuple[dict[str, Any], str]] = [
        ({"recipe": "float"}, "E506"),
        ({"recipe": "4bit", "out": tmp_path / "taken"}, "E508"),
        ({"recipe": "lut4", "target": "iphone"}, "E509"),
        ({"recipe": "4bit", "settings": replace(SETTINGS, length=100_000)}, "E501"),
    ]
    for arguments, code in cases:
        given: dict[str, Any] = {"out": tmp_path / "new", "settings": SETTINGS, "text": [story], **arguments}
        with pytest.raises(InputError) as caught:
            adapt(tiny_folder, **given)
        assert caught.value.code == code


@pytest.mark.long
def test_no_adapter_stands_beside_layers_that_are_written_as_products(tmp_path: Path) -> None:
    tiny_model(tiny_config("gpt2")).save_pretrained(tmp_path)
    with pytest.raises(InputError, match="E509"):
        build_student(resolve(str(tmp_path)), load_recipe("4bit"), Settings(length=16, low_rank=2, merge=False))


@pytest.mark.slow
def test_an_adapter_stands_beside_experts_that_are_stored_transposed(tmp_path: Path) -> None:
    tiny_model(tiny_config("gpt_oss")).save_pretrained(tmp_path)
    assert build_student(resolve(str(tmp_path)), load_recipe("4bit"), Settings(length=16, low_rank=2)).names


def test_a_recipe_against_the_record_is_refused() -> None:
    config = {"num_hidden_layers": 8, "edgec": {"mode": "reuse", "boundary": 5}}
    assert as_recorded(Recipe("plain"), config).shared_kv == "reuse"
    assert as_recorded(Recipe("same", shared_kv="reuse", boundary=0.625), config).boundary == 5
    with pytest.raises(InputError) as caught:
        as_recorded(Recipe("other", shared_kv="project", boundary=0.625), config)
    assert caught.value.code == "E505"


def test_a_damaged_record_is_refused() -> None:
    with pytest.raises(InputError) as caught:
        record_of({"edgec": {"grids": {"x": {"bits": 2}}}})
    assert caught.value.code == "E505"


@pytest.mark.slow
def test_the_checkpoint_knows_its_run(tiny_folder: Path, story: Path, tmp_path: Path) -> None:
    def stop(event: TrainingEvent) -> None:
        raise Killed

    settings = replace(SETTINGS, checkpoint_every=1)
    for again in (settings, replace(settings, seed=1)):
        with pytest.raises((Killed, InputError)) as caught:
            adapt(tiny_folder, recipe="4bit", text=[story], out=tmp_path / "a", settings=again, progress=stop)
    assert isinstance(caught.value, InputError) and caught.value.code == "E507"
    assert module._checkpoint(tmp_path / "a").is_file()


@pytest.mark.slow
def test_the_checkpoint_knows_its_models(tiny_folder: Path, story: Path, tmp_path: Path) -> None:
    def stop(event: TrainingEvent) -> None:
        raise Killed

    model = tmp_path / "model"
    shutil.copytree(tiny_folder, model)
    for _ in range(2):
        with pytest.raises((Killed, InputError)) as caught:
            adapt(
                model,
                recipe="4bit",
                text=[story],
                out=tmp_path / "a",
                settings=replace(SETTINGS, checkpoint_every=1),
                progress=stop,
            )
        os.utime(model / "model.safetensors", (1, 1))
    assert isinstance(caught.value, InputError) and caught.value.code == "E507"
