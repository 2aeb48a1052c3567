"""generation_config.json: the ids that end a text, the model's own repetition penalty, and how encoder-decoders begin.

Nothing else is used.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from edgec.bundle.limited_json import JsonKind, first_fault, read_model
from edgec.bundle.part import TokenId
from edgec.errors import InputError

KIND = JsonKind(
    "The bundle's generation config cannot be used.",
    "correct the model's generation_config.json, and export it again",
    "E141",
    max_bytes=1 << 20,
)


_MOST_IDS = 1 << 16
TokenIds = Annotated[list[TokenId], Field(max_length=_MOST_IDS)]


class GenerationConfig(BaseModel):
    """The fields that edgec reads of generation_config.json; a list of ids where several end a text."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True, allow_inf_nan=False)

    decoder_start_token_id: TokenId | None = None
    bos_token_id: TokenId | None = None
    forced_bos_token_id: TokenId | None = None
    forced_eos_token_id: TokenId | None = None
    suppress_tokens: TokenIds | None = None
    begin_suppress_tokens: TokenIds | None = None
    bad_words_ids: Annotated[list[TokenIds], Field(max_length=_MOST_IDS)] | None = None
    no_repeat_ngram_size: Annotated[int, Field(ge=0, le=1024)] | None = None
    min_length: Annotated[int, Field(ge=0, le=1 << 24)] | None = None
    is_multilingual: bool | None = None
    lang_to_id: Annotated[dict[str, TokenId], Field(max_length=_MOST_IDS)] | None = None
    task_to_id: Annotated[dict[str, TokenId], Field(max_length=_MOST_IDS)] | None = None
    no_timestamps_token_id: TokenId | None = None
    max_initial_timestamp_index: Annotated[int, Field(ge=0, le=1 << 20)] | None = None
    eos_token_id: TokenId | Annotated[list[TokenId], Field(max_length=1024)] | None = None
    repetition_penalty: Annotated[float, Field(gt=0, le=1e6)] | None = None

    @property
    def stop_tokens(self) -> tuple[int, ...]:
        """The ids that end a text; none where the config names none."""
        ids = self.eos_token_id
        return (ids,) if isinstance(ids, int) else tuple(ids or ())


def check_generation_config(fields: Mapping[str, Any], where: str) -> None:
    """Refuse at export a generation config that could not be used at run time.

    Raises:
        InputError: E111.
    """
    try:
        GenerationConfig.model_validate(fields)
    except ValidationError as error:
        what, fix = "generation_config.json cannot be used.", "correct the value, or copy the file again"
        raise InputError(what, where, first_fault(error), fix, "E111") from error


def read_generation_config(path: Path | None, kind: JsonKind = KIND) -> GenerationConfig:
    """Read a generation config; None gives an empty one.

    Raises:
        InputError: E141 or the kind's, it is not JSON within the limits, or a value is outside its range.
    """
    return GenerationConfig() if path is None else read_model(path, GenerationConfig, kind)
