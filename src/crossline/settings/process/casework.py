"""How alerts become cases: by which values they are linked, within what time, and where their money stands."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from crossline.basics.texts.money import digits_of
from crossline.basics.texts.problems import Finding, shown
from crossline.settings.fields import DurationMs, Settings

DAY_MS = 86_400_000
LINKS_MAX, DECIMALS_MAX = 16, 9


class MoneySettings(Settings):
    """Where the amount stands in the record that an alert carries."""

    field: str = Field(min_length=1, description="The field with the amount.")
    currency: str | None = Field(
        default=None, min_length=1, description="The field with the currency's code; without it amounts have none."
    )
    decimals: Annotated[int, Field(ge=0, le=DECIMALS_MAX)] | Literal["currency"] = Field(
        default=0,
        description="How many of the amount's last digits stand behind the point: 2 for cents, 0 for a decimal number; "
        "`currency`: as many as its currency has, for amounts in minor units of several currencies.",
    )

    def decimals_of(self, currency: str) -> int:
        """For an amount in that currency."""
        return digits_of(currency) if self.decimals == "currency" else self.decimals


class CasesSettings(Settings):
    """How alerts are linked to cases, and how a case sums up their money."""

    link: list[str] = Field(
        default=[],
        max_length=LINKS_MAX,
        description="Fields by whose values alerts join a case, besides the key of the alert: of its key, or of the "
        "record that it carries.",
    )
    within: DurationMs = Field(
        default=DAY_MS,
        ge=1,
        description="An alert joins a case that had the same value within this time, by event time.",
    )
    reopen: DurationMs = Field(
        default=DAY_MS,
        ge=1,
        description="An alert reopens a resolved case whose last alert is at most this long ago, by event time; after "
        "that it opens a new case.",
    )
    money: MoneySettings | None = Field(default=None, description="Where the money of a record stands.")

    def findings(self) -> list[Finding]:
        """A field that stands there twice."""
        return [
            Finding(("link", number), shown(each), "each field once")
            for number, each in enumerate(self.link)
            if each in self.link[:number]
        ]
