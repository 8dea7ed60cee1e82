"""What a rule becomes: feeds, figures over them, a verdict, and how it emits. Of its type no more is known.

A *feed* says which records count and under which key. A *figure* is an aggregate over a window of a feed. The *verdict*
says when the figures make the record a hit, or which records must have come before it, one after the other. A rule type
is a front-end that writes these four; what compiles, judges and tells of hits reads them, and knows no type.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from crossline.basics.conditions.condition import Condition
from crossline.basics.fields import FieldKind
from crossline.basics.formula.formula import Formula
from crossline.basics.formula.naive import COMPARE
from crossline.basics.formula.threshold import certain_threshold, threshold_at
from crossline.basics.formula.tree import Constant, Join
from crossline.basics.streams.inputs import Reading
from crossline.programs.alert_fields import CarriedRecord
from crossline.programs.feed import Feed as Feed  # noqa: PLC0414 - part of a program
from crossline.programs.feed import Figure as Figure  # noqa: PLC0414 - part of a program
from crossline.programs.feed import Window as Window  # noqa: PLC0414 - part of a program
from crossline.programs.kinds import Operator
from crossline.programs.predicate import Kind, OfKind, Predicate

if TYPE_CHECKING:  # it loads numpy, for which who reads rules need not wait
    from crossline.basics.models.model import Scorer

ALWAYS = Formula("true", Constant(True, "boolean"))


SCORE = "score of the model"  # no field and no figure has such a name


@dataclass(frozen=True, slots=True)
class Scored:
    """What a model says of ``features``: formulas of figures and fields, in the order of the scorer's names.

    The verdict's formulas know it as ``SCORE``.
    """

    scorer: Scorer
    features: tuple[Formula, ...]


@dataclass(frozen=True, slots=True)
class FormulaPredicate(Predicate):
    """The verdict of a formula: that ``when`` holds of the program's figures, by their ``names``, and of fields.

    ``value``: what an alert shows as its value; None: nothing. ``lines``: what that is held against, where the formula
    puts it in other words and the type knows; none: what the formula compares it with. ``shows``: what else an alert
    shows, by name. ``scored``: the model whose score the formulas are of, if there is one. ``waits``: a record whose
    first figure is missing is judged when that comes. ``read``: the figures, and the record's fields, that it reads.
    """

    kind: ClassVar[Kind] = "formula"
    names: tuple[str, ...]
    when: Formula
    value: Formula | None = None
    shows: tuple[tuple[str, Formula], ...] = ()
    scored: Scored | None = None
    waits: bool = False
    lines: tuple[Comparison, ...] = ()
    read: tuple[str, ...] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        formulas = (self.when, *((self.value,) if self.value else ()), *(each for _, each in self.shows))
        if self.scored is not None:
            formulas = (*formulas, *self.scored.features)
        names = dict.fromkeys(name for each in formulas for name in each.names)
        read = tuple(name for name in names if self.scored is None or name != SCORE)
        object.__setattr__(self, "read", read)  # asked for at every hit

    @property
    def figure_names(self) -> tuple[str, ...]:
        """What its formulas call them."""
        return self.names

    def probing(self) -> Self:
        """Beside what always holds stands what is asked for: its figures and fields are in the evidence."""
        return replace(self, when=Formula(self.when.text, Join("or", (self.when.root, ALWAYS.root))))

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields of the record that it reads."""
        return tuple(name for name in self.read if name not in self.names)

    @property
    def fixed_line(self) -> Comparison | None:
        """What the value is held against wherever the verdict holds; None where that differs, or it is nothing."""
        if self.value is None or self.lines:
            return self.lines[0] if len(self.lines) == 1 else None
        found = certain_threshold(self.when.root, self.value.root)
        return None if found is None else Comparison(*found)

    def nearest(self, value: float) -> Comparison | None:
        """Of what the value is held against wherever it is judged, the one that ``value`` is beyond, or nearest to."""
        lines = self.lines or tuple(filter(None, [self.fixed_line]))
        return min(lines, key=lambda line: (not line.met(value), abs(value - line.threshold)), default=None)

    def line_at(self, value: float | None, record: Mapping[str, Any]) -> Comparison | None:
        """What ``value`` is held against where the verdict holds of ``record``, figures and fields by name."""
        if self.value is None or value is None:
            return None
        if self.lines:
            return self.nearest(value)
        found = threshold_at(self.when.root, self.value.root, record)
        return None if found is None else Comparison(*found)


@dataclass(frozen=True, slots=True)
class Comparison(Predicate):
    """The verdict that kernels reach by themselves: the program's one figure ``operator`` ``threshold``."""

    kind: ClassVar[Kind] = "comparison"
    operator: Operator
    threshold: float | int

    @property
    def figure_names(self) -> tuple[str, ...]:
        """One, that needs no name."""
        return ("",)

    def probing(self) -> Self:
        """One that any figure meets."""
        return replace(self, operator=">=", threshold=-sys.float_info.max)

    def met(self, value: float) -> bool:
        """Whether ``value`` is beyond it."""
        return bool(COMPARE[self.operator](value, self.threshold))


@dataclass(frozen=True, slots=True)
class NamedStep:
    """``times`` records of ``feed``, one after the other."""

    name: str
    feed: Feed
    times: int = 1


@dataclass(frozen=True, slots=True)
class SequencePredicate(Predicate):
    """The verdict of a sequence: records of a key took all ``steps`` in order, the last ``within_ms`` of the first.

    ``until``: records that end what is under way. ``strict``: no other record of the program's feed comes in between.
    ``probes``: each record that takes a step is a hit, at the last of the steps that it takes.
    """

    kind: ClassVar[Kind] = "sequence"
    steps: tuple[NamedStep, ...]
    within_ms: int
    until: Feed | None = None
    strict: bool = False
    probes: bool = False

    @property
    def span_ms(self) -> int:
        """From the first record to the last."""
        return self.within_ms

    def probing(self) -> Self:
        """Each step is a hit."""
        return replace(self, probes=True)

    @property
    def names(self) -> tuple[str, ...]:
        """The step of each record of a hit, in order."""
        return tuple(step.name for step in self.steps for _ in range(step.times))

    def over(self, change: Callable[[Feed], Feed]) -> SequencePredicate:
        """The same over other records: each feed as ``change`` makes it."""
        steps = tuple(replace(step, feed=change(step.feed)) for step in self.steps)
        return replace(self, steps=steps, until=None if self.until is None else change(self.until))

    @property
    def feeds(self) -> tuple[Feed, ...]:
        """Of its steps, and of what ends them."""
        return (*(step.feed for step in self.steps), *((self.until,) if self.until is not None else ()))


@dataclass(frozen=True, slots=True)
class AbsencePredicate(Predicate):
    """The verdict of an absence: a record of ``after``, and none of ``expect`` of its key up to ``within_ms`` later.

    It is reached by the stream's clock, not at a record. ``probes``: a record that was answered is a hit too, then.
    """

    kind: ClassVar[Kind] = "absence"
    after: Feed
    expect: Feed
    within_ms: int
    probes: bool = False

    @property
    def span_ms(self) -> int:
        """From the record to the last that may answer it."""
        return self.within_ms

    def probing(self) -> Self:
        """What was answered is a hit too."""
        return replace(self, probes=True)

    def over(self, change: Callable[[Feed], Feed]) -> AbsencePredicate:
        """The same over other records: each feed as ``change`` makes it."""
        return replace(self, after=change(self.after), expect=change(self.expect))

    @property
    def feeds(self) -> tuple[Feed, Feed]:
        """Of what waits, and of what it waits for."""
        return self.after, self.expect


@dataclass(frozen=True, slots=True)
class FeatureQuery(Predicate):
    """No verdict: feature rows with the figures, by their ``names``, of each judged record. There are no hits.

    ``facts``: fields of the record that go along.
    """

    kind: ClassVar[Kind] = "query"
    names: tuple[str, ...]
    facts: tuple[str, ...] = ()

    @property
    def figure_names(self) -> tuple[str, ...]:
        """The names of the figures."""
        return self.names


Verdict = Comparison | FormulaPredicate | SequencePredicate | AbsencePredicate | FeatureQuery


@dataclass(frozen=True, slots=True)
class Emission:
    """When a hit is reported: at ``every`` one, or where the verdict was another at the key's record before.

    After it, none for the same key for ``cooldown_ms``. ``delivered`` False: it is recorded, and given to no sink.
    ``rearm_ms``: a formula that held is no longer remembered after so long without a record that is judged; None: after
    as long as its windows reach.
    """

    every: bool = True
    cooldown_ms: int = 0
    delivered: bool = True
    rearm_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Evidence:
    """What an alert shows: ``fields`` of its record, and the records of the window where it ``lists`` them.

    ``notes``: what stands in every alert of the rule, by name. ``context``: where the first figure's records are the
    context of the record, what is said of it, each with the figure that says it; ``parts``: what of both is shown.
    ``hits``: the alerts that it rests on are what it is of.
    """

    fields: tuple[str, ...] = ()
    lists: bool = False
    notes: tuple[tuple[str, str], ...] = ()
    context: tuple[tuple[str, str], ...] = ()
    parts: Literal["event", "context", "both"] = "both"
    hits: bool = False


@dataclass(frozen=True, slots=True)
class CrossKeyFigure:
    """Figures of another key: what they are of, the ``program`` that computes them, and the kinds of their values."""

    reading: Reading
    program: Program
    kinds: tuple[FieldKind, ...]

    @property
    def figures(self) -> Mapping[str, Figure]:
        """By name."""
        return self.program.named


@dataclass(frozen=True, slots=True)
class Program(OfKind):
    """One rule, resolved against its stream and the pipeline's defaults.

    ``feed``: the records that are judged; those later than ``judge_lateness_ms`` are not (None: no such bound).
    ``figures`` are none, and ``verdict`` is None, where the record alone decides: each that enters is a hit. There are
    none either where the verdict is of the order of records. ``entity``: of such a program the fields of the key of its
    alerts, where the record has them all. ``record``: what alerts carry of it. ``cross_key``: figures of other keys,
    which a formula names as it does fields. ``reevaluate``: records are judged again where one comes late that may
    change the answer.
    """

    feed: Feed
    figures: tuple[Figure, ...] = ()
    verdict: Verdict | None = None
    emission: Emission = field(default_factory=Emission)
    evidence: Evidence = field(default_factory=Evidence)
    judge_lateness_ms: int | None = None
    cross_key: tuple[CrossKeyFigure, ...] = ()
    reevaluate: bool = False
    entity: tuple[str, ...] = ()
    record: CarriedRecord | None = None

    def __post_init__(self) -> None:
        if bool(self.figures) != (self.verdict is not None and not self.verdict.feeds):
            raise ValueError("a verdict needs a figure, and a figure a verdict; one of order has none")
        named = 0 if self.verdict is None else len(self.verdict.figure_names)
        if named != len(self.figures):
            raise ValueError(f"a verdict of {named} figures, and {len(self.figures)} figures")

    @property
    def predicate(self) -> Verdict | None:
        """The verdict."""
        return self.verdict

    @property
    def kind(self) -> Kind:
        """That of its verdict."""
        return "record" if self.verdict is None else self.verdict.kind

    @property
    def figure(self) -> Figure | None:
        """The first, whose window an alert shows."""
        return self.figures[0] if self.figures else None

    @property
    def named(self) -> Mapping[str, Figure]:
        """The figures of a formula by name, its own before its cross-key figures; of any other verdict none."""
        named = self.formula or self.query
        if named is None:
            return {}
        own = zip(named.names, self.figures, strict=True)
        return dict([*own, *(each for cross_key in self.cross_key for each in cross_key.figures.items())])

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """All that decides of a record alone what it enters."""
        if self.verdict is not None and self.verdict.feeds:
            own = (self.feed,) if self.sequence is not None and self.sequence.strict else ()
            return tuple(feed.condition for feed in (*own, *self.verdict.feeds))
        streaks = (each.streak_of for each in self.figures if each.streak_of is not None)
        return (self.feed.condition, *(each.feed.condition for each in self.figures), *streaks)

    @property
    def reach_ms(self) -> int:
        """How far back from a record its windows, the records before it and the cooldown reach.

        Of an absence: how far back a record lies that a hit of now is at, or that held such a one back.
        """
        if self.absence is not None:
            return self.absence.within_ms + self.emission.cooldown_ms
        span_ms = 0 if self.verdict is None else self.verdict.span_ms
        return max([self.emission.cooldown_ms, span_ms, *(each.window.reach_ms for each in self.figures)])

    @property
    def resolution_ms(self) -> int:
        """The panes that its figures are kept in; 0: none."""
        return max((each.window.resolution_ms for each in self.figures), default=0)

    @property
    def in_panes(self) -> bool:
        """Whether any of its figures, cross-key figures included, is kept in panes."""
        return bool(self.resolution_ms or any(each.program.resolution_ms for each in self.cross_key))

    @property
    def window_ms(self) -> int | None:
        """The length of the window that an alert speaks of; None where there is none."""
        if self.verdict is not None and self.verdict.feeds:
            return self.verdict.span_ms
        return self.figure.window.length_ms if self.figure else None

    def over(self, change: Callable[[Feed], Feed]) -> Program:
        """The same over other records: each of its feeds as ``change`` makes it."""
        verdict = None if self.verdict is None else self.verdict.over(change)
        figures = tuple(replace(each, feed=change(each.feed)) for each in self.figures)
        return replace(self, feed=change(self.feed), figures=figures, verdict=verdict)

    def probing(self) -> Program:
        """The same with a verdict that always holds, and an alert at every record that has a figure or takes a step."""
        if self.verdict is None or self.query is not None:
            return self
        verdict = self.verdict.probing()
        return replace(self, verdict=verdict, emission=replace(self.emission, every=True, cooldown_ms=0))
