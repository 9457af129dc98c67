"""The form of request bodies in JSON: known fields only, of exactly their types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, model_validator

from lakeward.model.values import is_text


class Body(BaseModel):
    """The body of a request. JSON can spell halves of surrogate pairs; no text may have one."""

    model_config = ConfigDict(extra="forbid", strict=True)

    @model_validator(mode="before")
    @classmethod
    def _check_texts(cls, given: Any) -> Any:
        if not all(map(is_text, _texts(given))):
            message = "a text has half of a surrogate pair"
            raise ValueError(message)
        return given


def _texts(value: Any) -> list[str]:
    """Return all texts in a value, keys included."""
    match value:
        case str():
            return [value]
        case Mapping():
            return [text for pair in value.items() for one in pair for text in _texts(one)]
        case list():
            return [text for one in value for text in _texts(one)]
        case _:
            return []
