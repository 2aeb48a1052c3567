"""Vision-language models under ``edgec bench`` and ``edgec eval``."""

from __future__ import annotations

from pathlib import Path

import pytest

import edgec
from edgec.bundle.folder import open_bundle
from edgec.devices.job import Job
from edgec.errors import InputError
from edgec.runtime_py.bench.bench import bench
from edgec.runtime_py.bench.job import run_job
from edgec.runtime_py.bench.shown_prompt import ShownPrompt, open_session, prompt_of
from edgec.runtime_py.evaluate.evaluate import evaluate
from tests.exporter.test_vision_language_end_to_end import CONTEXT, COUNTS, QUICK, Exported, code_of, size
from tests.vision_language import save_vision_language

pytestmark = pytest.mark.long
# What sees ahead, and positions of three parts, besides.
EACH = [
    (QUICK, "8bit"),
    *(pytest.param((f, "float"), marks=pytest.mark.slow) for f in ("gemma3", "paligemma", "qwen3_vl")),
]


@pytest.fixture(scope="module", params=EACH, ids="-".join)
def exported(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Exported:
    """A family's bundle by a recipe."""
    family, recipe = request.param
    folder = save_vision_language(family, tmp_path_factory.mktemp(family) / family)
    made = edgec.export(folder, recipe=recipe, out=folder.parent / "x.edgec", context=CONTEXT, image_size=size(family))
    return Exported(family, made, COUNTS[recipe])


def test_a_lap_of_bench_sees_an_image_first(exported: Exported) -> None:
    bundle = open_bundle(exported.bundle)
    info = bundle.manifest.vision_language
    assert info is not None
    asked, session = prompt_of(bundle, info.rows + 6), open_session(bundle, 1)
    assert asked.tokens.count(info.image_token) == info.rows and len(asked.tokens) == info.rows + 6
    # Without its tile the prompt would be refused, so that a lap has seen it.
    assert code_of(lambda: ShownPrompt(asked.tokens).begin(session)) == "E657"
    job = Job("speed", str(exported.bundle), prompt_tokens=info.rows + 6, new_tokens=4, repetitions=2, threads=1)
    assert [len(each["gaps_s"]) for each in run_job(job)["laps"]] == [3, 3]
    with pytest.raises(InputError, match="of the image or sound"):
        bench(exported.bundle, prompt_tokens=CONTEXT - info.rows, new_tokens=2)


@pytest.mark.slow
def test_bench_says_what_was_shown(exported: Exported) -> None:
    info = open_bundle(exported.bundle).manifest.vision_language
    assert info is not None
    result = bench(exported.bundle, prompt_tokens=6, new_tokens=4, warmups=1, threads=1)
    head = result.records[0].comparability
    assert (head.shown, head.prompt_tokens) == (f"an image of {info.width} x {info.height}", info.rows + 6)
    named = {figure.name: figure.median for figure in result.figures}
    assert named["TTFT"] > 0 and named["decode"] > 0 and named["RSS over idle"] > 0


def test_eval_reads_text_as_the_float_model_does(exported: Exported, tmp_path: Path) -> None:
    family, text = exported.family, tmp_path / "a.txt"
    text.write_text("what is this a red house with two doors here " * 4)
    folder = save_vision_language(family, tmp_path / family)
    if family == "paligemma":
        assert code_of(lambda: evaluate(exported.bundle, text, reference=str(folder))) == "E657"
        return
    told = evaluate(exported.bundle, text, reference=str(folder)).overall
    assert told.predictions > 30 and told.top1_agreement is not None and told.kl_max is not None
    if exported.count == COUNTS["float"]:
        assert told.top1_agreement == 1 and told.kl_max < 1e-4
