"""Answers held to the stream: what differs is revised, once, whatever came between."""

from __future__ import annotations

from typing import Any

import orjson
from hypothesis import given
from hypothesis import strategies as st

from crossline.io.feed.files import FeedBatch
from crossline.serve.decisions.reconciliation import Expected, Reconciliation
from crossline.serve.decisions.replies import DecisionAnswer
from crossline.serve.decisions.values import LogPosition, SubmittedRecord

from .fakes import decided


def answered(name: str, decision: str, how: Any = "peek") -> DecisionAnswer:
    asked = SubmittedRecord(1, "payments", name, b"{}", "d", 5)
    return DecisionAnswer(asked, decided(asked, decision), how)


def of_stream(name: str, decision: str) -> dict[str, Any]:
    return {
        **decided(SubmittedRecord(1, "payments", name, b"", "", 0), decision),
        "kind": "decision",
        "stream": "payments",
    } | {"record_id": name}


def batch(
    number: int,
    end: int,
    *messages: dict[str, Any],
    late: tuple[int, ...] = (),
    begin: int = 0,
    reasons: tuple[str, ...] = (),
) -> FeedBatch:
    """What a batch gave that has offsets ``begin`` to ``end`` - 1 of p-0."""
    lines = [orjson.dumps(each) for each in messages]
    whys = reasons or ("late",) * len(late)
    places = zip(late, whys, strict=True)
    lines += [orjson.dumps({"stream": "payments", "log": "p-0", "at": at, "reason": why}) for at, why in places]
    counts = {"decisions": len(messages), "alerts": 0, "dead": 0, "late": len(late)}
    return FeedBatch(
        {"batch": number, "ends": {"payments": {"p-0": end}}, "begins": {"payments": {"p-0": begin}}, "lines": counts},
        lines,
    )


def test_what_the_stream_decides_otherwise_is_revised_once_the_batch_covers_it() -> None:
    settling = Reconciliation()
    for number, name in enumerate(("a", "b", "c", "d")):
        settling.answered(answered(name, "review"), LogPosition("p-0", number))
    lines = [of_stream("a", "review"), of_stream("b", "block")]
    first = settling.batch(batch(5, 3, *lines))
    assert [(each.record_id, each.was, each.decision["decision"]) for each in first] == [
        ("b", "review", "block"),
        ("c", "review", "allow"),  # no rule held
    ]
    assert (settling.counts.compared, settling.counts.differed, settling.waiting) == ({"peek": 3}, {"peek": 2}, 1)
    assert settling.batch(batch(5, 3, *lines)) == []


def test_what_the_stream_took_later_waits_for_its_own_batch() -> None:
    settling = Reconciliation()
    settling.answered(answered("a", "allow", "fallback"), None)
    assert settling.batch(batch(5, 100)) == []
    settling.placed("payments", "a", LogPosition("p-0", 100))
    assert settling.batch(batch(6, 100)) == []
    (revised,) = settling.batch(batch(7, 101, of_stream("a", "block")))
    assert (revised.answered, revised.was, revised.batch) == ("fallback", "allow", 7)


def test_the_streams_own_answer_is_not_compared_with_itself() -> None:
    settling = Reconciliation()
    settling.answered(answered("a", "block", "exact"), LogPosition("p-0", 0))
    assert settling.waiting == 0


def test_what_the_stream_decides_nothing_about_is_not_compared() -> None:
    settling = Reconciliation()
    settling.answered(answered("a", "review", "fallback"), LogPosition("p-0", 3))
    assert settling.batch(batch(5, 4, late=(3,))) == []
    assert (settling.counts.compared, settling.waiting) == ({}, 0)


def test_of_a_copy_what_the_first_record_was_decided_is_asked_for() -> None:
    settling = Reconciliation()
    copies: list[Expected] = []
    settling.on_copy = copies.append
    settling.answered(answered("a", "allow", "fallback"), LogPosition("p-0", 3))
    settling.answered(answered("b", "allow", "fallback"), LogPosition("p-0", 2))
    assert settling.batch(batch(5, 4, late=(2, 3), reasons=("wrong_type", "duplicate_id"))) == []
    (copy,) = copies
    assert (copy.record_id, copy.answered, copy.decision, settling.waiting) == ("a", "fallback", "allow", 0)
    (revised,) = settling.first(copy, of_stream("a", "block"), 5)
    assert (revised.record_id, revised.was, revised.decision["decision"]) == ("a", "allow", "block")
    assert settling.first(copy, of_stream("a", "allow"), 5) == []
    assert (settling.counts.compared, settling.counts.differed) == ({"fallback": 2}, {"fallback": 1})


def test_an_answer_that_comes_after_its_batch_asks_for_it_again() -> None:
    covered: list[tuple[str, LogPosition]] = []
    settling = Reconciliation(on_covered=lambda stream, place: covered.append((stream, place)))
    decided_by_stream = batch(5, 4, of_stream("a", "block"))
    settling.batch(decided_by_stream)
    settling.answered(answered("a", "review", "fallback"), LogPosition("p-0", 3))
    settling.answered(answered("b", "review"), LogPosition("p-0", 4))
    assert covered == [("payments", LogPosition("p-0", 3))]
    assert [each.record_id for each in settling.batch(decided_by_stream)] == ["a"]
    assert settling.waiting == 1


def test_a_batch_after_its_own_does_not_allow_what_was_blocked() -> None:
    covered: list[tuple[str, LogPosition]] = []
    settling = Reconciliation(on_covered=lambda stream, place: covered.append((stream, place)))
    first = batch(1, 4, of_stream("a", "block"))
    settling.batch(first)
    settling.answered(answered("a", "block", "fallback"), LogPosition("p-0", 3))
    assert settling.batch(batch(2, 9, begin=4)) == []  # it has no line of an earlier batch's record
    assert covered == [("payments", LogPosition("p-0", 3))]
    assert settling.batch(first) == []  # its own batch says the same
    assert (settling.counts.compared, settling.counts.differed, settling.waiting) == ({"fallback": 1}, {}, 0)


def test_what_no_batch_has_any_more_is_forgotten() -> None:
    settling = Reconciliation()
    settling.answered(answered("a", "block", "fallback"), LogPosition("p-0", 3))
    assert settling.batch(batch(7, 9, begin=4)) == []
    settling.forget("payments", LogPosition("p-0", 3))
    assert settling.waiting == 0


def test_a_batch_looks_at_nothing_but_what_it_has() -> None:
    """A hundred thousand answers wait behind it: none of their places is looked at."""
    looked: list[LogPosition] = []

    class Looked(FeedBatch):
        def covers(self, stream: str, place: LogPosition) -> bool:
            looked.append(place)
            return super().covers(stream, place)

        def has(self, stream: str, place: LogPosition) -> bool:
            looked.append(place)
            return super().has(stream, place)

    settling = Reconciliation()
    for number in range(100_000):
        settling.expect("payments", f"t{number}", f"d{number}", "peek", "allow", LogPosition("p-0", number))
    made = batch(1, 3, of_stream("t1", "block"))
    assert [each.record_id for each in settling.batch(Looked(made.head, made.lines))] == ["t1"]
    assert settling.waiting == 100_000 - 3
    assert len(looked) <= 1


class Naive:
    """The same, by a look at all of them at each batch."""

    def __init__(self) -> None:
        self.open: dict[str, tuple[str, LogPosition | None]] = {}
        self.compared: list[tuple[str, int]] = []

    def batch(self, made: FeedBatch) -> None:
        found = {orjson.loads(each)["record_id"] for each in made.section("decisions")}
        for name, (_, place) in list(self.open.items()):
            if name in found or (place is not None and made.has("payments", place)):
                del self.open[name]
                self.compared.append((name, made.number))


STEP = st.one_of(
    st.tuples(st.just("answer"), st.integers(0, 9), st.sampled_from(["p-0", "p-1", None])),
    st.tuples(st.just("placed"), st.integers(0, 9), st.sampled_from(["p-0", "p-1"])),
    st.tuples(st.just("batch"), st.integers(0, 3), st.lists(st.integers(0, 9), max_size=2)),
)


@given(st.lists(STEP, max_size=40))
def test_what_is_compared_with_which_batch_is_what_a_look_at_all_says(steps: list[tuple[str, int, Any]]) -> None:
    """Places are those of the record's number; a batch that an answer came too late for is given again, as asked."""
    naive, covered = Naive(), list[LogPosition]()
    settling, found = Reconciliation(on_covered=lambda _, place: covered.append(place)), list[tuple[str, int]]()
    end, made = 0, list[FeedBatch]()

    def take(of: FeedBatch) -> None:
        before = {which[1] for which in settling._open}
        settling.batch(of)
        found.extend((name, of.number) for name in sorted(before - {which[1] for which in settling._open}))
        naive.batch(of)

    for what, number, more in steps:
        name = f"t{number}"
        if what == "answer" and name not in naive.open:
            place = None if more is None else LogPosition(more, number)
            settling.answered(answered(name, "allow", "peek"), place)
            naive.open[name] = ("allow", place)
        elif what == "placed":
            settling.placed("payments", name, LogPosition(more, number))
            if name in naive.open:
                naive.open[name] = ("allow", LogPosition(more, number))
        elif what == "batch":
            begin, end = end, end + number
            lines = [orjson.dumps(of_stream(f"t{each}", "block")) for each in more]
            counts = {"decisions": len(lines), "alerts": 0, "dead": 0, "late": 0}
            both = {"payments": {"p-0": end, "p-1": end}}
            head = {"batch": len(made), "ends": both, "begins": {"payments": {"p-0": begin, "p-1": begin}}}
            made.append(FeedBatch({**head, "lines": counts}, lines))
            take(made[-1])
        while covered:
            place = covered.pop()
            for each in [each for each in made if each.has("payments", place)]:
                take(each)
    assert sorted(found) == sorted(naive.compared)
    assert {which[1] for which in settling._open} == naive.open.keys()


def test_an_answer_that_is_reported_twice_is_held_to_its_batch_once() -> None:
    """A slow answer and that of a retry: the ledger keeps the first, and both callers get it."""
    settling = Reconciliation()
    settling.answered(answered("a", "review"), LogPosition("p-0", 1))
    settling.answered(answered("a", "block", "fallback"), None)
    settling.answered(answered("a", "review"), LogPosition("p-0", 1))
    settling.answered(answered("b", "review"), LogPosition("p-0", 2))
    found = settling.batch(batch(5, 2))
    assert [(each.record_id, each.was, each.decision["decision"]) for each in found] == [("a", "review", "allow")]
    assert [each.record_id for each in settling.batch(batch(6, 9, begin=2))] == ["b"]
    assert settling.waiting == 0
