"""The predicates of programs, and the methods that each has, so that no caller checks for its class."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, cast

from crossline.basics.formula.formula import Formula
from crossline.basics.formula.naive import COMPARE
from crossline.basics.formula.threshold import certain_threshold, threshold_at
from crossline.basics.formula.tree import Constant, Join
from crossline.programs.feed import Feed
from crossline.programs.kinds import Operator

if TYPE_CHECKING:  # it loads numpy, for which who reads rules need not wait
    from crossline.basics.models.model import Scorer

ALWAYS = Formula("true", Constant(True, "boolean"))
SCORE = "score of the model"  # no field and no figure has such a name

# ``record``: there is none, the record alone decides.
Kind = Literal["record", "comparison", "formula", "sequence", "absence", "query"]


class OfKind:
    """Something that has a predicate, or is one: as each kind it gives itself, and as any other None."""

    __slots__ = ()

    @property
    def predicate(self) -> Predicate | None:
        """The predicate; None where the record alone decides."""
        raise NotImplementedError

    def _of(self, kind: Kind) -> Predicate | None:
        predicate = self.predicate
        return predicate if predicate is not None and predicate.kind == kind else None

    @property
    def comparison(self) -> Comparison | None:
        """One figure against one number."""
        return cast("Comparison | None", self._of("comparison"))

    @property
    def formula(self) -> FormulaPredicate | None:
        """A formula over figures and fields."""
        return cast("FormulaPredicate | None", self._of("formula"))

    @property
    def sequence(self) -> SequencePredicate | None:
        """Records that follow each other."""
        return cast("SequencePredicate | None", self._of("sequence"))

    @property
    def absence(self) -> AbsencePredicate | None:
        """A record that does not come."""
        return cast("AbsencePredicate | None", self._of("absence"))

    @property
    def query(self) -> FeatureQuery | None:
        """Figures without a verdict."""
        return cast("FeatureQuery | None", self._of("query"))


class Predicate(OfKind):
    """A predicate, of whatever kind."""

    __slots__ = ()
    kind: ClassVar[Kind]

    @property
    def predicate(self) -> Predicate:
        """Itself."""
        return self

    @property
    def figure_names(self) -> tuple[str, ...]:
        """What it calls the program's figures; "" is that of a comparison."""
        return ()

    @property
    def feeds(self) -> tuple[Feed, ...]:
        """Further feeds, besides the judged feed and those of figures."""
        return ()

    @property
    def span_ms(self) -> int:
        """How far apart the records of one hit may be, where it is about the order of records; else 0."""
        return 0

    def over(self, change: Callable[[Feed], Feed]) -> Self:  # noqa: ARG002 - it has none of its own
        """The same over other records: each feed as ``change`` makes it."""
        return self

    def probing(self) -> Self:
        """A predicate that holds at every record that has its figures, or matches one of its steps."""
        return self


@dataclass(frozen=True, slots=True)
class Scored:
    """The score of a model on ``features``: formulas of figures and fields, in the order of the scorer's names.

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
        object.__setattr__(self, "read", read)  # read at every hit

    @property
    def figure_names(self) -> tuple[str, ...]:
        """What its formulas call them."""
        return self.names

    def probing(self) -> Self:
        """Outputs and predicate together: the figures and fields of both are in the evidence."""
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

    ``facts``: fields that the record carries.
    """

    kind: ClassVar[Kind] = "query"
    names: tuple[str, ...]
    facts: tuple[str, ...] = ()

    @property
    def figure_names(self) -> tuple[str, ...]:
        """The names of the figures."""
        return self.names


Verdict = Comparison | FormulaPredicate | SequencePredicate | AbsencePredicate | FeatureQuery
