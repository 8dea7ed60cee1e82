"""Figures in files of their own: tables of figures, which are computed for every record, and figures that rules share.

A table is ``source_topic`` and ``figures`` as in a rule. A shared figure is one figure's fields under ``kind: figure``,
with an id, a version and a life cycle as rules have them. ``crossline figures`` takes both.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from crossline.basics.conditions.condition import Condition
from crossline.basics.streams.inputs import Reading, rule_of
from crossline.basics.streams.schema import StreamSpec
from crossline.basics.texts.fieldtypes import OptionalSeconds, RuleId, Texts
from crossline.basics.texts.problems import Finding, Path, Problem, RefusedError, shown
from crossline.basics.texts.report import Report, place
from crossline.basics.texts.validation import findings_from_validation
from crossline.basics.texts.yamltext import VALUES_MAX, Document, measure
from crossline.programs.kinds import TimeMode
from crossline.programs.program import FeatureQuery, Program
from crossline.rules.base import Defaults, Rule, Status
from crossline.rules.composition import Sources
from crossline.rules.figure import FigureFields
from crossline.rules.figure_checks import is_shared
from crossline.rules.rule_reader import RULE_SIZE_MAX, placed_bodies
from crossline.rules.ruleset import RuleSet
from crossline.rules.types.formula import check_figures

COLUMNS = ("record_id", "event_time")  # of a table, besides its figures
_ENVELOPE = ("kind", "figure_id", "version", "status", "source_topic", "description", "owner", "tags")


class FigureTable(BaseModel):
    """Figures that are computed for every record of a stream."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    source_topic: str = Field(description="The stream for whose records they are computed.")
    figures: Annotated[dict[str, FigureFields], BeforeValidator(check_figures)] = Field(
        description="Figures by their names, which become columns. See Figures."
    )
    time_mode: TimeMode | None = Field(None, description="Clock, as of a rule. None: the pipeline's.")
    allowed_lateness: OptionalSeconds = Field(
        None, description="As of a rule: a record that is later is in no window. None: the pipeline's (2 min)."
    )


class SharedFigure(FigureFields):
    """One version of a figure that rules name."""

    stands_alone: ClassVar[bool] = True

    form: Literal["figure"] = Field(alias="kind", description="`figure`.")
    figure_id: RuleId = Field(description="Stable name, by which rules name it, as a rule has one.")
    shared: None = Field(None, exclude=True, description="A shared figure names no other.")
    version: int = Field(ge=1, lt=2**31, description="A new version replaces the older; one version has one body.")
    status: Status = Field(
        "active",
        description="`draft`: no rule names it yet. `shadow`: rules in status draft or shadow do. `paused`, `retired`: "
        "no further version of a rule names it; those that do go on.",
    )
    source_topic: str = Field(description="The stream whose records it is computed of.")  # type: ignore[assignment]
    description: str | None = Field(None, description="What it means, in words.")
    owner: str | None = Field(None, description="Who answers for it.")
    tags: Texts = Field((), description="Free marks.")

    def definition(self) -> dict[str, Any]:
        """What it is, as plain JSON in one way of writing it: the fields of a figure, without defaults."""
        return self.model_dump(mode="json", exclude_defaults=True, exclude={*_ENVELOPE, "form"})

    def to_json(self) -> dict[str, Any]:
        """The whole of it as plain JSON that loads again as the same figure."""
        whole = self.model_dump(mode="json", exclude_defaults=True, by_alias=True)
        return {**whole, "status": self.status}

    def as_figure(self) -> FigureFields:
        """The figure alone."""
        return FigureFields.model_validate(self.definition())


@dataclass(frozen=True, slots=True)
class PlacedFigure:
    """A figure of a table, or a shared one, by its name, and where it stands.

    ``clock``: the clock and the lateness that a table gives its figures.
    """

    name: str
    stream: str
    fields: FigureFields
    document: Document
    path: Path
    shared: SharedFigure | None = None
    clock: Mapping[str, Any] = field(default_factory=dict)

    @property
    def where(self) -> str:
        """File and line."""
        return f"{self.document.source}:{self.document.position(self.path)[0]}"

    def problem(self, finding: Finding) -> Problem:
        """``finding`` at its place in the file."""
        return place(finding, self.document, self.path)


def load_figures_document(
    document: Document,
    streams: Mapping[str, StreamSpec] | None = None,
    lists: Collection[str] | None = None,
    *,
    beside_rules: bool = False,
    tables: bool = True,
) -> list[PlacedFigure]:
    """The figures of a text: a table or a shared figure, a list of such, or several documents.

    With ``streams`` (and the names of ``lists``) fields and types are checked too. ``beside_rules``: rules stand there
    too, and are passed over; so are tables where ``tables`` is not. Raises RefusedError with all that is wrong in it.
    """
    report, found = Report(document), list[PlacedFigure]()
    for path, data in placed_bodies(document.data):
        if not tables and not is_shared(data):
            continue
        if beside_rules and isinstance(data, dict) and "rule_id" in data:
            continue
        try:
            figures, findings = _read(data, path, document, shared=is_shared(data), lists=lists, streams=streams)
            found += figures
            for finding in findings:
                report.take(finding, path)
        except Exception as error:  # noqa: BLE001 - a fault in a check is reported as such, and refuses one figure
            report.fault(path, error)
    report.raise_if_any()
    return found


def _read(
    data: Any,
    path: Path,
    document: Document,
    *,
    shared: bool,
    streams: Mapping[str, StreamSpec] | None,
    lists: Collection[str] | None,
) -> tuple[list[PlacedFigure], list[Finding]]:
    if measure(data, VALUES_MAX, RULE_SIZE_MAX)[1] > RULE_SIZE_MAX:
        found = f"more than {RULE_SIZE_MAX:,} bytes, with what aliases name written out"
        return [], [Finding((), found, "smaller figures", "a long list of values has its place in a named list")]
    if not isinstance(data, dict):
        expected = "a figure: a mapping with kind: figure, figure_id, version, source_topic"
        return [], [Finding((), shown(data), expected if shared else "a mapping with source_topic and figures")]
    model: type[SharedFigure | FigureTable] = SharedFigure if shared else FigureTable
    findings: list[Finding] = []
    whole: SharedFigure | FigureTable | None = None
    try:
        whole = model.model_validate(data)
    except ValidationError as error:
        findings = findings_from_validation(error, model)
    wrong = {finding.path for finding in findings}
    stream, fault = _stream(data.get("source_topic"), streams)
    if fault is not None and ("source_topic",) not in wrong:
        findings.append(fault)
    readable = _readable(data, wrong, shared=shared)
    if streams is not None and stream is not None:
        for name, fields in readable.items():
            at: Path = () if shared else ("figures", name)
            findings += [below(at, each) for each in _misfits(fields, stream, streams, lists)]
    if shared and isinstance(data.get("group_by"), dict):
        expected = "names of fields; {here: there} is for the figures of rules and tables"
        findings.append(Finding(("group_by",), shown(data["group_by"]), expected))
    if not shared:
        findings += [
            Finding(("figures", name), f"a figure named {name}", f"another name: {name} is a column of its own")
            for name in COLUMNS
            if name in readable
        ]
    if whole is None or findings:
        return [], findings
    if isinstance(whole, SharedFigure):
        return [PlacedFigure(whole.figure_id, whole.source_topic, whole.as_figure(), document, path, whole)], []
    return list(_of_table(whole, path, document)), []


def _misfits(
    fields: FigureFields, stream: str, streams: Mapping[str, StreamSpec], lists: Collection[str] | None
) -> list[Finding]:
    """Why the figure cannot be computed for the records of ``stream``."""
    side_input = fields.side_input(stream)
    if side_input is not None and fields.risk is None:
        _, fault = _stream(side_input.source, streams)
        if fault is not None:
            return [fault]
    return fields.findings(stream, spec_read(stream, [fields], streams), lists)


def _of_table(table: FigureTable, path: Path, document: Document) -> Iterator[PlacedFigure]:
    clock = table.model_dump(mode="json", exclude_defaults=True, include={"time_mode", "allowed_lateness"})
    for name, fields in table.figures.items():
        at = (*path, "figures", name)
        yield PlacedFigure(name, table.source_topic, fields, document, at, clock=clock)


def _readable(data: Mapping[str, Any], wrong: Collection[Path], *, shared: bool) -> dict[str, FigureFields]:
    """The figures as far as they can be read, so that what does not fit the stream is reported at once too."""
    if shared:
        read = _repaired({name: value for name, value in data.items() if name not in _ENVELOPE}, wrong)
        return {"": read} if read is not None else {}
    written = data.get("figures")
    found = {}
    for name, raw in written.items() if isinstance(written, dict) and ("figures",) not in wrong else ():
        inside = {path[2:] for path in wrong if path[:2] == ("figures", name)}
        read = _repaired(raw, inside) if isinstance(raw, dict) else None
        if read is not None:
            found[name] = read
    return found


def _repaired(raw: Mapping[str, Any], wrong: Collection[Path]) -> FigureFields | None:
    """The figure without the fields that are ``wrong``; None where nothing is left of it."""
    bad = {path[0] for path in wrong if path}
    kept = {name: value for name, value in raw.items() if name in FigureFields.model_fields and name not in bad}
    try:
        return FigureFields.model_validate({"window": "1m", **kept})
    except ValidationError:
        return None


def _stream(name: Any, streams: Mapping[str, StreamSpec] | None) -> tuple[str | None, Finding | None]:
    """The stream of that name; or why it cannot be read."""
    if not isinstance(name, str):
        return None, None
    if rule_of(name) is not None:
        expected = "the name of a stream; figures of hits in files of their own are not in this version yet"
        return None, Finding(("source_topic",), shown(name), expected)
    fault = Sources.of(streams, {}).finding(name) if streams is not None else None
    return (name, None) if fault is None else (None, fault)


def check_together(figures: Iterable[PlacedFigure]) -> None:
    """Raises RefusedError with every figure that cannot stand beside the others: a name that comes twice."""
    first: dict[tuple[str, int], PlacedFigure] = {}
    problems = []
    for each in figures:
        version = each.shared.version if each.shared is not None else 0
        known = first.setdefault((each.name, version), each)
        if known is each or (each.shared and known.shared and each.shared.to_json() == known.shared.to_json()):
            continue
        path: Path = ("version",) if version else ()
        text = f"version {version} of figure {each.name} again" if version else f"a figure named {each.name} again"
        problems.append(each.problem(Finding(path, text, f"one of that name; {known.where} has another")))
    if problems:
        raise RefusedError(problems)


def below(path: Path, finding: Finding) -> Finding:
    """``finding`` of what stands at ``path``."""
    return replace(finding, path=(*path, *finding.path))


class TableRule(Rule):
    """Figures of one key as a rule that emits them for every record. No file has such a rule."""

    is_table: ClassVar[bool] = True

    rule_type: str = "figures"
    figures: dict[str, FigureFields] = Field(description="Those of one key and one resolution.")

    @property
    def reading(self) -> Reading:
        """Its stream, and those that its figures are of besides."""
        return reading_of(self.source_topic, self.figures.values())

    def all_conditions(self) -> tuple[Condition, ...]:
        """Those of its figures."""
        return tuple(each.condition for each in self.figures.values())

    def program(self, spec: StreamSpec, defaults: Defaults) -> Program:
        """It judges every record that has the key."""
        feed = self.feed(defaults, next(iter(self.figures.values())).key_fields)
        figures = tuple(each.figure(feed, spec) for each in self.figures.values())
        return Program(feed, figures, FeatureQuery(tuple(self.figures)))


def read_feature_query(body: Any) -> tuple[Rule | None, Sequence[Finding]]:
    """A rule of ``feature_query``, from the JSON that it made of itself."""
    return TableRule.model_validate(body), ()


def reading_of(stream: str, figures: Iterable[FigureFields]) -> Reading:
    """What is read where ``figures`` are computed for the records of ``stream``."""
    side_inputs = {side_input for each in figures if (side_input := each.side_input(stream)) is not None}
    return Reading((stream,), tuple(sorted(side_inputs, key=str)))


def spec_read(stream: str, figures: Iterable[FigureFields], streams: Mapping[str, StreamSpec]) -> StreamSpec:
    """The records of ``stream``, beside those of the other streams that ``figures`` are of."""
    return Sources.of(streams, {}).of_reading(reading_of(stream, figures))


def feature_query(figures: Iterable[PlacedFigure], used_ids: Collection[str] = ()) -> RuleSet:
    """The feature queries of ``figures``, as rules with the ids ``figures-0``, ``figures-1`` and so on.

    Figures with the same stream, key, resolution, side input and clock share one.

    ``used_ids``: the ids of the other rules.
    """
    together: dict[tuple[Any, ...], dict[str, FigureFields]] = {}
    for each in figures:
        clock = tuple(sorted(each.clock.items()))
        key = (each.stream, each.fields.key_fields, each.fields.resolution, each.fields.side_input(each.stream), clock)
        together.setdefault(key, {})[each.name] = each.fields
    rules = []
    free = (name for number in count() if (name := f"figures-{number}") not in used_ids)
    for name, ((stream, *_, clock), mine) in zip(free, together.items(), strict=False):
        envelope = {"rule_id": name, "version": 1, "source_topic": stream, **dict(clock)}
        rules.append(TableRule.model_validate({**envelope, "figures": mine}))
    return RuleSet.from_rules(rules)
