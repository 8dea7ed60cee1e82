"""How many alerts a rule may raise in a time before it goes to shadow."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, Field, field_validator

from crossline.basics.texts.fieldtypes import Duration
from crossline.basics.texts.validation import refusal


@dataclass(frozen=True, slots=True)
class Bound:
    """At most ``alerts_max`` alerts at records ingested in one interval of ``per_ms``, as a value."""

    alerts_max: int
    per_ms: int


class Breaker(BaseModel):
    """A rule that raises more alerts than this goes to shadow, until its status is set by hand."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, defer_build=True)

    alerts_max: int = Field(ge=1, lt=2**53, description="Most alerts at records ingested in one interval.")
    per: Duration = Field(
        60_000, description="The interval; each begins at a whole multiple of it, on the ingest clock."
    )

    @field_validator("per")
    @classmethod
    def _some_time(cls, per_ms: int) -> int:
        if per_ms < 1:
            raise refusal("a time, such as 1m")
        return per_ms

    @property
    def bound(self) -> Bound:
        """As a value."""
        return Bound(self.alerts_max, self.per)
