"""``geo_velocity``: a key is farther from where it was before than it can have travelled."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, ClassVar, Literal

from pydantic import Field

from crossline.basics.formula.naive import haversine_km
from crossline.basics.streams.schema import StreamSpec
from crossline.basics.texts.fieldtypes import Duration, Names, Number
from crossline.basics.texts.problems import Finding, Path
from crossline.basics.times import format_duration, rounded_duration
from crossline.programs.kinds import Operator
from crossline.programs.program import Comparison
from crossline.rules.figure import FigureFields, made_figure
from crossline.rules.generated_formula import GeneratedFormulaRule
from crossline.rules.registry import rule_type
from crossline.rules.sentence import noun, number, rounded

_HOUR_MS = 3_600_000
_DAY_MS = 24 * _HOUR_MS
_SAME = "at the same instant"
_CONFIDENCE_MAX, _SURE_AT_KMH = 0.99, 1000


@rule_type("geo_velocity")
class GeoVelocityRule(GeneratedFormulaRule):
    """Fires where a key moved faster, from its record before to this one, than anybody travels."""

    rule_type: Literal["geo_velocity"] = Field(description="`geo_velocity`.")
    latitude_field: str = Field(description="Field of the latitude, in degrees.")
    longitude_field: str = Field(description="Field of the longitude, in degrees.")
    max_speed_kmh: Number = Field(500, description="Faster than this, in km/h, is a hit.")
    min_distance_km: Number = Field(0, description="Less far than this, in km, is none.")
    group_by: Names = Field(description="Field or fields of the key.")
    window: Duration = Field(_DAY_MS, description="How far back the record before may be.")
    emit: Literal["on_crossing", "every"] = Field(
        "every", description="Alert at every record that is too far, or only at the first of several."
    )

    example: ClassVar[str] = """\
rule_id: impossible_travel
version: 1
rule_type: geo_velocity
source_topic: payments
severity: critical
score: 80
action: block
description: "{km} km from where account {account_id} was before, at {value} km/h (confidence {confidence})"
group_by: account_id
latitude_field: location.lat
longitude_field: location.lon
max_speed_kmh: 500
min_distance_km: 5
window: 12h
"""

    def findings(self) -> list[Finding]:
        """What cannot stand together."""
        findings = super().findings()
        for name in ("max_speed_kmh", "min_distance_km"):
            given = getattr(self, name)
            if given is not None and given < 0:
                findings.append(Finding((name,), str(given), "a number that is not below 0"))
        if self.window == 0:
            findings.append(Finding(("window",), "an empty window", "a window longer than 0"))
        if self.group_by == ():
            findings.append(Finding(("group_by",), "nothing", "the key that travels, such as account_id"))
        return findings

    def figures_of(self) -> Mapping[str, FigureFields]:
        """Where the key was before, and how long ago: of the records that say where they are."""
        lines = (self.max_speed_kmh, self.min_distance_km)
        if None in lines or not all((self.latitude_field, self.longitude_field, self.group_by, self.window)):
            return {}
        place = [{"field": each, "operator": "exists"} for each in (self.latitude_field, self.longitude_field)]
        conditions = {
            "all": [*place, *([self.conditions] if isinstance(self.conditions, dict) else self.conditions or [])]
        }
        common: dict[str, Any] = {
            "group_by": list(self.group_by),
            "window": f"{self.window}ms",
            "conditions": conditions,
        }
        common["include_current"] = False
        return {
            "latitude_before": made_figure("last", self.latitude_field, common),
            "longitude_before": made_figure("last", self.longitude_field, common),
            "elapsed": made_figure("since", None, common),
        }

    def _km(self) -> str:
        here = f"{self.latitude_field}, {self.longitude_field}"
        return f"haversine_km(latitude_before, longitude_before, {here})"

    def formulas_of(self) -> tuple[str, str | None]:
        """Too far for the time; the speed in km/h, as if at least a millisecond had passed."""
        far = f"{self._km()} > 0 and {self._km()} >= {self.min_distance_km}"
        fast = f"{self._km()} * {_HOUR_MS} > {self.max_speed_kmh} * elapsed"
        return f"{far} and {fast}", self._kmh()

    def line_of(self) -> tuple[str, Operator, float | None, Path]:
        """The speed."""
        return self._kmh(), ">", self.max_speed_kmh, ("max_speed_kmh",)

    def lines_of(self) -> tuple[Comparison, ...]:
        """The speed."""
        return (Comparison(">", self.max_speed_kmh),)

    def _kmh(self) -> str:
        return f"{self._km()} * {_HOUR_MS} / max(elapsed, 1)"

    def shows_of(self) -> Mapping[str, str]:
        """How far, and how sure it is: a thousandth for each km/h, up to 0.99."""
        return {"km": self._km(), "confidence": f"min({_CONFIDENCE_MAX}, {self._kmh()} / {_SURE_AT_KMH})"}

    def beside(self, spec: StreamSpec) -> Collection[str]:  # noqa: ARG002 - the two fields
        """Latitude and longitude."""
        return (self.latitude_field, self.longitude_field)

    def path_of(self, part: str) -> Path:
        """The field that ``part`` is of."""
        return {"latitude_before": ("latitude_field",), "longitude_before": ("longitude_field",)}.get(part, ())

    def in_words(self, value: float | None, read: Mapping[str, Any], by: str = "") -> str:
        """``2,007 km from the payment before in 60 min, 2,007 km/h``."""
        before, elapsed = noun(self.source_topic, one=True), read.get("elapsed")
        place = ("latitude_before", "longitude_before", self.latitude_field, self.longitude_field)
        known = [read.get(name) for name in place]
        if elapsed is None or value is None or any(each is None for each in known):
            return f"no {before} before it{by} that has a place"
        km = haversine_km(*known)  # type: ignore[arg-type]  # the figures are numbers
        far = f"{rounded(km or 0)} km from the {before} before{by}"
        return f"{far} {f'in {rounded_duration(elapsed)}, {self.measure(value)}' if elapsed else _SAME}"

    def measure(self, value: float) -> str:
        """In km/h."""
        return f"{rounded(value)} km/h"

    def line_in_words(self, operator: str | None, threshold: float | None) -> str:  # noqa: ARG002 - always the same
        """`` (line: 500 km/h)``."""
        return "" if threshold is None else f" (line: {number(threshold)} km/h)"

    def fires_where(self) -> str:
        """In words: the formula has three comparisons."""
        least = f", over {self.min_distance_km} km or more" if self.min_distance_km else ""
        before = f"the {noun(self.source_topic, one=True)} before in {format_duration(self.window)}"
        faster = f"moved faster than {number(self.max_speed_kmh)} km/h"
        return f"the same {' and '.join(self.group_by)} {faster} from {before}{least}"
