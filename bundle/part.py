"""Building blocks of a bundle's JSON files: immutable models, and numbers and names within their range."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field


class JsonPart(BaseModel):
    """Base class of all parts: immutable, and unknown fields are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, protected_namespaces=())


# Common JSON readers keep whole numbers up to 2^53; sizes and positions stay within 32 bits.
JsonCount = Annotated[int, Field(ge=0, le=1 << 53)]
JsonSize = Annotated[int, Field(ge=1, le=(1 << 31) - 1)]
TokenId = Annotated[int, Field(ge=0, le=(1 << 31) - 1)]
Sha256 = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
Dtype = Annotated[str, Field(pattern=r"^(bool|u?int(8|16|32|64)|b?float16|float(32|64)|complex(64|128))$")]
