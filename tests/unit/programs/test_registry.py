"""The registry of aggregates: each is complete and has a unique name; otherwise there is an error."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from crossline.basics.errors import UsageError
from crossline.programs.aggregate import Aggregate, Scanned, Words
from crossline.programs.registry import aggregates, collected, counted_names, declared, names
from crossline.state.panes import program as panes
from crossline.state.windows import program as windows


def module(called: str, declares: object = None, /, **changes: Any) -> ModuleType:
    made = ModuleType(called)
    given = {"name": "mode", "place": 1, "means": "The field.", "words": Words("the mode"), "naive": len} | changes
    made.AGGREGATE = declares or Aggregate(**given)  # type: ignore[attr-defined]
    return made


def test_they_are_in_the_order_of_their_places() -> None:
    found = collected([module("a", name="late", place=2), module("b", name="soon", place=1)])
    assert [*found] == ["soon", "late"]


@pytest.mark.parametrize(
    ("modules", "expected"),
    [
        ([module("a", "nothing")], "a declares no aggregate"),
        ([module("a"), module("b")], "b: the aggregate mode is declared by a already"),
        ([module("a", name="Mode")], "'Mode' is no name of an aggregate"),
        ([module("a", name="two words")], "'two words' is no name"),
        ([module("a", name="lambda")], "'lambda' is no name"),
    ],
)
def test_what_cannot_be_collected_is_reported(modules: list[ModuleType], expected: str) -> None:
    with pytest.raises(UsageError, match=expected):
        collected(modules)


def test_an_unknown_one_is_reported_with_those_there_are() -> None:
    with pytest.raises(ValueError, match="mode is no aggregate: there are count, since"):
        declared("mode")


def test_the_lists_of_names() -> None:
    assert names(of_records=True) == ("count", "since", "age", "streak")
    assert names(of_records=False)[:4] == ("sum", "avg", "min", "max")
    assert "quantile" not in names()
    assert "quantile" in names(written_plainly=False)
    assert "decayed" not in names(written_plainly=False)
    assert counted_names()[0] == "count"
    assert counted_names()[-2:] == ("distinct_count", "entropy")


@pytest.mark.parametrize("aggregate", aggregates().values(), ids=lambda each: each.name)
def test_each_is_complete(aggregate: Aggregate) -> None:
    kept = (aggregate.window, windows.KEPT), (aggregate.pane, panes.KEPT)
    for mine, known in kept:
        assert mine is None or (len(mine) <= 2 and set(mine) <= set(known))
    assert aggregate.window is not None or aggregate.pane is not None
    assert bool(aggregate.limits) == (None in (aggregate.window, aggregate.pane)), "a refusal has its reason"
    assert (aggregate.value is None) == (aggregate.name == "count")
    parts = ("field", "records", "last_of", "meets", "rank", "half_life")
    assert "{" not in aggregate.words.phrase.format_map(dict.fromkeys(parts, "x"))


@pytest.mark.parametrize("aggregate", aggregates().values(), ids=lambda each: each.name)
def test_each_has_a_twin_that_is_undefined_below_its_least(aggregate: Aggregate) -> None:
    def of(n: int) -> Any:
        window = Scanned([1.5] * n, [*range(n)], 10, [True] * n, real=True, rank=0.5, half_life_ms=5)
        return aggregate.by_twin(window)

    assert [of(n) is None for n in range(4)] == [n < aggregate.least for n in range(4)]
