"""What pydantic found wrong with a number of items, in our own words."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field, ValidationError

from crossline.basics.texts.validation import findings_from_validation


class Named(BaseModel):
    names: Annotated[list[str], Field(min_length=1, max_length=2)]
    ages: Annotated[dict[str, int], Field(min_length=2)] = Field(default={"a": 1, "b": 2})


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"names": []}, "at least 1 item"),
        ({"names": ["a", "b", "c"]}, "at most 2 items"),
        ({"names": ["a"], "ages": {}}, "at least 2 items"),
    ],
)
def test_how_many_items_are_expected(body: Any, expected: str) -> None:
    with pytest.raises(ValidationError) as refused:
        Named.model_validate(body)
    assert [each.expected for each in findings_from_validation(refused.value, Named)] == [expected]
