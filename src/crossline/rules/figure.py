"""Figures as rules write them: an aggregate of a field over a window of a key, with its own conditions."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    TypeAdapter,
    create_model,
    model_validator,
)

from crossline.basics.conditions.condition import Condition
from crossline.basics.conditions.tree import check_conditions, parse_conditions
from crossline.basics.fields import FieldKind
from crossline.basics.streams.inputs import HIT, SideInput, hits_of, spec_of
from crossline.basics.streams.schema import StreamSpec
from crossline.basics.texts.fieldtypes import Duration, Names, OptionalDuration, RuleId
from crossline.basics.texts.problems import Finding, listed, one_of, shown
from crossline.basics.texts.validation import refusal, refusals
from crossline.programs.aggregate import NO_RANK, Aggregate
from crossline.programs.program import Feed, Figure, Window
from crossline.programs.registry import aggregates, declared, names
from crossline.rules.base import check_raw_conditions
from crossline.rules.figure_checks import (
    column_kind,
    field_findings,
    group_findings,
    limit_findings,
    resolution_findings,
    side_input_findings,
)
from crossline.rules.risk import DAY_MS, KEPT, check_risk, risk_findings, without_risk


def _keys(value: Any) -> Any:
    if not isinstance(value, dict):
        return _NAMES.validate_python(value)
    names = [*value, *value.values()]
    if not value or not all(isinstance(name, str) and name for name in names):
        raise refusal("names of fields, or {here: there} where the other stream has other names for them")
    return dict(value)


def _as_written(keys: tuple[str, ...] | dict[str, str]) -> list[str] | dict[str, str]:
    return keys if isinstance(keys, dict) else list(keys)


_NAMES: TypeAdapter[tuple[str, ...]] = TypeAdapter(Names)


class _SharedFields(BaseModel):
    """How a shared figure is named."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)
    shared: RuleId | None = Field(
        None,
        alias="figure",
        description="The id of a shared figure, whose definition becomes part of the rule's body as the rule is read; "
        "nothing stands beside it but `version`.",
    )
    version: int | None = Field(
        None, ge=1, lt=2**31, description="Of the shared figure. None: the highest that is active as the rule is read."
    )


def _written(aggregate: Aggregate) -> tuple[Any, Any]:
    """The field of a figure that names the aggregate: its type and its default."""
    if aggregate.parameters is not None:
        kind = aggregate.parameters.written
    else:
        kind = Literal[True] | None if aggregate.of_records else str | None
    return kind, Field(None, description=aggregate.means)


if TYPE_CHECKING:
    _AggregateFields = _SharedFields
else:
    _FIELDS = {name: _written(each) for name, each in aggregates().items() if not each.hidden}
    _AggregateFields = create_model("_AggregateFields", __base__=_SharedFields, **_FIELDS)


class FigureFields(_AggregateFields):
    """One figure: exactly one aggregate, a key and a window; or the name of a shared one, which has these."""

    stands_alone: ClassVar[bool] = False  # in a file of its own, with a version

    risk: Annotated[Literal[True] | tuple[str, ...] | None, BeforeValidator(check_risk)] = Field(
        None,
        description="The risk score of the entity: the scores of the hits on records with its key, each halved every "
        "`half_life`. `true`: of all rules but those that read a risk score themselves; or a list of rules.",
    )
    half_life: OptionalDuration = Field(None, description="Of `risk`: after so long a hit counts half. None: `1d`.")
    source_topic: str | None = Field(
        None,
        description="The stream that it is of, or `rule:<rule_id>` for the hits of a rule. None: the rule's own.",
    )
    group_by: Annotated[tuple[str, ...] | dict[str, str], BeforeValidator(_keys), PlainSerializer(_as_written)] = Field(
        (),
        description="Field or fields of the key; none: one window over the whole stream. `{here: there}` where the "
        "stream of `source_topic` has other names for them.",
    )
    window: OptionalDuration = Field(
        None,
        description="How far back the window reaches: `10m`. Of `risk` alone there may be none: it is 20 half lives.",
    )
    resolution: OptionalDuration = Field(
        None,
        description="Keeps panes of this length (`1h`) instead of records, from `1s` on: for long windows. The window "
        "then begins with a whole pane. All figures of a rule that have one have the same; `distinct_count` is within "
        "1.6 % beyond 1,024 values.",
    )
    delay: Duration = Field(0, description="The window ends so long before the record.")
    conditions: Annotated[Any, BeforeValidator(check_raw_conditions)] = Field(
        None, description="Only records that meet these conditions count; none: all of them."
    )
    bounds: Literal["(]", "[]", "[)"] = Field("(]", description="Which ends belong to the window.")
    include_current: bool | None = Field(
        None, description="Whether the record itself is in its window. None: yes, but for `[)` and `since`."
    )

    @property
    def aggregate(self) -> str:
        """The one that is given; of several the first."""
        return "decayed" if self.risk is not None and not self._given else self._given[0]

    @cached_property
    def _given(self) -> list[str]:
        return [name for name in names(written_plainly=False) if getattr(self, name) is not None]

    @property
    def field(self) -> str | None:
        """The field that it is computed of."""
        return self._of[0]

    @property
    def _of(self) -> tuple[str | None, float]:
        """The field, and the rank."""
        if self.aggregate == "decayed":
            return f"{HIT}.score", NO_RANK
        return declared(self.aggregate).of(getattr(self, self.aggregate))

    @property
    def source(self) -> str | None:
        """The stream, or the hits, that it is of; None where it is of the records that are judged."""
        if self.risk is None:
            return self.source_topic
        return hits_of(() if self.risk is True else self.risk)

    @property
    def half_life_ms(self) -> int:
        """Of a risk score; 0 of others."""
        return 0 if self.risk is None else self.half_life or DAY_MS

    @property
    def window_ms(self) -> int:
        """How far back it reaches."""
        return self.window or KEPT * self.half_life_ms

    @property
    def key_fields(self) -> tuple[str, ...]:
        """The fields of the key, as the record that is judged has them."""
        return tuple(self.group_by)

    def side_input(self, judged: str) -> SideInput | None:
        """What it is of beside the records that are ``judged`` (see ``Reading.judges``); None where it is of these."""
        source = self.source
        if source is None or source in judged.split("&"):
            return None
        renamed = self.group_by.items() if isinstance(self.group_by, dict) else ()
        return SideInput(source, tuple((here, there) for here, there in renamed if here != there))

    @cached_property
    def condition(self) -> Condition:
        """The conditions, parsed."""
        return Condition(parse_conditions(self.conditions)[0])

    @model_validator(mode="after")
    def _check(self) -> FigureFields:
        findings = []
        given: list[str] = [*self._given, *(["risk"] if self.risk is not None else [])]
        if self.shared is not None and not given:
            expected = "a shared figure whose definition is known here: it is read with the files of rules"
            raise refusals([Finding(("figure",), self.shared, expected)])
        if self.version is not None and self.shared is None and not self.stands_alone:
            findings.append(Finding(("version",), shown(self.version), "a figure beside it, whose version it is"))
        if self.risk is not None:
            written = {name: getattr(self, name) for name in self.model_fields_set}
            findings += risk_findings(written, self.half_life, self.window, alone=self.stands_alone)
        else:
            findings += without_risk(self.half_life)
        if len(given) != 1:
            found = listed(given) if given else "no aggregate"
            findings.append(Finding((), found, _known_aggregates()))
        if not self.window and (self.risk is None or self.window == 0):
            found = "an empty window" if self.window == 0 else "nothing"
            findings.append(Finding(("window",), found, "a window such as 10m"))
        findings += resolution_findings(self.resolution, self.window)
        for each in map(declared, self._given):
            findings += limit_findings(each, panes=self.resolution is not None)
            if each.meets and self.conditions is None:
                expected = f"the conditions that the records of the {each.name} meet"
                findings.append(Finding(("conditions",), "nothing", expected))
        if isinstance(self.group_by, dict) and self.source is None:
            found = ", ".join(f"{here}: {there}" for here, there in self.group_by.items())
            expected = "names of fields; {here: there} is for figures that have a source_topic"
            findings.append(Finding(("group_by",), f"{{{found}}}", expected))
        if findings:
            raise refusals(findings)
        return self

    def kind(self, spec: StreamSpec) -> FieldKind:
        """What kind of value it is."""
        aggregate = declared(self.aggregate)
        if self.field is None or self.risk is not None:
            return aggregate.kind("integer")
        return aggregate.kind(spec_of(spec, self.source).columns[self.field].kind)

    def findings(self, name: str, spec: StreamSpec, lists: Collection[str] | None) -> list[Finding]:
        """What does not fit the stream ``name``, or that which it is of."""
        found = group_findings(self.key_fields, name, spec)
        side_input, theirs = self.side_input(name), spec_of(spec, self.source)
        source = name if side_input is None else side_input.source
        if side_input is not None and not found:
            found += side_input_findings(side_input, self.key_fields, spec, theirs)
        found += check_conditions(self.condition.node, theirs.columns, source, lists)
        if self.field is not None:
            found += field_findings(self.aggregate, self.field, source, theirs, (self.aggregate,))
        return found

    def figure(self, feed: Feed, spec: StreamSpec) -> Figure:
        """The figure; ``feed``: the records that the rule judges, of whose clock and lateness it is."""
        aggregate, (field, rank) = declared(self.aggregate), self._of
        mine = Condition(parse_conditions(None)[0]) if aggregate.meets else self.condition
        included = self.bounds != "[)" and not aggregate.before_itself
        side_input = self.side_input(feed.stream)
        source = side_input.name if side_input is not None else self.source_topic or feed.stream
        # However late a record is, its hits are part of a risk score.
        lateness_ms = feed.allowed_lateness_ms if self.risk is None else None
        return Figure(
            Feed(source, self.key_fields, feed.time_mode, mine, lateness_ms),
            self.aggregate,
            Window(
                self.window_ms,
                self.bounds,
                included if self.include_current is None else self.include_current,
                self.delay,
                self.resolution or 0,
            ),
            field,
            column_kind(self.aggregate, field, spec_of(spec, self.source)),
            self.condition if aggregate.meets else None,
            rank,
            self.half_life_ms,
        )


_clashing = sorted({*names(written_plainly=False)} & {*FigureFields.__annotations__})
if _clashing:
    raise ValueError(f"no aggregate can be named {listed(_clashing)}: a figure has other fields of these names")


def made_figure(aggregate: str, field: str | None, common: Mapping[str, Any]) -> FigureFields:
    """The figure that a rule type makes of its own fields; ``common``: what stands in it besides the aggregate."""
    return FigureFields.model_validate({aggregate: True if declared(aggregate).of_records else field, **common})


def _known_aggregates() -> str:
    """``one of count: true, …, sum: field, …, or risk: true``."""
    plain = [each.example for each in map(declared, (*names(of_records=True), *names(of_records=False)))]
    others = [each.example for each in aggregates().values() if each.parameters is not None and not each.hidden]
    return "".join([one_of(plain, len(plain)), *(f", or {each}" for each in (*others, "risk: true"))])


def kinds(figures: Mapping[str, FigureFields], spec: StreamSpec) -> dict[str, FieldKind]:
    """What a formula may name: the figures, and the fields that have one value."""
    fields = {name: each.kind for name, each in spec.columns.items() if not each.is_list}
    return {**fields, **{name: each.kind(spec) for name, each in figures.items()}}
