"""`edgec plan`: what is printed, for people and for machines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from edgec.cli.plan import plan
from edgec.errors import InputError
from tests.exporter.resolve.cached_models import cache_models
from tests.runtime_py.adapters.loras import pairs, write_lora

CONFIG: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 1024,
    "num_hidden_layers": 24,
    "num_attention_heads": 16,
    "num_key_value_heads": 4,
    "intermediate_size": 4096,
    "vocab_size": 32000,
    "max_position_embeddings": 8192,
    "tie_word_embeddings": True,
}
APP = typer.Typer()
APP.command()(plan)


@pytest.fixture(autouse=True)
def _read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    cache_models(monkeypatch)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    return tmp_path


def output(*arguments: object) -> str:
    result = CliRunner().invoke(APP, [str(argument) for argument in arguments], env={"COLUMNS": "160"})
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.mark.long
def test_the_page_says_whether_it_fits_how_fast_it_is_and_what_to_run(folder: Path) -> None:
    text = output(folder, "--target", "iphone-13-pro-cpu")
    for expected in (
        "Apple iPhone 13 Pro, CPU, as an ExecuTorch .pte",
        "in 8 of 10 cases the true one is meant to lie in the range",
        "tokens/s",
        "KV cache",
        "an app is granted 3,000 to 3,120 MB (measured)",
        f"edgec export {folder} --target iphone-13-pro-cpu",
    ):
        assert expected in text
    assert text.index("Fits") < text.index("decode (writes the answer)") < text.index("next") < text.index("assumed")


@pytest.mark.long
def test_each_phase_has_the_speeds_of_all_units(folder: Path) -> None:
    text = " ".join(output(folder, "--target", "iphone-17-pro").split())
    for expected in ("units, tokens/s prefill decode", "Neural Engine", "limited by arithmetic", "GB/s"):
        assert expected in text
    phases = json.loads(output(folder, "--target", "iphone-17-pro", "--json"))["phase_units"]
    assert [phase["phase"] for phase in phases] == ["prefill", "decode"]
    assert {speed["unit"] for speed in phases[0]["speeds"]} == {"npu", "gpu", "cpu"}


@pytest.mark.long
def test_unknown_is_said_and_never_zero(folder: Path) -> None:
    text = output(folder / "config.json", "--target", "host")
    assert "unavailable" in text
    assert "how much memory it has is not known: likely with 4 GB or more" in text


@pytest.mark.long
def test_a_note_is_given_once(folder: Path) -> None:
    text = " ".join(output(folder, "--target", "iphone-15-pro").split())
    notes = [note.strip() for note in text.split(" note ")[1:]]
    assert notes and all(text.count(note) == 1 for note in notes)


def test_a_small_share_of_the_memory_is_not_none(folder: Path) -> None:
    tiny = {**CONFIG, "hidden_size": 64, "num_hidden_layers": 2, "intermediate_size": 128, "vocab_size": 256}
    (folder / "config.json").write_text(json.dumps(tiny))
    assert "at most 1 % of its 8 GB" in output(folder, "--target", "iphone-15-pro", "--context", 64)


@pytest.mark.long
def test_a_smaller_recipe_is_printed(folder: Path) -> None:
    arguments = ("--weight-bits", 32, "--lm-head-bits", 32, "--embedding-bits", 32)
    text = output(folder, "--target", "iphone-12-mini-cpu", *arguments)
    assert "Does not fit" in text or "May not fit" in text
    assert "--target iphone-12-mini-cpu --recipe" in text and "needs at most" in text
    # No export is asked for bits.
    assert "--target iphone-12-mini-cpu\n" not in text


@pytest.mark.long
def test_json_has_the_whole_plan(folder: Path) -> None:
    data = json.loads(output(folder, "--target", "iphone-17-pro", "--json", "--context", 2048, "--kv-bits", 8))
    assert data["target"]["name"] == "iphone-17-pro"
    assert data["widths"]["kv_bits"] == 8
    assert data["context"] == 2048
    assert data["speeds"]["decode_tokens_per_s"]["how"] == "estimated"


@pytest.mark.long
def test_the_kv_cache_is_as_wide_as_the_target_computes(folder: Path) -> None:
    for target, recipe, bits in (
        ("iphone-17-pro", "float", 16),
        ("iphone-17-pro-cpu", "float", 32),
        ("iphone-17-pro-cpu", "4bit", 16),  # by the recipe
    ):
        plan = json.loads(output(folder, "--target", target, "--recipe", recipe, "--json"))
        assert plan["widths"]["kv_bits"] == bits


def test_an_encoder_has_size_and_memory_but_no_tokens() -> None:
    config = Path(__file__).parents[2] / "benchmarks" / "architectures" / "tiny-vit.json"
    text = output(config, "--target", "galaxy-s24-ultra-cpu")
    assert "memory" in text and "no measurements are known of models with an encoder" in text
    assert "tokens" not in text and "prefill" not in text
    assert json.loads(output(config, "--target", "galaxy-s24-ultra-cpu", "--json"))["phase_units"] == []


def test_an_unknown_phone_is_a_typed_error(folder: Path) -> None:
    result = CliRunner().invoke(APP, [str(folder), "--target", "iphone-99"])
    assert isinstance(result.exception, InputError)
    assert result.exception.code == "E163"


def test_a_phone_is_required(folder: Path) -> None:
    result = CliRunner().invoke(APP, [str(folder)])
    assert isinstance(result.exception, InputError) and result.exception.code == "E866"


@pytest.mark.long
def test_a_phone_of_the_users_own_is_planned_for_and_then_forgotten(folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "phone.toml"
    figures = "memory_bytes = 6_442_450_944\nbandwidth_bytes_per_s = 34.1e9\n"
    file.write_text(f'[my-phone]\nname = "My phone"\nos = "android"\nunits = ["gpu", "cpu"]\n{figures}')
    data = json.loads(output(folder, "--phone", file, "--target", "cpu", "--json"))
    assert (data["target"]["name"], data["target"]["memory_bytes"]) == ("my-phone-cpu", 6 * 2**30)
    assert data["speeds"]["decode_tokens_per_s"]["low"] > 0  # of any phone's CPU, with this bandwidth
    assert "My phone, GPU, as an ExecuTorch .pte" in output(folder, "--phone", file)
    for arguments, code in (
        (["--target", "my-phone"], "E163"),
        (["--phone", str(file), "--target", "pixel-8"], "E866"),
        (["--phone", str(tmp_path / "none.toml")], "E860"),
    ):
        error = CliRunner().invoke(APP, [str(folder), *arguments]).exception
        assert isinstance(error, InputError) and error.code == code


@pytest.mark.long
def test_a_name_as_people_write_it_is_planned_for(folder: Path) -> None:
    assert json.loads(output(folder, "--target", "Galaxy S24 Ultra", "--json"))["target"]["phone"] == "galaxy-s24-ultra"


@pytest.mark.long
def test_adapters_of_the_artifact_count(folder: Path, tmp_path: Path) -> None:
    where = ("--target", "iphone-16-pro", "--json")
    lora = write_lora(tmp_path / "lora", pairs())
    plain, more = (json.loads(output(folder, *where, *given)) for given in ((), ("--adapter", f"pirate={lora}")))
    added = sum(2 * (a.numel() + b.numel()) for a, b in pairs().values())
    assert {"name": "adapters", "bytes": added} in more["footprint"]["parts"]
    assert more["footprint"]["size_bytes"]["low"] - plain["footprint"]["size_bytes"]["low"] == added
    refused = CliRunner().invoke(APP, [str(folder), "--target", "android-cpu", "--adapter", f"pirate={lora}"])
    assert isinstance(refused.exception, InputError) and refused.exception.code == "E765"
