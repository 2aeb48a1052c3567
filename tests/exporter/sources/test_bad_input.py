"""Bad models are refused with a stable code, a cause and a fix, and nothing is written."""

from __future__ import annotations

import importlib.util
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from edgec.errors import InputError
from edgec.exporter.sources.resolve import resolve
from edgec.exporter.sources.tokenizer import load_tokenizer
from tests.exporter.tiny_sources import (
    ENCODER,
    llama_tensors,
    raw_safetensors,
    tree,
    write_config,
    write_llama,
    write_shards,
)

Make = Callable[[Path], str]


@pytest.fixture(autouse=True)
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The current directory: empty, and on the way out what the test itself put there and nothing else."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.dont_write_bytecode", True)
    yield tmp_path


def _refusal(model: str, folder: Path, **options: object) -> InputError:
    before = tree(folder)
    with pytest.raises(InputError) as caught:
        resolve(model, **options)  # type: ignore[arg-type]
    error = caught.value
    assert tree(folder) == before
    assert error.what
    assert error.fix
    assert "\n" not in error.why
    return error


def _write(folder: Path, **files: str | bytes) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        data = content.encode() if isinstance(content, str) else content
        (folder / name.replace("__", ".")).write_bytes(data)
    return str(folder)


def _truncated(folder: Path) -> str:
    file = write_llama(folder) / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-100])
    return str(folder)


def _missing_shard(folder: Path) -> str:
    (write_shards(folder) / "model-00002-of-00002.safetensors").unlink()
    return str(folder)


def _moved_tensor(folder: Path) -> str:
    index = write_shards(folder) / "model.safetensors.index.json"
    table = json.loads(index.read_text())
    table["weight_map"]["model.norm.weight"] = "model-00001-of-00002.safetensors"
    index.write_text(json.dumps(table))
    return str(folder)


def _index(folder: Path, text: str) -> str:
    (write_shards(folder) / "model.safetensors.index.json").write_text(text)
    return str(folder)


def _pickle(folder: Path) -> str:
    write_config(folder)
    torch.save(llama_tensors(), folder / "pytorch_model.bin")
    return str(folder)


def _weightless(folder: Path) -> str:
    write_config(folder)
    return _write(folder, README__md="# Card\n")


CASES: dict[str, tuple[str, Make]] = {
    "no such path": ("E101", lambda f: str(f / "nowhere")),
    "empty": ("E101", lambda f: ""),
    "not a name of anything": ("E101", lambda f: "what is this?"),
    "a name far too long": ("E101", lambda f: "x/" * 5000),
    "an unknown user": ("E101", lambda f: "~nobody-of-that-name/model"),
    "a bare config": ("E104", lambda f: str(write_config(f / "m"))),
    "a bare config file": ("E104", lambda f: str(write_config(f / "m") / "config.json")),
    "truncated weights": ("E105", lambda f: _truncated(f / "m")),
    "a tensor in another shard": ("E105", lambda f: _moved_tensor(f / "m")),
    "an index that leaves the folder": ("E105", lambda f: _index(f / "m", '{"weight_map": {"a": "../../etc/passwd"}}')),
    "an index that is not an index": ("E105", lambda f: _index(f / "m", '{"weight_map": ["a"]}')),
    "an index of numbers": ("E105", lambda f: _index(f / "m", '{"weight_map": {"a": 3}}')),
    "an empty index": ("E105", lambda f: _index(f / "m", '{"weight_map": {}}')),
    "another width than the weights": ("E106", lambda f: str(write_llama(f / "m", {"intermediate_size": 96}))),
    "fewer layers than the weights": ("E106", lambda f: str(write_llama(f / "m", {"num_hidden_layers": 1}))),
    "more layers than the weights": ("E106", lambda f: str(write_llama(f / "m", {"num_hidden_layers": 3}))),
    "another vocabulary": ("E106", lambda f: str(write_llama(f / "m", {"vocab_size": 256}))),
    "untied without its matrix": ("E106", lambda f: str(write_llama(f / "m", {"tie_word_embeddings": False}))),
    "pickled weights": ("E107", lambda f: _pickle(f / "m")),
    "no such module": ("E108", lambda f: "no_such_module_anywhere:make"),
    "an unknown architecture": ("E109", lambda f: str(write_llama(f / "m", {"model_type": "noidea"}))),
    "no architecture": ("E109", lambda f: _write(f / "m", config__json="{}")),
    "an architecture that is a number": ("E109", lambda f: str(write_llama(f / "m", {"model_type": 7}))),
    "no config": ("E111", lambda f: _write(f / "m", README__md="# Card")),
    "broken JSON": ("E111", lambda f: _write(f / "m", config__json='{"model_type": ')),
    "a config that is a list": ("E111", lambda f: _write(f / "m", config__json="[]")),
    "a config in no encoding": ("E111", lambda f: _write(f / "m", config__json=b"\xff\xfe\x00{")),
    "bottomless nesting": ("E111", lambda f: _write(f / "m", config__json="[" * 100_000)),
    "a width that is a text": ("E111", lambda f: str(write_llama(f / "m", {"hidden_size": "wide"}))),
    "a width of zero": ("E111", lambda f: str(write_llama(f / "m", {"hidden_size": 0}))),
    "heads that do not divide": ("E111", lambda f: str(write_llama(f / "m", {"num_attention_heads": 5}))),
    "a billion layers": ("E111", lambda f: str(write_llama(f / "m", {"num_hidden_layers": 10**9}))),
    "an unknown activation": ("E111", lambda f: str(write_llama(f / "m", {"hidden_act": "wobble"}))),
    "no weights": ("E112", lambda f: _weightless(f / "m")),
    "a missing shard": ("E112", lambda f: _missing_shard(f / "m")),
    "a GGUF file that ends at once": ("E802", lambda f: _write(f / "m", x__gguf=b"GGUF") + "/x.gguf"),
    "a folder of such a file": ("E802", lambda f: _write(f / "m", x__gguf=b"GGUF")),
    "a folder of two GGUF files": ("E114", lambda f: _write(f / "m", x__gguf=b"GGUF", y__gguf=b"GGUF")),
    "quantised in a way that is not read": (
        "E814",
        lambda f: str(write_llama(f / "m", {"quantization_config": {"quant_method": "hqq"}})),
    ),
    "quantised without its bits": (
        "E815",
        lambda f: str(write_llama(f / "m", {"quantization_config": {"quant_method": "gptq"}})),
    ),
    "floats that are said to be integers": (
        "E815",
        lambda f: str(write_llama(f / "m", {"quantization_config": {"quant_method": "gptq", "bits": 4}})),
    ),
    "an adapter without settings": ("E692", lambda f: _write(f / "m", adapter_config__json="{}")),
    "a bundle": ("E145", lambda f: _write(f / "m.edgec", manifest__json="{}")),
    "a weight file alone": ("E145", lambda f: str(write_llama(f / "m") / "model.safetensors")),
    "a state dict": ("E885", lambda f: _saved(f / "net.pt")),
    "a checkpoint of another name": ("E885", lambda f: _write(f / "m", x__ckpt=b"\x80\x02}q\x00.") + "/x.ckpt"),
    "a Python file": ("E145", lambda f: _write(f / "m", x__py="") + "/x.py"),
}


@pytest.mark.parametrize(("code", "make"), CASES.values(), ids=CASES)
def test_a_bad_model_is_refused(code: str, make: Make, tmp_path: Path) -> None:
    assert _refusal(make(tmp_path), tmp_path).code == code


def _saved(file: Path) -> str:
    torch.save({"weight": torch.zeros(2)}, file)
    return str(file)


def test_a_file_of_weights_brings_the_factory_that_reads_it(tmp_path: Path) -> None:
    said = _refusal(_saved(tmp_path / "net.pt"), tmp_path)
    assert 'load_state_dict(torch.load("net.pt", weights_only=True))' in said.fix and "my_model:make" in said.fix
    torch.jit.script(torch.nn.ReLU()).save(str(tmp_path / "script.pt"))
    said = _refusal(str(tmp_path / "script.pt"), tmp_path)
    assert 'torch.jit.load("script.pt")' in said.fix and "TorchScript" in said.what


def test_a_mistyped_path_brings_the_nearest_name(tmp_path: Path) -> None:
    write_llama(tmp_path / "models" / "tiny-llama")
    assert "tiny-llama" in _refusal(str(tmp_path / "models" / "tiny-lama"), tmp_path).fix


def test_a_bare_config_says_how_to_go_on(tmp_path: Path) -> None:
    assert "--random-weights" in _refusal(str(write_config(tmp_path / "m")), tmp_path).fix


def test_truncated_weights_name_the_file_and_both_sizes(tmp_path: Path) -> None:
    whole = (write_llama(tmp_path / "m") / "model.safetensors").stat().st_size
    error = _refusal(_truncated(tmp_path / "m"), tmp_path)
    assert error.where.endswith("model.safetensors")
    assert f"expected {whole} bytes, the file has {whole - 100}" in error.why


def test_a_contradiction_lists_the_tensors_shortened(tmp_path: Path) -> None:
    error = _refusal(str(write_llama(tmp_path / "m", {"num_hidden_layers": 1})), tmp_path)
    assert error.where == "9 unexpected"
    assert "model.layers.1." in error.why
    assert "and 6 more" in error.why
    wide = _refusal(str(write_llama(tmp_path / "m", {"vocab_size": 256})), tmp_path)
    assert "model.embed_tokens.weight: the config says [256, 32], the weights hold [128, 32]" in wide.why


def test_keys_and_values_may_be_missing_only_where_adapt_shared_them(tmp_path: Path) -> None:
    gone = {f"model.layers.0.self_attn.{name}_proj.weight" for name in "kv"}
    tensors = {name: value for name, value in llama_tensors().items() if name not in gone}
    record = {"mode": "reuse", "boundary": 1}
    assert _refusal(str(write_llama(tmp_path / "m", {"edgec": record}, tensors)), tmp_path).code == "E106"
    for broken in ("reuse", {"mode": "reuse"}, {"mode": "project", "boundary": 0}, {"mode": "reuse", "boundary": "0"}):
        assert _refusal(str(write_llama(tmp_path / "m", {"edgec": broken}, tensors)), tmp_path).code == "E106"


def test_allowed_pickles_are_read(tmp_path: Path) -> None:
    source = resolve(_pickle(tmp_path / "m"), allow_pickle=True)
    assert source.weights is not None
    assert torch.equal(source.weights.tensor("model.norm.weight"), llama_tensors()["model.norm.weight"])


class Exploit:
    """Touches a file when it is unpickled."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return open, ("exploited", "w")  # type: ignore[return-value]


def test_a_hostile_pickle_runs_nothing_even_when_pickles_are_allowed(tmp_path: Path) -> None:
    write_config(tmp_path / "m")
    torch.save({"a": Exploit()}, tmp_path / "m" / "pytorch_model.bin")
    assert _refusal(str(tmp_path / "m"), tmp_path, allow_pickle=True).code == "E105"
    assert not (tmp_path / "exploited").exists()


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"garbage", b"\x80\x02]."])
def test_a_damaged_pickle(content: bytes, tmp_path: Path) -> None:
    model = _write(write_config(tmp_path / "m"), pytorch_model__bin=content)
    assert _refusal(model, tmp_path, allow_pickle=True).code == "E105"


FACTORIES = {
    "cannot be imported": ("raise ValueError('no licence key')", "no licence key"),
    "leaves the program": ("raise SystemExit(3)", "SystemExit"),
    "has no such name": ("", "make"),
    "fails": ("def make(): raise OSError('no weights here')", "no weights here"),
    "returns nothing": ("def make(): pass", "NoneType"),
    "returns no inputs": ("import torch\ndef make(): return torch.nn.Linear(2, 2)", "tensors"),
    "returns lists": ("import torch\ndef make(): return torch.nn.Linear(2, 2), [[1.0]]", "tensors"),
    "returns empty inputs": ("import torch\ndef make(): return torch.nn.Linear(2, 2), ()", "tensors"),
    "wants arguments": ("def make(x): return x", "argument"),
    "is a number": ("make = 3", "int"),
}


@pytest.mark.long
@pytest.mark.sweep(4)
@pytest.mark.parametrize("case", FACTORIES.values(), ids=FACTORIES)
def test_a_bad_factory(case: tuple[str, str], tmp_path: Path) -> None:
    code, reason = case
    stem = f"bad_factory_{abs(hash(code))}"
    (tmp_path / f"{stem}.py").write_text(code)
    with pytest.raises(InputError) as caught:
        source = resolve(f"{stem}:make")
        assert source.factory is not None
        source.factory()
    assert caught.value.code == "E108"
    assert reason in caught.value.why


def test_remote_code_is_not_run_unasked(tmp_path: Path) -> None:
    write_llama(tmp_path / "m", {"model_type": "homemade", "auto_map": {"AutoConfig": "code.Config"}})
    (tmp_path / "m" / "code.py").write_text("open('ran', 'w')")
    error = _refusal(str(tmp_path / "m"), tmp_path)
    assert error.code == "E109"
    assert "trust_remote_code is off" in error.why


@pytest.mark.parametrize("task", ["fill-in-the-blanks", "image-classification"])
@pytest.mark.parametrize("optimum", [True, False])
def test_a_task_that_is_unknown_or_does_not_suit(
    task: str, optimum: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if optimum and importlib.util.find_spec("optimum.exporters") is None:
        pytest.skip("needs the extra edgec[optimum]")
    monkeypatch.setattr("edgec.exporter.sources.tasks.find_spec", lambda _name: object() if optimum else None)
    config = {"model_type": "bert", "architectures": ["BertForMaskedLM"], **ENCODER}
    model = _write(tmp_path / "m", config__json=json.dumps(config))
    error = _refusal(model, tmp_path, random_weights=True, task=task)
    assert error.code == "E146"


def test_a_head_that_was_never_trained_is_refused(tmp_path: Path) -> None:
    import transformers

    transformers.BertModel(transformers.BertConfig(**ENCODER)).save_pretrained(tmp_path / "m")
    error = _refusal(str(tmp_path / "m"), tmp_path, task="text-classification")
    assert error.code == "E106"
    assert "classifier.weight" in error.why


@pytest.mark.parametrize("damage", ["absent", "cut", "not json", "wrong type"])
def test_a_tokenizer_that_cannot_be_read(damage: str, tmp_path: Path) -> None:
    folder = write_llama(tmp_path / "m")
    contents = {"cut": '{"version": "1.0", "model"', "not json": "tokenizer", "wrong type": '{"model": 3}'}
    if damage in contents:
        (folder / "tokenizer.json").write_text(contents[damage])
        (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "PreTrainedTokenizerFast"}')
    with pytest.raises(InputError) as caught:
        load_tokenizer(folder)
    assert caught.value.code == "E113"


def test_experts_that_do_not_fit_together(tmp_path: Path) -> None:
    import transformers

    config = transformers.MixtralConfig(**{**ENCODER, "num_key_value_heads": 2}, num_local_experts=2)
    transformers.MixtralForCausalLM(config).save_pretrained(tmp_path / "m")
    file = tmp_path / "m" / "model.safetensors"
    tensors = load_file(file)
    name = next(name for name in tensors if name.endswith("experts.0.w1.weight"))
    save_file({**tensors, name: torch.ones(3, 5)}, file)
    assert _refusal(str(tmp_path / "m"), tmp_path).code == "E106"


def test_a_mutated_config_gives_a_model_or_an_input_error(tmp_path: Path) -> None:
    folder = write_llama(tmp_path / "m")
    text = (folder / "config.json").read_bytes()
    draw = random.Random(1)
    refused = 0
    for _ in range(60):
        damaged = bytearray(text)
        for _ in range(draw.randint(1, 3)):
            damaged[draw.randrange(len(text))] = draw.randrange(32, 127)
        (folder / "config.json").write_bytes(damaged)
        try:
            resolve(str(folder))
        except InputError as error:
            refused += error.fix != ""
    assert refused > 10


def test_random_weights_do_not_need_the_damaged_files(tmp_path: Path) -> None:
    folder = write_config(tmp_path / "m")
    (folder / "model.safetensors").write_bytes(raw_safetensors(b"{", b""))
    assert resolve(str(folder), random_weights=True).trained is False
