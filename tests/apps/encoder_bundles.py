"""Tiny sentence encoders whose tokenizers are BERT's, and texts that are hard to read and to cut."""

from __future__ import annotations

import string
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import edgec
from edgec.bundle.entry_points import MethodInfo, TensorInfo
from edgec.bundle.folder import Bundle, open_bundle, write_bundle
from edgec.bundle.golden import Golden, golden_bytes, probe_values
from edgec.bundle.golden_function import function_vector
from edgec.bundle.golden_texts import text_vectors
from edgec.bundle.sentence_prompts import SentencePrompts
from tests.apps.ios_bundles import module_manifest
from tests.exporter.tiny_sentence_encoder import POSITIONS, save_sentence_encoder, write

TEXTS = (
    "",
    "a",
    "The red ball.",
    "Élève naïve, Ångström!",
    "  two  spaces,\ttab\n",
    "今天天气很好 [SEP] [UNK] x",
    "3.14159 e-9 don't",
    "unfathomably long wordswithoutanend",
    " ".join(f"word{i}" for i in range(30)),
    "ab " * 2000,
)
"""The last two have more tokens than the models read; of texts as long as the last, Python reads a part at first."""


WIDTH = 24


@cache
def wordpiece() -> Any:
    """The tokenizers library's BERT tokenizer over a vocabulary of letters and a few words."""
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

    letters = [*string.ascii_lowercase, *string.digits]
    own = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "red", "ball", "word", "##ly", "##able", "今", "天"]
    words = [*own, *letters, *(f"##{each}" for each in letters), *string.punctuation]
    vocabulary = {word: index for index, word in enumerate(words)}
    made = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]", max_input_chars_per_word=100))
    made.normalizer = normalizers.BertNormalizer(lowercase=True)
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.decoder = decoders.WordPiece(prefix="##")
    made.post_processor = processors.TemplateProcessing("[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    return made


PROMPTS = {"query": "The red $ball \\(x): ", "Élève": "今天"}
"""Of which the models here read the tokens without pooling them."""


def encoder_folder(folder: Path, pooling: str = "mean_tokens", truncation_side: str = "right") -> Path:
    """Write a random BERT with this tokenizer and these prompts, in the layout of sentence-transformers."""
    from transformers import BertConfig, BertModel

    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "intermediate_size": 64, "num_attention_heads": 2}
    config = BertConfig(vocab_size=wordpiece().get_vocab_size(), max_position_embeddings=POSITIONS, **sizes)
    save_sentence_encoder(folder, pooling, model=BertModel(config))
    tokenizer(truncation_side).save_pretrained(folder)
    write(folder / "config_sentence_transformers.json", {"prompts": PROMPTS})
    pooled = {"word_embedding_dimension": 32, f"pooling_mode_{pooling}": True, "include_prompt": False}
    write(folder / "1_Pooling" / "config.json", pooled)
    return folder


def tokenizer(truncation_side: str = "right", **options: Any) -> Any:
    """That tokenizer in transformers."""
    from transformers import PreTrainedTokenizerFast

    special = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    given = {"mask_token": "[MASK]", "truncation_side": truncation_side, **special, **options}
    return PreTrainedTokenizerFast(tokenizer_object=wordpiece(), **given)


def encoder_bundle(folder: Path, target: str, form: str, pooling: str, truncation_side: str) -> Path:
    """Export such an encoder in float32."""
    source = encoder_folder(folder / "source", pooling, truncation_side)
    return edgec.export(source, target=target, format=form, recipe="float", out=folder / "encoder.edgec")


def encoder_method(padded: bool, dtype: str = "int64") -> MethodInfo:
    """The method of an encoder that reads texts of one length, or of any up to it."""
    shape: list[int | str] = [1, POSITIONS if padded else "T"]
    inputs = [TensorInfo(name=name, dtype=dtype, shape=shape) for name in ("input_ids", "attention_mask")]
    output = TensorInfo(name="sentence_embedding", dtype="float32", shape=[1, WIDTH])
    dynamic = {} if padded else {"T": (1, POSITIONS)}
    return MethodInfo(name="main" if padded else "forward", inputs=inputs, outputs=[output], dynamic=dynamic)


def rule(ids: Sequence[int], mask: Sequence[int]) -> list[float]:
    """What the scripted models of the apps' tests give for tokens and their mask; a place and a token change it."""
    total = sum(shown * (token + 1) * (place + 1) for place, (token, shown) in enumerate(zip(ids, mask, strict=True)))
    return [(total + 1) * (index + 1) % 9973 / 1000 for index in range(WIDTH)]


def placeholder_bundle(
    folder: Path,
    kind: str,
    method: MethodInfo,
    target: str = "",
    prompts: SentencePrompts | None = None,
    **options: Any,
) -> Bundle:
    """An encoder's bundle whose artifact cannot run, with a real tokenizer.

    Args:
        folder: to write to.
        kind: one of ``ios_bundles.FORMATS``.
        method: of the artifact.
        target: in place of the kind's.
        prompts: of the encoder.
        options: of the tokenizer.
    """
    made = tokenizer(**options)
    probe = probe_values([POSITIONS], "int64", 2).tolist()
    vector = function_vector(
        {"input_ids": 2, "attention_mask": 2}, {"sentence_embedding": np.array([rule(probe, probe)])}
    )
    manifest = module_manifest(kind, [method], **({"target": target} if target else {}))
    manifest = manifest.model_copy(update={"sentence_encoder": prompts})
    own = "" if manifest.format == "pte" else "/Manifest.json"
    files = {
        f"{manifest.artifact}{own}": b"weights",
        "golden.json": golden_bytes(Golden(texts=text_vectors(made), functions=(vector,))),
        **_tokenizer_files(made),
    }
    write_bundle(folder, manifest, files)
    return open_bundle(folder)


def _tokenizer_files(made: Any) -> dict[str, bytes]:
    with TemporaryDirectory() as aside:
        made.save_pretrained(aside)
        return {f"tokenizer/{path.name}": path.read_bytes() for path in Path(aside).iterdir()}
