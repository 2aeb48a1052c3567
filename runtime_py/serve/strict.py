"""What all objects in bodies of requests have in common."""

from __future__ import annotations

from typing import Any, Final

from pydantic import BaseModel, ConfigDict, model_validator

MOST_TEXT: Final = 4 << 20


class Strict(BaseModel):
    """An object of a body: its values have their own kinds, and there are no others; null is an absent value."""

    model_config = ConfigDict(extra="forbid", strict=True, protected_namespaces=())

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, held: Any) -> Any:
        """OpenAI's clients send what was not chosen as null."""
        if not isinstance(held, dict):
            return held
        required = {name for name, field in cls.model_fields.items() if field.is_required()}
        return {name: value for name, value in held.items() if value is not None or name in required}
