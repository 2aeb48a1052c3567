"""What the parts of a bundle's JSON files are made of: immutable models, and numbers and names within their range."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field


class Part(BaseModel):
    """Base of all parts: immutable, and unknown fields are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, protected_namespaces=())


# JSON's own readers keep whole numbers up to 2^53; what is counted in memory or positions stays within 32 bits.
Count = Annotated[int, Field(ge=0, le=1 << 53)]
Size = Annotated[int, Field(ge=1, le=(1 << 31) - 1)]
TokenId = Annotated[int, Field(ge=0, le=(1 << 31) - 1)]
Sha256 = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
Dtype = Literal[
    *("bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"),
    *("float16", "bfloat16", "float32", "float64", "complex64", "complex128"),
]
