"""A bundle's tokenizer gives the ids of the model's, also where its class depends on the model's config.json."""

from __future__ import annotations

import json
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer

from edgec.bundle.golden_texts import text_vectors
from edgec.bundle.tokenizer_folder import open_tokenizer
from edgec.exporter.bundled_tokenizer import tokenizer_contents
from edgec.exporter.sources.files.model_folder import tokenizer_files
from edgec.exporter.sources.tokenizer import load_tokenizer
from tests.apps.tokenizer_samples import sample
from tests.vision_words import tokenizer

TEXT = "what is this"


def model_folder(folder: Path, model_type: str) -> Path:
    tokenizer().save_pretrained(folder)
    (folder / "config.json").write_text(json.dumps({"model_type": model_type}))
    return folder


@pytest.mark.parametrize("model_type", ["llama", "qwen3_5_text"])
def test_a_bundle_reads_the_tokenizer_that_the_model_has(model_type: str, tmp_path: Path) -> None:
    source = model_folder(tmp_path / "model", model_type)
    own = load_tokenizer(source)
    (tmp_path / "bundle" / "tokenizer").mkdir(parents=True)
    for name, content in tokenizer_contents(tokenizer_files(source), own).items():
        (tmp_path / "bundle" / name).write_bytes(content if isinstance(content, bytes) else content.read_bytes())
    read = open_tokenizer(tmp_path / "bundle" / "tokenizer")
    assert type(read) is type(own)
    assert read(TEXT)["input_ids"] == own(TEXT)["input_ids"]


def written(source: Path, folder: Path) -> Path:
    """The tokenizer's folder of a bundle of a model's folder."""
    folder.mkdir(parents=True)
    for name, content in tokenizer_contents(tokenizer_files(source), load_tokenizer(source)).items():
        (folder / Path(name).name).write_bytes(content if isinstance(content, bytes) else content.read_bytes())
    return folder


def test_what_reads_the_same_is_copied(tmp_path: Path) -> None:
    files = tokenizer_files(model_folder(tmp_path, "llama"))
    made = tokenizer_contents(files, load_tokenizer(tmp_path))
    stated = json.loads(bytes(made.pop("tokenizer/tokenizer_config.json")))
    assert made == {f"tokenizer/{file.name}": file for file in files if file.name != "tokenizer_config.json"}
    declared = json.loads((tmp_path / "tokenizer_config.json").read_text())
    assert stated == {**stated, **declared, "clean_up_tokenization_spaces": False}
    assert tokenizer_contents((), None) == {}


# What swift-transformers does after decoding unless tokenizer_config.json says otherwise.
_CLEANED = {
    **{f" {mark}": mark for mark in (".", "?", "!", ",")},
    " ' ": "'",
    **{f" {end}": end for end in ("n't", "'m", "'s", "'ve", "'re")},
}


class FolderReader:
    """A tokenizer as swift-transformers reads it from a folder: its defaults, and no class's own changes.

    Its words are those of the library that transformers calls, too; what is compared is what the files say.
    """

    def __init__(self, folder: Path) -> None:
        self._steps = Tokenizer.from_file(str(folder / "tokenizer.json"))
        file = folder / "tokenizer_config.json"
        self.config = json.loads(file.read_text()) if file.is_file() else {}

    def encode(self, text: str) -> list[int]:
        return list(self._steps.encode(text).ids)

    def decode(self, ids: list[int]) -> str:
        text = str(self._steps.decode(ids))
        if not self.config.get("clean_up_tokenization_spaces", True):
            return text
        return reduce(lambda done, pair: done.replace(*pair), _CLEANED.items(), text)


def sample_folder(folder: Path, name: str, config: dict[str, Any]) -> Path:
    folder.mkdir()
    sample(name).save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder


CLASSES = {"llama2": "LlamaTokenizer", "gemma": "GemmaTokenizer", "gpt2": "GPT2Tokenizer", "bert": "BertTokenizer"}
CASES = [*((name, "PreTrainedTokenizerFast") for name in ("smollm", "llama3", "unigram", "bert")), *CLASSES.items()]


@pytest.mark.parametrize("clean", [None, True, False])
@pytest.mark.parametrize(("name", "kind"), CASES)
def test_a_reader_of_the_bundles_folder_gives_the_ids_and_texts_of_transformers(
    name: str, kind: str, clean: bool | None, tmp_path: Path
) -> None:
    stated = {} if clean is None else {"clean_up_tokenization_spaces": clean}
    source = sample_folder(tmp_path / "model", name, {"tokenizer_class": kind, **stated})
    own, reader = load_tokenizer(source), FolderReader(written(source, tmp_path / "bundle"))
    for vector in text_vectors(own):
        assert reader.encode(vector.text) == vector.ids, vector.label
        assert reader.decode(vector.ids) == vector.shown, vector.label


@pytest.mark.parametrize("option", [{"add_bos_token": True}, {"add_prefix_space": False}, {"legacy": False}])
def test_options_that_change_the_steps_are_in_the_steps(option: dict[str, bool], tmp_path: Path) -> None:
    source = sample_folder(tmp_path / "model", "llama2", {"tokenizer_class": "LlamaTokenizer", **option})
    own, folder = load_tokenizer(source), written(source, tmp_path / "bundle")
    reader, again = FolderReader(folder), open_tokenizer(folder)
    for vector in text_vectors(own):
        assert reader.encode(vector.text) == vector.ids == again(vector.text)["input_ids"], vector.label
        assert reader.decode(vector.ids) == vector.shown, vector.label


def test_what_other_readers_take_from_the_config_is_there(tmp_path: Path) -> None:
    bert = FolderReader(written(sample_folder(tmp_path / "model", "bert", {}), tmp_path / "bundle")).config
    assert bert["do_lower_case"] is True and bert["handle_chinese_chars"] is True
    assert bert["tokenizer_class"] == "TokenizersBackend"
    llama = sample_folder(tmp_path / "llama", "llama2", {"tokenizer_class": "LlamaTokenizer", "unk_token": "<unk>"})
    stated = FolderReader(written(llama, tmp_path / "other")).config
    assert stated["fuse_unk"] is True
    # transformers knows them by the class; a chat template in an app would write nothing for them.
    assert (stated["bos_token"], stated["eos_token"], stated["unk_token"]) == ("<s>", "</s>", "<unk>")
