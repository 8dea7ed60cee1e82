"""What a rule becomes: feeds, figures over them, a verdict, and how it emits. Of its type no more is known.

A *feed* says which records count and under which key. A *figure* is an aggregate over a window of a feed. The *verdict*
says when the figures make the record a hit. A rule type is a front-end that writes these four; what compiles, judges
and tells of hits reads them, and knows no type.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field, replace

from crossline.core.conditions.condition import Condition
from crossline.core.figures.kinds import DISTINCT_ERROR, QUANTILE_ERROR, Aggregate, ColumnKind, Operator, TimeMode
from crossline.core.formula.formula import Formula
from crossline.core.formula.tree import Compare, Constant, Join, walk
from crossline.core.models.model import Scorer

_ERRORS = {"distinct_count": DISTINCT_ERROR, "quantile": QUANTILE_ERROR}
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
    """From t - ``length_ms`` to t, which is ``delay_ms`` before the time of the record; ``bounds`` as in rules.md.

    ``resolution_ms``: it begins with a pane of this length, and panes are kept instead of records; 0: it is exact.
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

    ``column_kind``: how it is kept; None: it is not, as for a count. ``streak_of``: what the records of a streak meet.
    ``rank``: of a quantile, which.
    """

    feed: Feed
    aggregate: Aggregate
    window: Window
    column: str | None = None
    column_kind: ColumnKind | None = None
    streak_of: Condition | None = None
    rank: float = 0.0

    @property
    def error(self) -> float | None:
        """How far off it may be where panes keep a sketch; None where it is exact."""
        return _ERRORS.get(self.aggregate) if self.window.resolution_ms else None


SCORE = "score of the model"  # no field and no figure has such a name


@dataclass(frozen=True, slots=True)
class Scored:
    """What a model says of ``features``: formulas of figures and fields, in the order of the scorer's names.

    The verdict's formulas know it as ``SCORE``.
    """

    scorer: Scorer
    features: tuple[Formula, ...]


@dataclass(frozen=True, slots=True)
class Formed:
    """The verdict of a formula: that ``when`` holds of the program's figures, by their ``names``, and of fields.

    ``value``: what an alert shows as its value; None: nothing. ``shows``: what else it shows, by name. ``scored``: the
    model whose score the formulas are of, if there is one.
    """

    names: tuple[str, ...]
    when: Formula
    value: Formula | None = None
    shows: tuple[tuple[str, Formula], ...] = ()
    scored: Scored | None = None

    @property
    def read(self) -> tuple[str, ...]:
        """The figures, and the fields of the record, that it reads."""
        formulas = (self.when, *((self.value,) if self.value else ()), *(each for _, each in self.shows))
        if self.scored is not None:
            formulas = (*formulas, *self.scored.features)
        names = dict.fromkeys(name for each in formulas for name in each.names)
        return tuple(name for name in names if self.scored is None or name != SCORE)

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields of the record that it reads."""
        return tuple(name for name in self.read if name not in self.names)

    @property
    def line(self) -> Comparison | None:
        """What the first comparison holds against a plain number, which an alert shows; None where it does not."""
        first = next((node for node in walk(self.when.root) if isinstance(node, Compare)), None)
        if first is None or len(first.operators) > 1:
            return None
        match first.operands[1]:
            case Constant(int() | float() as threshold, "integer" | "number"):
                return Comparison(first.operators[0], threshold)
        return None


@dataclass(frozen=True, slots=True)
class Comparison:
    """The verdict that kernels reach by themselves: the program's one figure ``operator`` ``threshold``."""

    operator: Operator
    threshold: float | int


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

    ``notes``: what stands in every alert of the rule, by name.
    """

    fields: tuple[str, ...] = ()
    lists: bool = False
    notes: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Program:
    """One rule, resolved against its stream and the pipeline's defaults.

    ``feed``: the records that are judged; those later than ``judge_lateness_ms`` are not (None: no such bound).
    ``figures`` are none, and ``verdict`` is None, where the record alone decides: each that enters is a hit.
    """

    feed: Feed
    figures: tuple[Figure, ...] = ()
    verdict: Comparison | Formed | None = None
    emission: Emission = field(default_factory=Emission)
    evidence: Evidence = field(default_factory=Evidence)
    judge_lateness_ms: int | None = None

    def __post_init__(self) -> None:
        if bool(self.figures) != (self.verdict is not None):
            raise ValueError("a verdict needs a figure, and a figure a verdict")
        named = len(self.verdict.names) if isinstance(self.verdict, Formed) else bool(self.verdict)
        if named != len(self.figures):
            raise ValueError(f"a verdict of {named} figures, and {len(self.figures)} figures")

    @property
    def figure(self) -> Figure | None:
        """The first, whose window an alert shows."""
        return self.figures[0] if self.figures else None

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """All that decides of a record alone what it enters."""
        streaks = (each.streak_of for each in self.figures if each.streak_of is not None)
        return (self.feed.condition, *(each.feed.condition for each in self.figures), *streaks)

    @property
    def reach_ms(self) -> int:
        """How far back from a record its windows and cooldown reach."""
        return max([self.emission.cooldown_ms, *(each.window.reach_ms for each in self.figures)])

    @property
    def resolution_ms(self) -> int:
        """The panes that its figures are kept in; 0: none."""
        return max((each.window.resolution_ms for each in self.figures), default=0)

    @property
    def window_ms(self) -> int | None:
        """The length of the window that an alert shows; None where there is none."""
        return self.figure.window.length_ms if self.figure else None

    def probing(self) -> Program:
        """The same with a verdict that always holds, and an alert at every record that has a figure."""
        if self.verdict is None:
            return self
        if isinstance(self.verdict, Formed):
            # Beside what always holds stands what is asked for: its figures and fields are in the evidence.
            when = Formula(self.verdict.when.text, Join("or", (self.verdict.when.root, ALWAYS.root)))
            probe: Comparison | Formed = replace(self.verdict, when=when)
        else:
            probe = Comparison(">=", -sys.float_info.max)
        return replace(self, verdict=probe, emission=replace(self.emission, every=True, cooldown_ms=0))
