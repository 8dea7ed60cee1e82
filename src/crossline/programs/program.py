"""The program of a rule: feeds, figures over them, a verdict, and the emission. It does not depend on the rule's type.

A *feed* selects the records that count, and their key. A *figure* is an aggregate over a window of a feed. The
*verdict* decides when the figures make the record a hit, or which records must have come before it in sequence. A rule
type is a front-end that writes these four; the compiler, the kernels and the alerts read them and know no type.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from crossline.basics.conditions.condition import Condition
from crossline.basics.fields import FieldKind
from crossline.basics.streams.inputs import Reading
from crossline.programs.alert_fields import CarriedRecord
from crossline.programs.feed import Feed as Feed  # noqa: PLC0414 - part of a program
from crossline.programs.feed import Figure as Figure  # noqa: PLC0414 - part of a program
from crossline.programs.feed import Window as Window  # noqa: PLC0414 - part of a program
from crossline.programs.predicate import ALWAYS as ALWAYS  # noqa: PLC0414 - part of a program
from crossline.programs.predicate import SCORE as SCORE  # noqa: PLC0414 - part of a program
from crossline.programs.predicate import AbsencePredicate as AbsencePredicate  # noqa: PLC0414 - part of a program
from crossline.programs.predicate import Comparison as Comparison  # noqa: PLC0414 - part of a program
from crossline.programs.predicate import FeatureQuery as FeatureQuery  # noqa: PLC0414 - part of a program
from crossline.programs.predicate import FormulaPredicate as FormulaPredicate  # noqa: PLC0414 - part of a program
from crossline.programs.predicate import Kind, OfKind
from crossline.programs.predicate import NamedStep as NamedStep  # noqa: PLC0414 - part of a program
from crossline.programs.predicate import Scored as Scored  # noqa: PLC0414 - part of a program
from crossline.programs.predicate import SequencePredicate as SequencePredicate  # noqa: PLC0414 - part of a program
from crossline.programs.predicate import Verdict as Verdict  # noqa: PLC0414 - part of a program


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
    context of the record, its notes, each with the figure behind it; ``parts``: what of both is shown.
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
    ``figures`` are empty and ``verdict`` is None where the record alone decides: each record of the feed is a hit.
    ``figures`` are also empty for sequences and absences. ``entity``: for a program without a verdict, the key fields
    of its alerts, where the record has them all. ``record``: what alerts carry of it. ``cross_key``: figures of other
    keys, which a formula names as it does fields. ``reevaluate``: a late record triggers a replay of the records whose
    result it may change.
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

        For an absence: how far back the record of a current hit lies, or a record whose cooldown suppresses it.
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
