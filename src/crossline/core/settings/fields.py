"""Building blocks of pipeline.yaml: durations, and settings whose ``kind`` says which other keys they have."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError, model_validator

from crossline.core.basics.times import DURATION_FORM, parse_duration_ms
from crossline.core.texts.problems import Finding, nearest, one_of, shown
from crossline.core.texts.validation import findings_from_validation, refusal, refusals


class Settings(BaseModel):
    """Settings that a person wrote: frozen, nothing coerced, no unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    def findings(self) -> list[Finding]:
        """What is wrong with these settings taken together; nothing unless a kind overrides it."""
        return []

    @model_validator(mode="after")
    def _check(self) -> Settings:
        findings = self.findings()
        if findings:
            raise refusals(findings)
        return self


def _duration_ms(value: Any) -> int:
    try:
        return parse_duration_ms(value)
    except ValueError as error:
        text = str(error)
        raise refusal(DURATION_FORM, None if DURATION_FORM in text else text) from None


# Written as 45s or 2 min, held as whole milliseconds.
DurationMs = Annotated[int, BeforeValidator(_duration_ms)]


def by_kind(kinds: Mapping[str, type[Settings]]) -> Callable[[Any], Settings]:
    """A validator that reads a mapping with the model that its ``kind`` names.

    pydantic's own discriminated unions put the kind into the path of an error, where the file has no such place.
    """

    def read(value: Any) -> Settings:
        if not isinstance(value, dict):
            raise refusal(f"a mapping with kind: {one_of(kinds)}")
        if "kind" not in value:
            raise refusals([Finding(("kind",), "nothing", f"kind, which is {one_of(kinds)}")])
        kind = value["kind"]
        model = kinds.get(kind) if isinstance(kind, str) else None
        if model is None:
            raise refusals([Finding(("kind",), shown(kind), one_of(kinds), nearest(kind, kinds))])
        try:
            return model.model_validate(value)
        except ValidationError as error:
            raise refusals(findings_from_validation(error, model)) from None

    return read
