"""Bundles for the generated Kotlin to run over the stand-ins' model, and what that model says."""

from __future__ import annotations

from pathlib import Path

from tokenizers import Tokenizer, decoders, models, processors
from transformers import PreTrainedTokenizerFast

from edgec.bundle.folder import write_bundle
from edgec.bundle.golden import Golden, OutputVector, golden_bytes
from edgec.bundle.golden_texts import ChatVector, TextVector, chat_vectors
from edgec.bundle.manifest import Manifest
from tests.apps.android_bundles import PLAY, artifact_files, tokenizer_config


def rule(tokens: list[int], new: int) -> list[int]:
    """The stand-in's model, in Python."""
    extended = list(tokens)
    for _ in range(new):
        last = len(extended) - 1
        extended.append((31 * extended[last] + 7 * last + (extended[last - 1] if last else 0)) % 96 + 32)
    return extended[len(tokens) :]


def _byte_tokenizer() -> Tokenizer:
    """A tokenizer whose ids are bytes, with 1 before every text, so that the stand-ins' model can be followed."""
    vocabulary = {"<s>" if byte == 1 else f"<0x{byte:02X}>": byte for byte in range(256)}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[], byte_fallback=True))
    tokenizer.add_special_tokens(["<s>"])
    tokenizer.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Fuse()])
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return tokenizer


def byte_tokenizer_files(template: str) -> dict[str, bytes]:
    """The files of the tokenizer of bytes with a chat template."""
    return {"tokenizer.json": _byte_tokenizer().to_str().encode(), "tokenizer_config.json": tokenizer_config(template)}


def real_bundle(folder: Path, manifest: Manifest, golden: Golden, **texts: bytes) -> Path:
    """Write a complete bundle with the tokenizer of bytes, a play's chat template, and other files by their stems."""
    files: dict[str, bytes | Path] = {"tokenizer/tokenizer_config.json": tokenizer_config()}
    files["tokenizer/tokenizer.json"] = _byte_tokenizer().to_str().encode()
    files |= {f"{name}.json".replace("tokenizer_", "tokenizer/tokenizer_"): text for name, text in texts.items()}
    write_bundle(folder, manifest, {**artifact_files(manifest), "golden.json": golden_bytes(golden), **files})
    return folder


def golden_vectors() -> Golden:
    """Golden vectors of the stand-ins' model and the tokenizer of bytes."""
    output = OutputVector(
        prompt_ids=[9, 8], continuation_ids=rule([9, 8], 3), margins=[5.0] * 3, probes=[], tolerance=0.1
    )
    text = TextVector(label="text", text="é", ids=[1, *"é".encode()], round_trip=True)
    rendered = "<s>CITIZEN:\nHi\n\nMENENIUS:\n"
    chat = ChatVector(
        messages=[{"role": "user", "content": "Hi"}], rendered=rendered, ids=[1, *rendered.removeprefix("<s>").encode()]
    )
    return Golden(texts=(text,), chat=chat, chats=chat_vectors(_reader(PLAY)), outputs=(output,))


def _reader(template: str) -> PreTrainedTokenizerFast:
    """The tokenizer of bytes as transformers reads it."""
    return PreTrainedTokenizerFast(tokenizer_object=_byte_tokenizer(), bos_token="<s>", chat_template=template)
