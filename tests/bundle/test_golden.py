"""Golden vectors pin what a tokenizer and an artifact said, and a tokenizer of another model is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgec.bundle.golden import TOP, Golden, golden_bytes, output_vector, probe_values, read_golden
from edgec.bundle.golden_function import function_vector
from edgec.bundle.golden_texts import TEXTS, chat_vector, text_vectors
from edgec.errors import InputError
from edgec.exporter.sources.tokenizer import check_tokenizer, round_trips


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    """A byte-level BPE of 300 tokens with a chat template: lossless."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=300, special_tokens=["<bos>", "<eos>"], initial_alphabet=alphabet)
    bpe.train_from_iterator(["a few words to merge, and a few more words"], trainer)
    template = "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}[assistant]"
    return PreTrainedTokenizerFast(tokenizer_object=bpe, bos_token="<bos>", eos_token="<eos>", chat_template=template)


def test_every_text_is_recorded_and_a_byte_level_tokenizer_loses_none(tokenizer: Any) -> None:
    vectors = text_vectors(tokenizer)
    assert [vector.label for vector in vectors] == [label for label, _ in TEXTS]
    assert all(vector.ids for vector in vectors)
    assert round_trips(vectors).changed == ()
    assert str(round_trips(vectors)) == f"{len(TEXTS)} of {len(TEXTS)} test texts survive encode and decode"


def test_a_text_that_does_not_come_back_is_named(tokenizer: Any) -> None:
    vectors = text_vectors(tokenizer)
    lossy = [vectors[0].model_copy(update={"round_trip": False}), *vectors[1:]]
    assert round_trips(lossy).changed == ("english",) and "english" in str(round_trips(lossy))


def test_the_chat_template_is_recorded_where_there_is_one(tokenizer: Any) -> None:
    vector = chat_vector(tokenizer)
    assert vector is not None and vector.rendered.startswith("[user]What is the capital")
    assert vector.rendered.endswith("[assistant]") and tokenizer.decode(vector.ids) == vector.rendered

    class Plain:
        chat_template = None

    assert chat_vector(Plain()) is None


def test_golden_vectors_survive_the_file_byte_for_byte(tokenizer: Any, tmp_path: Path) -> None:
    logits = np.linspace(-3, 5, 2 * 40, dtype=np.float32).reshape(2, 40)
    golden = Golden(
        texts=text_vectors(tokenizer),
        chat=chat_vector(tokenizer),
        outputs=(output_vector([1, 2, 3], [39, 39], logits),),
        functions=(function_vector({"tokens": 9}, {"out": logits}),),
    )
    (tmp_path / "golden.json").write_bytes(golden_bytes(golden))
    assert read_golden(tmp_path / "golden.json") == golden
    assert golden_bytes(read_golden(tmp_path / "golden.json")) == golden_bytes(golden)


def test_an_output_vector_probes_the_first_and_the_last_position() -> None:
    logits = np.zeros((3, 20), dtype=np.float32)
    logits[:, 5], logits[:, 7] = 4, 3.5
    logits[2, 7] = 9
    vector = output_vector([10, 11], [5, 5, 7], logits, relative_tolerance=0.1)
    assert [probe.position for probe in vector.probes] == [1, 3]
    assert vector.probes[0].ids[:3] == [5, 7, 0] and len(vector.probes[0].ids) == TOP, "equal logits by id"
    assert vector.probes[1].logits[:2] == [9, 4]
    assert vector.margins == [0.5, 0.5, 5] and vector.tolerance == pytest.approx(0.9)


@pytest.mark.parametrize("logits", [np.zeros((1, 9)), np.zeros((0, 9)), np.full((2, 9), np.nan)])
def test_logits_that_cannot_be_golden_are_refused(logits: Any) -> None:
    with pytest.raises(ValueError, match="finite"):
        output_vector([1], [2, 3], logits)


def test_probe_inputs_follow_their_formula() -> None:
    raw = [(2654435761 * i + 12345) % 2**32 for i in range(6)]
    floats = probe_values([2, 3], "float32")
    assert floats.dtype == np.float32 and floats.shape == (2, 3)
    np.testing.assert_allclose(floats.ravel(), [x / 2**31 - 1 for x in raw], rtol=1e-6)  # one rounding to float32
    assert probe_values([6], "int64", 7).tolist() == [x % 7 for x in raw]
    assert probe_values([6], "int64").tolist() == [0] * 6


@pytest.mark.parametrize("content", ["", "[]", '{"golden_version": 2}', '{"texts": 1}', "{}}"])
def test_unreadable_golden_vectors_are_a_typed_error(tmp_path: Path, content: str) -> None:
    (tmp_path / "golden.json").write_text(content)
    with pytest.raises(InputError) as caught:
        read_golden(tmp_path / "golden.json")
    assert caught.value.code == "E138"


def test_a_tokenizer_fits_an_embedding_of_its_size_or_larger(tokenizer: Any) -> None:
    check_tokenizer(tokenizer, len(tokenizer), "model")
    check_tokenizer(tokenizer, len(tokenizer) + 64, "model")


def test_a_tokenizer_with_more_ids_than_embeddings_is_refused(tokenizer: Any) -> None:
    with pytest.raises(InputError) as caught:
        check_tokenizer(tokenizer, len(tokenizer) - 1, "some/model")
    error = caught.value
    assert error.code == "E140" and error.where == "some/model" and str(len(tokenizer) - 1) in error.why


def test_a_special_id_outside_the_embedding_is_refused() -> None:
    class Odd:
        all_special_ids = (-1,)

        def get_vocab(self) -> dict[str, int]:
            return {"a": 0}

        def convert_ids_to_tokens(self, number: int) -> str:
            return "<odd>"

    with pytest.raises(InputError, match="does not match") as caught:
        check_tokenizer(Odd(), 10, "model")
    assert "<odd>" in caught.value.why
