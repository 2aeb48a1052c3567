"""Whether two bundles have the same vocabulary: a draft in another one would be nonsense."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

from edgec.bundle.tokenizer_json import read_tokenizer_json
from edgec.errors import InputError

if TYPE_CHECKING:
    from edgec.bundle.folder import Bundle


def vocabulary_fingerprint(bundle: Bundle) -> str | None:
    """The sha256 over the bundle's tokens and their ids; None for a bundle without a tokenizer.

    Two files that write the same vocabulary in another order have the same fingerprint.

    Raises:
        InputError: E158, its tokenizer.json cannot be used.
    """
    file = bundle.tokenizer_dir / "tokenizer.json" if bundle.tokenizer_dir else None
    if file is None or not file.is_file():
        return None
    ids = read_tokenizer_json(file).ids
    return hashlib.sha256(json.dumps(sorted(ids.items())).encode()).hexdigest()


def check_same_vocabulary(target: Bundle, draft: Bundle) -> None:
    """Refuse a draft model whose token ids mean something else.

    Raises:
        InputError: E194.
    """
    sizes = (target.manifest.model.vocab_size, draft.manifest.model.vocab_size)
    if sizes[0] != sizes[1]:
        raise _other(draft, f"it has {sizes[1]} tokens, the model {sizes[0]}")
    if vocabulary_fingerprint(target) != vocabulary_fingerprint(draft):
        raise _other(draft, "the same ids stand for other tokens")


def _other(draft: Bundle, why: str) -> InputError:
    return InputError(
        "The draft model has another vocabulary.",
        where=str(draft.path),
        why=why,
        fix="draft with a smaller model of the same family, or with the first layers of the same model",
        code="E194",
    )
