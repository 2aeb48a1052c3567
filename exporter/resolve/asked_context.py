"""What ``--context`` asks for, held against what a model can have."""

from __future__ import annotations

from edgec.errors import InputError
from edgec.exporter.sources.decoders.key_choice import keys_are_chosen, keys_before_choice
from edgec.exporter.sources.decoders.rotation_limits import rotated_alike, rotation_limit, rotations_change
from edgec.exporter.sources.decoders.spec import model_spec, text_config
from edgec.exporter.sources.model_source import ModelSource


def check_context(source: ModelSource, context: int | None) -> int | None:
    """The context that was asked for, if this model can have it.

    Raises:
        InputError: E118, it has too few positions, or none; E740, E742, it computes something else for such a text.
    """
    if context is None:
        return None
    if source.kind == "module":
        # What a text encoder reads was cut to this context already, or to its positions where there are fewer.
        longest = source.tokens.high if source.tokens else None
    else:
        longest = model_spec(source.config).context
        if (kept := keys_before_choice(text_config(source.config))) and kept < context:
            raise keys_are_chosen("--context", kept, context)
    _check_rotations(source, context)
    if longest and 2 <= context <= longest:
        return context
    why = (
        f"the model was made for 2 to {longest} positions" if longest else "the model has no KV cache and reads no text"
    )
    raise InputError(
        what=f"a context of {context} tokens is not possible",
        where="--context",
        why=why,
        fix=f"use --context {longest} or less" if longest else "leave --context out",
        code="E118",
    )


def _check_rotations(source: ModelSource, context: int) -> None:
    """Refuse a context that no one set of rotary frequencies serves."""
    text = text_config(source.config)
    if source.kind == "module":
        first = rotated_alike(text) if source.tokens else None
    else:
        first = None if (limit := rotation_limit(text)) is None or limit.others else limit.tokens
    if first and first < context:
        raise rotations_change("--context", first, context)
