"""Whatever is wrong with a model's folder, a recipe or a project file: a typed error, or it is read; never a crash."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import pytest

from edgec.devices.prediction.forecast import plan
from edgec.devices.targets import load_target
from edgec.errors import EdgecError, InputError
from edgec.exporter.dimensions.parameters import decoder_shape, read_config
from edgec.exporter.recipes.adapt_record import recorded_recipe
from edgec.exporter.recipes.checks import check_recipe
from edgec.exporter.recipes.file import load_recipe
from edgec.exporter.recipes.passes import passes_for
from edgec.exporter.recipes.recipe import for_backend
from edgec.exporter.resolve.project_file import find_project, require_model
from edgec.exporter.resolve.widths import recipe_widths
from edgec.exporter.sources.decoders.spec import model_spec
from edgec.exporter.sources.files.model_folder import find_licence
from edgec.exporter.sources.resolve import resolve
from edgec.exporter.sources.tokenizer import check_tokenizer, load_tokenizer
from edgec.exporter.sources.weight_choice import stored_weights
from edgec.exporter.sweep.spec import read_spec
from tests.exporter.sources.fuzz_bases import CONFIGS, INDEX, PROJECT, RECIPE, SWEEP, TOKENIZER_CONFIG
from tests.exporter.sources.mutations import Damage, damaged_json, damaged_toml
from tests.runtime_py.tiny_decoder import tiny_tokenizer

Read = Callable[[Path], object]
FAST, MANY = 3, 150


def _outcomes(damages: Iterable[Damage], file: Path, read: Read) -> Counter[str]:
    """How often each code came out, "" where it was read; any other exception fails the test with what was damaged."""
    counts: Counter[str] = Counter()
    for damage in damages:
        file.write_bytes(damage.content)
        try:
            read(file)
            counts[""] += 1
        except EdgecError as error:
            assert error.what and error.fix, damage.what
            counts[error.code] += 1
        except Exception as error:
            raise AssertionError(f"{file.name}: {damage.what}") from error
    return counts


def _model(file: Path) -> None:
    recorded_recipe(file.parent)
    source = resolve(str(file.parent), random_weights=True)
    if source.kind == "decoder":
        model_spec(source.config)


def _planned(file: Path) -> None:
    plan(decoder_shape(read_config(file.parent)), load_target("iphone"))


def _recipe(file: Path) -> None:
    recipe = load_recipe(file)
    for backend in ("xnnpack", "coreml"):
        check_recipe(recipe, backend)
        resolved = for_backend(recipe, backend)
        recipe_widths(resolved)
        passes_for(resolved)


def _project(file: Path) -> None:
    require_model(find_project(file.parent))


def _tokenizer(file: Path) -> None:
    check_tokenizer(load_tokenizer(file.parent), 512, str(file))


TOML: Mapping[str, tuple[str, list[str], Read]] = {
    "a recipe": ("mine.toml", RECIPE, _recipe),
    "a project": ("edgec.toml", PROJECT, _project),
    "a sweep": ("sweep.toml", SWEEP, read_spec),
}


def _damaged_config(folder: Path, family: str, count: int) -> Counter[str]:
    damages = list(damaged_json(CONFIGS[family], count, seed=len(family)))
    counts = _outcomes(damages, folder / "config.json", _model)
    counts.update(_outcomes(damages, folder / "config.json", _planned))
    assert counts.total() == 2 * len(damages)
    return counts


@pytest.mark.parametrize("family", CONFIGS)
def test_a_whole_config_is_read(tmp_path: Path, family: str) -> None:
    (tmp_path / "config.json").write_text(json.dumps(CONFIGS[family]))
    _model(tmp_path / "config.json")


@pytest.mark.long
@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_a_few_damaged_configs(tmp_path: Path, family: str) -> None:
    assert _damaged_config(tmp_path, family, FAST)["E111"] > 10


@pytest.mark.slow
@pytest.mark.parametrize("family", CONFIGS)
def test_many_damaged_configs(tmp_path: Path, family: str) -> None:
    counts = _damaged_config(tmp_path, family, MANY)
    assert counts[""] > 10 and counts["E111"] > 50, counts


@pytest.mark.parametrize("kind", TOML)
@pytest.mark.parametrize("count", [50, pytest.param(1_000, marks=pytest.mark.slow)])
def test_damaged_toml(tmp_path: Path, kind: str, count: int) -> None:
    name, lines, read = TOML[kind]
    (tmp_path / name).write_text("\n".join(lines))
    read(tmp_path / name)
    counts = _outcomes(damaged_toml(lines, count, seed=count), tmp_path / name, read)
    assert counts.total() >= count and counts[""] > 0, counts


@pytest.mark.parametrize("count", [20, pytest.param(300, marks=pytest.mark.slow)])
def test_damaged_index_files(tmp_path: Path, count: int) -> None:
    damages = damaged_json(INDEX, count, seed=count)
    counts = _outcomes(
        damages, tmp_path / "model.safetensors.index.json", lambda file: stored_weights(file.parent, False)
    )
    assert counts.keys() <= {"E105", "E112"}, counts


def test_a_model_card_that_expands_without_end_is_left_alone(tmp_path: Path) -> None:
    levels = [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    card = "\n".join(["---", "a0: &a0 [x, x]", *levels, "license: *a11", "---"])
    (tmp_path / "README.md").write_text(card)
    assert find_licence(tmp_path) is None


@pytest.mark.parametrize("odd", [["LlamaTokenizerFast"], 7, {"a": 1}], ids=str)
def test_a_tokenizer_class_that_is_no_name_is_refused(tmp_path: Path, odd: object) -> None:
    tiny_tokenizer().save_pretrained(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({**TOKENIZER_CONFIG, "tokenizer_class": odd}))
    with pytest.raises(InputError) as caught:
        load_tokenizer(tmp_path)
    assert caught.value.code == "E113"


@pytest.mark.parametrize("count", [3, pytest.param(200, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", ["tokenizer_config.json", "tokenizer.json", "special_tokens_map.json"])
def test_damaged_tokenizer_files(tmp_path: Path, name: str, count: int) -> None:
    tiny_tokenizer().save_pretrained(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(TOKENIZER_CONFIG))
    file = tmp_path / name
    document = json.loads(file.read_bytes()) if file.exists() else {"bos_token": "<s>", "eos_token": "</s>"}
    _tokenizer(tmp_path / "tokenizer.json")
    counts = _outcomes(damaged_json(document, count, seed=count), file, _tokenizer)
    assert counts.keys() <= {"", "E113", "E140"}, counts
