"""The interface of predicates, so that callers need not test for a class."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar, Literal, Self, cast

from crossline.programs.feed import Feed

if TYPE_CHECKING:
    from crossline.programs.program import (
        AbsencePredicate,
        Comparison,
        FeatureQuery,
        FormulaPredicate,
        SequencePredicate,
    )

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
        """The records that it is about, besides those that are judged and those of figures."""
        return ()

    @property
    def span_ms(self) -> int:
        """How far apart the records of one hit may be, where it is about the order of records; else 0."""
        return 0

    def over(self, change: Callable[[Feed], Feed]) -> Self:  # noqa: ARG002 - it has none of its own
        """The same over other records: each feed as ``change`` makes it."""
        return self

    def probing(self) -> Self:
        """One that holds at every record that has its figures, or takes one of its steps."""
        return self
