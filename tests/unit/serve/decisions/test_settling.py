"""Answers held to the stream: what differs is revised, once, whatever came between."""

from __future__ import annotations

from typing import Any

import pytest

from crossline.serve.decisions.replies import Answer
from crossline.serve.decisions.settling import Settling, covers
from crossline.serve.decisions.values import Asked, Place

from .fakes import decided


def answered(name: str, decision: str, how: Any = "peek") -> Answer:
    asked = Asked(1, "payments", name, b"{}", "d", 5)
    return Answer(asked, decided(asked, decision), how)


def of_stream(name: str, decision: str) -> dict[str, Any]:
    return {**decided(Asked(1, "payments", name, b"", "", 0), decision), "kind": "decision", "stream": "payments"} | {
        "record_id": name
    }


@pytest.mark.parametrize(
    ("ends", "place", "covered"),
    [
        ({"payments-0": 7}, Place("payments-0", 6), True),
        ({"payments-0": 7}, Place("payments-0", 7), False),
        ({"payments-0": 7}, Place("payments-1", 0), False),
        ({"00000002.jsonl": 0}, Place("00000001.jsonl", 900), True),
        ({"00000001.jsonl": 900}, Place("00000002.jsonl", 0), False),
        ({}, Place("00000001.jsonl", 0), False),
    ],
)
def test_what_a_batch_covers(ends: dict[str, int], place: Place, covered: bool) -> None:
    assert covers(ends, place) is covered


def test_what_the_stream_decides_otherwise_is_revised_once_the_batch_covers_it() -> None:
    settling = Settling()
    for number, name in enumerate(("a", "b", "c", "d")):
        settling.answered(answered(name, "review"), Place("p-0", number))
    said = [of_stream("a", "review"), of_stream("b", "block")]
    first = settling.batch(5, {"payments": {"p-0": 3}}, said)
    assert [(each.record_id, each.was, each.decision["decision"]) for each in first] == [
        ("b", "review", "block"),
        ("c", "review", "allow"),  # no rule held
    ]
    assert (settling.counts.compared, settling.counts.differed, settling.waiting) == ({"peek": 3}, {"peek": 2}, 1)
    assert settling.batch(5, {"payments": {"p-0": 3}}, said) == []


def test_what_the_stream_took_later_waits_for_its_own_batch() -> None:
    settling = Settling()
    settling.answered(answered("a", "allow", "fallback"), None)
    assert settling.batch(5, {"payments": {"p-0": 100}}, []) == []
    settling.placed("payments", "a", Place("p-0", 100))
    assert settling.batch(6, {"payments": {"p-0": 100}}, []) == []
    (revised,) = settling.batch(7, {"payments": {"p-0": 101}}, [of_stream("a", "block")])
    assert (revised.answered, revised.was, revised.batch) == ("fallback", "allow", 7)


def test_the_streams_own_answer_is_not_compared_with_itself() -> None:
    settling = Settling()
    settling.answered(answered("a", "block", "exact"), Place("p-0", 0))
    assert settling.waiting == 0
