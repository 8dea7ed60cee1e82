"""``correlation``: a record compared with the newest record of another stream for its key at that time."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from crossline.basics.streams.inputs import RULE, Reading, SideInput, spec_of
from crossline.basics.streams.schema import StreamSpec
from crossline.basics.texts.fieldtypes import Number, OptionalDuration, RuleId, Unit
from crossline.basics.texts.problems import Finding, Path, shown
from crossline.basics.texts.validation import refusal
from crossline.basics.times import UNIT_MS_BY_NAME, format_duration, rounded_duration
from crossline.programs.kinds import Operator
from crossline.programs.program import Emission, Evidence, FormulaPredicate, Program
from crossline.rules.base import Defaults
from crossline.rules.figure import FigureFields, made_figure
from crossline.rules.figure_checks import field_findings
from crossline.rules.generated_formula import GeneratedFormulaRule
from crossline.rules.registry import rule_type
from crossline.rules.sentence import noun, number, rounded

_VALUE, _SPREAD, _POINTS, _AGE = "context", "context_deviation", "context_points", "context_age"
_OF_EVENT = frozenset({"ratio_deviation", "difference", "z_score"})
_PARTS = (("value", _VALUE), ("deviation", _SPREAD), ("points", _POINTS), ("age_ms", _AGE))


def _key(value: Any) -> Any:
    if isinstance(value, str) and value:
        return value
    names = value if isinstance(value, dict) else {}
    if set(names) != {"primary", "context"} or not all(isinstance(each, str) and each for each in names.values()):
        raise refusal(
            "the name of a field, or {primary: name, context: name} where the context has another name for it"
        )
    return dict(names)


def _condition(value: Any) -> Any:
    if not isinstance(value, dict):
        raise refusal('what the metric is held against, such as {operator: ">", value: 0.02}')
    return value


class LineFields(BaseModel):
    """What the metric is held against."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    operator: Operator = Field(description="How the metric is compared with `value`.")
    value: Number = Field(description="The number that it is compared with.")


@rule_type("correlation")
class CorrelationRule(GeneratedFormulaRule):
    """Fires where a record and the context of its key in another stream do not go together."""

    rule_type: Literal["correlation"] = Field(description="`correlation`.")
    context_topic: str = Field(description="The stream of the context, or `rule:<rule_id>` for the hits of a rule.")
    correlation_key: Annotated[str | dict[str, str], BeforeValidator(_key)] = Field(
        description="The field that links both; `{primary: a, context: b}` where it has two names."
    )
    window: OptionalDuration = Field(
        None, description="How far back context counts: `5m`. Both ends belong to the window. This, or `window_size`."
    )
    window_size: int | None = Field(None, gt=0, description="How far back context counts, in `window_unit`.")
    window_unit: Unit = Field(None, description="Unit of `window_size`: `ms s m h d` or their long names.")
    context_resolution: Literal["last", "mean", "mean_std"] = Field(
        description="What the context is: the last value at or before the record's time, the mean of the window, or "
        "mean and deviation."
    )
    context_value_field: str = Field(description="The field of the context's records that holds its value.")
    metric: Literal["direct", "ratio_deviation", "difference", "z_score"] = Field(
        "direct",
        description="What is compared: the context itself, `|event / context - 1|`, `event - context`, or `(event - "
        "mean) / deviation`.",
    )
    event_value_field: str | None = Field(
        None, description="The field of the record that is held against the context; all metrics but `direct` need it."
    )
    condition: Annotated[LineFields, BeforeValidator(_condition)] = Field(
        description='A hit is where the metric meets it: `{operator: ">", value: 0.02}`.'
    )
    emit_mode: Literal["event", "context", "both"] = Field(
        "both", description="What the alert shows: the record's fields, the context, or both."
    )
    context_type_field: str | None = Field(None, description="The field of the context's records that has their type.")
    context_type_value: str | int | float | bool | None = Field(
        None, description="Only context of this type counts; it needs `context_type_field`."
    )
    velocity_filter_rule_id: RuleId | None = Field(
        None, description="Only hits of this rule are looked at: short for `source_topic: rule:<rule_id>`."
    )
    max_context_age_seconds: int | None = Field(None, gt=0, description="Context that is older does not count.")
    min_context_points: int = Field(1, ge=1, lt=2**31, description="With fewer context records it is not judged.")
    emit: Literal["on_crossing", "every"] = Field(
        "every", description="Alert at every record that is a hit, or only at the first of several."
    )

    example: ClassVar[str] = """\
rule_id: off_market_rate
version: 1
rule_type: correlation
source_topic: payments
severity: high
score: 50
action: review
description: "rate {rate} for {currency_pair}, where the market has {context}"
context_topic: fx_rates
correlation_key: currency_pair
window: 5m
context_resolution: last
context_value_field: rate
event_value_field: rate
metric: ratio_deviation
condition: {operator: ">", value: 0.02}
"""

    @property
    def reading(self) -> Reading:
        """The stream, or the hits of a rule over it, and the context."""
        judged = self.source_topic if self.velocity_filter_rule_id is None else f"{RULE}{self.velocity_filter_rule_id}"
        side_inputs = {
            side_input for figure in self.figures_of().values() if (side_input := figure.side_input(judged)) is not None
        }
        return Reading((judged,), tuple(sorted(side_inputs, key=str)))

    @classmethod
    def reading_written(cls, body: Mapping[str, Any]) -> Reading | None:
        """As it is written."""
        read, context, filtered = (
            super().reading_written(body),
            *map(body.get, ("context_topic", "velocity_filter_rule_id")),
        )
        if read is None:
            return None
        judged = (f"{RULE}{filtered}",) if isinstance(filtered, str) else read.judged
        return Reading(judged, (SideInput(context),) if isinstance(context, str) else ())

    @classmethod
    def keys_written(cls, body: Mapping[str, Any]) -> Any:
        """What links both, as the record has it."""
        key = body.get("correlation_key")
        return key.get("primary") if isinstance(key, dict) else key

    def place_of_source(self, source: str) -> Path:
        """The field that names it."""
        if source == f"{RULE}{self.velocity_filter_rule_id}":
            return ("velocity_filter_rule_id",)
        return ("context_topic",) if source == self.context_topic else super().place_of_source(source)

    @cached_property
    def _window_ms(self) -> int | None:
        if self.window_size is not None and self.window_unit is not None:
            return self.window_size * UNIT_MS_BY_NAME[self.window_unit.lower()]
        return self.window

    def findings(self) -> list[Finding]:
        """What cannot stand together."""
        findings = super().findings()
        sized = self.window_size is not None
        if sized == (self.window is not None):
            found = "both window and window_size" if sized else "nothing"
            findings.append(Finding(("window",), found, "one window, such as 5m"))
        elif sized and self.window_unit is None:
            findings.append(Finding(("window_unit",), "nothing", "the unit of window_size: ms, s, m, h or d"))
        elif not sized and not self.window:
            findings.append(Finding(("window",), "an empty window", "a window longer than 0"))
        if (self.metric == "z_score") != (self.context_resolution == "mean_std") and self.metric is not None:
            expected = "mean_std, which z_score needs" if self.metric == "z_score" else "last or mean, for this metric"
            findings.append(Finding(("context_resolution",), shown(self.context_resolution), expected))
        if self.metric in _OF_EVENT and self.event_value_field is None:
            expected = f"the field of the record that {self.metric} holds against the context"
            findings.append(Finding(("event_value_field",), "nothing", expected))
        if (self.context_type_field is None) != (self.context_type_value is None):
            absent = "context_type_field" if self.context_type_field is None else "context_type_value"
            findings.append(Finding((absent,), "nothing", "both context_type_field and context_type_value"))
        if (
            self.context_topic is not None
            and self.context_topic == self.source_topic
            and not self.velocity_filter_rule_id
        ):
            expected = "another stream; for what the key's own records say, use anomaly or formula"
            findings.append(Finding(("context_topic",), shown(self.context_topic), expected))
        return findings

    def stream_findings(self, name: str, spec: StreamSpec, lists: Collection[str] | None) -> list[Finding]:
        """What does not fit the two streams."""
        findings = super().stream_findings(name, spec, lists)
        if self.event_value_field is not None:
            unfit = field_findings("avg", self.event_value_field, name, spec, ("event_value_field",))
            findings = [each for each in findings if not unfit or each.path != ("condition",)] + unfit
        theirs = spec_of(spec, self.context_topic)
        if self.timestamp_field is not None and self.timestamp_field != theirs.event_time.field:
            expected = f"{theirs.event_time.field}, the event time of stream {self.context_topic}"
            other = Finding(("timestamp_field",), shown(self.timestamp_field), expected)
            findings += [] if any(each.path == other.path for each in findings) else [other]
        return findings

    def figures_of(self) -> Mapping[str, FigureFields]:
        """The context of the key, and how old it is."""
        needed = (self.context_topic, self.correlation_key, self._window_ms, self.context_value_field, self.condition)
        if not all(needed) or self.context_resolution is None or self.min_context_points is None:
            return {}
        longest_ms = int(self._window_ms or 0)
        if self.max_context_age_seconds is not None:
            longest_ms = min(longest_ms, self.max_context_age_seconds * 1000)
        key = self.correlation_key
        exists: list[dict[str, Any]] = [{"field": self.context_value_field, "operator": "exists"}]
        if self.context_type_field is not None and self.context_type_value is not None:
            exists.append({"field": self.context_type_field, "operator": "==", "value": self.context_type_value})
        common = {
            "source_topic": self.context_topic,
            "group_by": key if isinstance(key, str) else {key["primary"]: key["context"]},
            "window": f"{longest_ms}ms",
            "bounds": "[]",
            "conditions": exists,
        }
        last = self.context_resolution == "last"
        figures = {_VALUE: made_figure("last" if last else "avg", self.context_value_field, common)}
        if self.metric == "z_score" and self.event_value_field is not None:
            figures[_SPREAD] = made_figure("stddev", self.context_value_field, common)
        figures |= {_POINTS: made_figure("count", None, common), _AGE: made_figure("since", None, common)}
        return {self._called(name): figure for name, figure in figures.items()}

    def _called(self, figure: str) -> str:
        """Its name in formulas, where the record's field has a name too."""
        return f"{figure}_" if figure == self.event_value_field else figure

    def formulas_of(self) -> tuple[str, str | None]:
        """The metric against the line, with context enough; the metric."""
        points, age = map(self._called, (_POINTS, _AGE))
        line = f"{self._metric} {self.condition.operator} {self.condition.value}"
        # Where there is context it has an age: an alert shows what the formula reads.
        return f"{line} and {points} >= {self.min_context_points} and {age} >= 0", self._metric

    @property
    def _metric(self) -> str:
        event = self.event_value_field
        value, spread = map(self._called, (_VALUE, _SPREAD))
        of_event = {
            "ratio_deviation": f"abs({event} / {value} - 1)",
            "difference": f"{event} - {value}",
            "z_score": f"({event} - {value}) / {spread}",
        }
        return value if event is None else of_event.get(self.metric, value)

    def line_of(self) -> tuple[str, Operator, float | None, Path]:
        """What the metric is held against."""
        return self._metric, self.condition.operator, self.condition.value, ("condition", "value")

    def beside(self, spec: StreamSpec) -> Collection[str]:  # noqa: ARG002 - the one field
        """The field whose value is held against the context."""
        return () if self.event_value_field is None else (self.event_value_field,)

    def path_of(self, part: str) -> Path:
        """The field that ``part`` is of."""
        return ("condition",) if part in {"when", "value"} else ("context_value_field",)

    def placed(self, figure: str, found: Finding) -> Finding | None:
        """At the field that names what is wrong."""
        match found.path:
            case ("group_by", *_):
                return replace(found, path=("correlation_key",))
            case ("conditions", number, *_) if number == 1:
                return replace(found, path=("context_type_field",))
        return super().placed(figure, found)

    def program(self, spec: StreamSpec, defaults: Defaults) -> Program:
        """The context and the line over it; the alert shows the records of the context by themselves."""
        made = super().program(spec, defaults)
        called = ((name, self._called(figure)) for name, figure in _PARTS)
        parts = tuple((name, figure) for name, figure in called if figure in self.figures_of())
        emission = Emission(every=self.emit == "every", cooldown_ms=self.cooldown, delivered=self.emit_to_sink)
        return replace(made, emission=emission, evidence=Evidence(context=parts, parts=self.emit_mode))

    def verdict(self, spec: StreamSpec) -> FormulaPredicate:
        """The line; a record without its last context waits for it."""
        return replace(super().verdict(spec), waits=self.context_resolution == "last")

    def lingers_ms(self, defaults: Defaults) -> int:
        """As long as context may come that the last record that it judged waits for."""
        return self.lateness(defaults).allowed_ms or 0 if self.context_resolution == "last" else 0

    def in_words(self, value: float | None, read: Mapping[str, Any], by: str = "") -> str:
        """``rate 1.3125, 5 % off the last rate of fx_rates, 1.25, 40 s before``."""
        event = None if self.event_value_field is None else read.get(self.event_value_field)
        context, age = (read.get(self._called(name)) for name in (_VALUE, _AGE))
        kind = "last" if self.context_resolution == "last" else "mean"
        theirs = f"{kind} {self.context_value_field} of {noun(self.context_topic)}"
        if context is None:
            return f"no {theirs}{by} in {format_duration(int(self._window_ms or 0))}"
        known = f"{number(context)}, {f'{rounded_duration(age)} before' if age else 'of the same instant'}"
        if self.event_value_field is None or self.metric == "direct":
            return f"{theirs}{by} {known}"
        found = f"{self.event_value_field} {number(event)}{by}"
        if value is None:
            return f"{found}, the {theirs} {known}"
        side = "off" if self.metric == "ratio_deviation" else "below" if value < 0 else "above"
        return f"{found}, {self.measure(abs(value))} {side} the {theirs}, {known}"

    def measure(self, value: float) -> str:
        """In per cent, in deviations, or as it is."""
        if self.metric == "ratio_deviation":
            return f"{rounded(100 * value)} %"
        return f"{rounded(value)} deviations" if self.metric == "z_score" else number(value)

    def line_in_words(self, operator: str | None, threshold: float | None) -> str:
        """`` (line: > 2 %)``."""
        return "" if threshold is None else f" (line: {operator} {self.measure(threshold)})"

    def fires_where(self) -> str:
        """In words."""
        kind = "last" if self.context_resolution == "last" else "mean"
        theirs = f"the {kind} {self.context_value_field} of {noun(self.context_topic)}"
        metrics = {
            "ratio_deviation": f"{self.event_value_field} is off {theirs} by a share",
            "difference": f"{self.event_value_field} less {theirs} is",
            "z_score": f"{self.event_value_field} less {theirs}, in its standard deviations, is",
        }
        asked = f"{self.condition.operator} {number(self.condition.value)}"
        few = f" ({self.min_context_points} or more)" if self.min_context_points > 1 else ""
        ages = [
            int(self._window_ms or 0),
            *([1000 * self.max_context_age_seconds] if self.max_context_age_seconds else []),
        ]
        return f"{metrics.get(self.metric, f'{theirs} is')} {asked}, in {format_duration(min(ages))}{self.same}{few}"
