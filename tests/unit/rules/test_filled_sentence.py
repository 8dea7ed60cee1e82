"""A sentence with its threshold in it says what it says when it is given the threshold with each alert."""

from __future__ import annotations

from typing import Any, get_args

from hypothesis import given
from hypothesis import strategies as st

from crossline.rules.sentence import PartKind, Sentence

NAMES = ("a", "b", "c")
NUMBERS = st.one_of(st.none(), st.integers(-(10**21), 10**21), st.floats(allow_nan=False))
REST = [each for each in get_args(PartKind) if each not in {"text", "figure"}]
PARTS = st.lists(
    st.one_of(
        st.tuples(st.just("text"), st.sampled_from(["", " in ", "{x}", "é"])),
        st.tuples(st.just("figure"), st.sampled_from(NAMES)),
        st.tuples(
            st.sampled_from([each for each in get_args(PartKind) if each not in {"text", "figure"}]), st.just("")
        ),
    ),
    max_size=9,
)
FIELDS = st.dictionaries(st.sampled_from(NAMES), st.one_of(NUMBERS, st.text(max_size=3), st.booleans()))


@given(
    PARTS,
    NUMBERS,
    st.one_of(st.none(), st.sampled_from([">=", "<", "=="])),
    st.one_of(st.none(), st.integers(1, 10**10)),
    st.lists(st.tuples(NUMBERS, FIELDS, st.one_of(st.none(), st.integers(0, 5000)), FIELDS), max_size=3),
)
def test_it_says_the_same(
    parts: Any, threshold: Any, operator: str | None, window_ms: int | None, alerts: list[tuple[Any, ...]]
) -> None:
    sentence = Sentence(tuple(parts))
    filled = sentence.filled(threshold, operator, window_ms)
    for value, key, count, evidence in alerts:
        wanted = sentence.say(value, threshold, operator, window_ms, key, count, evidence)
        assert filled.say(value, None, None, None, key, count, evidence) == wanted
    assert not {"threshold", "operator", "window"} & {kind for kind, _ in filled.parts}
