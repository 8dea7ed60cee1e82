"""What a rule becomes: feeds, figures over them, a verdict, and how it emits. Of its type no more is known.

A *feed* says which records count and under which key. A *figure* is an aggregate over a window of a feed. The *verdict*
says when the figures make the record a hit, or which records must have come before it, one after the other. A rule type
is a front-end that writes these four; what compiles, judges and tells of hits reads them, and knows no type.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from crossline.basics.conditions.condition import Condition
from crossline.basics.fields import FieldKind
from crossline.basics.formula.formula import Formula
from crossline.basics.formula.naive import COMPARE
from crossline.basics.formula.threshold import certain_threshold, threshold_at
from crossline.basics.formula.tree import Constant, Join
from crossline.basics.models.model import Scorer
from crossline.basics.streams.reading import Reading
from crossline.programs.alert_fields import CarriedRecord
from crossline.programs.kinds import ColumnKind, Operator, TimeMode
from crossline.programs.registry import declared

ALWAYS = Formula("true", Constant(True, "boolean"))


@dataclass(frozen=True, slots=True)
class Feed:
    """Records of a stream that meet ``condition``, by the values of ``key_fields`` (none: all under one key).

    ``time_mode``: the clock that windows are measured on. ``allowed_lateness_ms``: beyond it (ingest time - event time)
    a record does not enter; None: no bound.
    """

    stream: str
    key_fields: tuple[str, ...]
    time_mode: TimeMode
    condition: Condition
    allowed_lateness_ms: int | None


@dataclass(frozen=True, slots=True)
class Window:
    """From t - ``length_ms`` to t, which is ``delay_ms`` before the time of the record.

    ``bounds``: its ends, as rules write them. ``resolution_ms``: it begins with a pane of this length, and panes are
    kept instead of records; 0: it is exact.
    """

    length_ms: int
    bounds: str = "(]"
    include_current: bool = True
    delay_ms: int = 0
    resolution_ms: int = 0

    @property
    def reach_ms(self) -> int:
        """How far back from the record it begins, at most."""
        return self.length_ms + self.delay_ms + self.resolution_ms

    @property
    def rearm_ms(self) -> int:
        """How far back from the record lies what has left it."""
        return self.length_ms + self.delay_ms + (self.bounds[0] == "[" and not self.resolution_ms)


@dataclass(frozen=True, slots=True)
class Figure:
    """``aggregate`` of ``column`` over ``window`` of the records of ``feed`` that have one.

    ``aggregate`` is the name of one that is declared (see ``registry``). ``column_kind``: how the column is kept; None:
    it is not, as for a count. ``streak_of``: what the records of a streak meet. ``rank``: of a quantile, which.
    ``half_life_ms``: of a sum that is ``decayed``: by the time of the record, a value that is so old counts half.
    """

    feed: Feed
    aggregate: str
    window: Window
    column: str | None = None
    column_kind: ColumnKind | None = None
    streak_of: Condition | None = None
    rank: float = 0.0
    half_life_ms: int = 0

    @property
    def error(self) -> float | None:
        """How far off it may be where panes keep a sketch; None where it is exact."""
        return declared(self.aggregate).sketch_error if self.window.resolution_ms else None


SCORE = "score of the model"  # no field and no figure has such a name


@dataclass(frozen=True, slots=True)
class Scored:
    """What a model says of ``features``: formulas of figures and fields, in the order of the scorer's names.

    The verdict's formulas know it as ``SCORE``.
    """

    scorer: Scorer
    features: tuple[Formula, ...]


@dataclass(frozen=True, slots=True)
class FormulaPredicate:
    """The verdict of a formula: that ``when`` holds of the program's figures, by their ``names``, and of fields.

    ``value``: what an alert shows as its value; None: nothing. ``lines``: what that is held against, where the formula
    says so in other words and the type knows; none: what the formula compares it with. ``shows``: what else an alert
    shows, by name. ``scored``: the model whose score the formulas are of, if there is one. ``waits``: a record whose
    first figure is missing is judged when that comes. ``read``: the figures, and the record's fields, that it reads.
    """

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
class Comparison:
    """The verdict that kernels reach by themselves: the program's one figure ``operator`` ``threshold``."""

    operator: Operator
    threshold: float | int

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
class SequencePredicate:
    """The verdict of a sequence: records of a key took all ``steps`` in order, the last ``within_ms`` of the first.

    ``until``: records that end what is under way. ``strict``: no other record of the program's feed comes in between.
    ``probes``: each record that takes a step is a hit, at the last of the steps that it takes.
    """

    steps: tuple[NamedStep, ...]
    within_ms: int
    until: Feed | None = None
    strict: bool = False
    probes: bool = False

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
class AbsencePredicate:
    """The verdict of an absence: a record of ``after``, and none of ``expect`` of its key up to ``within_ms`` later.

    It is reached by the stream's clock, not at a record. ``probes``: a record that was answered is a hit too, then.
    """

    after: Feed
    expect: Feed
    within_ms: int
    probes: bool = False

    def over(self, change: Callable[[Feed], Feed]) -> AbsencePredicate:
        """The same over other records: each feed as ``change`` makes it."""
        return replace(self, after=change(self.after), expect=change(self.expect))

    @property
    def feeds(self) -> tuple[Feed, Feed]:
        """Of what waits, and of what it waits for."""
        return self.after, self.expect


@dataclass(frozen=True, slots=True)
class FeatureQuery:
    """No verdict: the figures, by their ``names``, are told of each record that the program judges, and no hit is made.

    ``facts``: fields of the record that are told along.
    """

    names: tuple[str, ...]
    facts: tuple[str, ...] = ()


_NAMED, _STEPPED = FormulaPredicate | FeatureQuery, SequencePredicate | AbsencePredicate
Verdict = Comparison | FormulaPredicate | SequencePredicate | AbsencePredicate | FeatureQuery


@dataclass(frozen=True, slots=True)
class Emission:
    """When a hit is told: at ``every`` one, or where the verdict was another at the key's record before.

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
    """Figures of another key: what they are of, the ``program`` that tells them, and the kinds of their values."""

    reading: Reading
    program: Program
    kinds: tuple[FieldKind, ...]

    @property
    def figures(self) -> Mapping[str, Figure]:
        """By name."""
        return self.program.named


@dataclass(frozen=True, slots=True)
class Program:
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
        verdict = self.verdict
        if bool(self.figures) != isinstance(verdict, Comparison | FormulaPredicate | FeatureQuery):
            raise ValueError("a verdict needs a figure, and a figure a verdict; one of order has none")
        named = len(verdict.names) if isinstance(verdict, _NAMED) else int(isinstance(verdict, Comparison))
        if named != len(self.figures):
            raise ValueError(f"a verdict of {named} figures, and {len(self.figures)} figures")

    @property
    def figure(self) -> Figure | None:
        """The first, whose window an alert shows."""
        return self.figures[0] if self.figures else None

    @property
    def named(self) -> Mapping[str, Figure]:
        """The figures of a formula by name, its own and then those brought to it; of any other verdict none."""
        if not isinstance(self.verdict, _NAMED):
            return {}
        own = zip(self.verdict.names, self.figures, strict=True)
        return dict([*own, *(each for cross_key in self.cross_key for each in cross_key.figures.items())])

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """All that decides of a record alone what it enters."""
        if isinstance(self.verdict, SequencePredicate):
            own = (self.feed,) if self.verdict.strict else ()
            return tuple(feed.condition for feed in (*own, *self.verdict.feeds))
        if isinstance(self.verdict, AbsencePredicate):
            return tuple(feed.condition for feed in self.verdict.feeds)
        streaks = (each.streak_of for each in self.figures if each.streak_of is not None)
        return (self.feed.condition, *(each.feed.condition for each in self.figures), *streaks)

    @property
    def reach_ms(self) -> int:
        """How far back from a record its windows, the records before it and the cooldown reach.

        Of an absence: how far back a record lies that a hit of now is at, or that held such a one back.
        """
        if isinstance(self.verdict, AbsencePredicate):
            return self.verdict.within_ms + self.emission.cooldown_ms
        within_ms = self.verdict.within_ms if isinstance(self.verdict, SequencePredicate) else 0
        return max([self.emission.cooldown_ms, within_ms, *(each.window.reach_ms for each in self.figures)])

    @property
    def resolution_ms(self) -> int:
        """The panes that its figures are kept in; 0: none."""
        return max((each.window.resolution_ms for each in self.figures), default=0)

    @property
    def in_panes(self) -> bool:
        """Whether any of its figures, those that are brought to it among them, is kept in panes."""
        return bool(self.resolution_ms or any(each.program.resolution_ms for each in self.cross_key))

    @property
    def window_ms(self) -> int | None:
        """The length of the window that an alert speaks of; None where there is none."""
        if isinstance(self.verdict, SequencePredicate | AbsencePredicate):
            return self.verdict.within_ms
        return self.figure.window.length_ms if self.figure else None

    def over(self, change: Callable[[Feed], Feed]) -> Program:
        """The same over other records: each of its feeds as ``change`` makes it."""
        verdict = self.verdict.over(change) if isinstance(self.verdict, _STEPPED) else self.verdict
        figures = tuple(replace(each, feed=change(each.feed)) for each in self.figures)
        return replace(self, feed=change(self.feed), figures=figures, verdict=verdict)

    def probing(self) -> Program:
        """The same with a verdict that always holds, and an alert at every record that has a figure or takes a step."""
        match self.verdict:
            case None | FeatureQuery():
                return self
            case FormulaPredicate(when=asked):
                # Beside what always holds stands what is asked for: its figures and fields are in the evidence.
                when = Formula(asked.text, Join("or", (asked.root, ALWAYS.root)))
                probe: Verdict = replace(self.verdict, when=when)
            case SequencePredicate() | AbsencePredicate():
                probe = replace(self.verdict, probes=True)
            case _:
                probe = Comparison(">=", -sys.float_info.max)
        return replace(self, verdict=probe, emission=replace(self.emission, every=True, cooldown_ms=0))
