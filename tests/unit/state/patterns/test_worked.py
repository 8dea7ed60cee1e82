"""Examples worked by hand."""

from __future__ import annotations

import pytest

from crossline.evaluate.kernels import new_kernel
from crossline.plan.pattern_spaces import PatternSpacePlan, SequencePlan, StepPlan
from crossline.state.batch import Delta
from crossline.state.patterns.store import PatternSpaceState

from .invariants import check
from .naive import FOREVER, Hit, Row, batch_of, pattern, plain, plan_of

MINUTE = 60_000
# Entries by letter: a, b and c are steps, x is something else.
LETTERS = {"a": 0, "b": 1, "c": 2, "x": 3}


def log(text: str) -> list[Row]:
    """``"a1 b2 ab3"``: records of key k in entry a at 1, b at 2, both at 3; each has its text as id."""
    return [
        Row("k", word, int(word.lstrip("abcx")), tuple(LETTERS[x] for x in word if x in LETTERS))
        for word in text.split()
    ]


def matches(line: SequencePlan, text: str) -> list[str]:
    """The ids of each match in order, by the kernel."""
    plan = plan_of(line)
    state = PatternSpaceState(plan)
    found = plain(state.judge(batch_of(plan, log(text))))
    check(state)
    return [" ".join(hit.evidence) for hit in found]


def test_three_failed_codes_and_then_a_payment() -> None:
    """Entry 0: a wrong CVV; 1: an approved payment. All of them in ten minutes."""
    line = pattern(rule_id="guessed", steps=(StepPlan(0, 3), StepPlan(1)), within=10 * MINUTE)
    plan = plan_of(line, retention_ms=10 * MINUTE)
    at = (0, 1, 2, 9, 30, 31, 32, 41)
    entries = (0, 0, 0, 1, 0, 0, 0, 1)
    rows = [Row("card", f"p{i}", t * MINUTE, (e,)) for i, (t, e) in enumerate(zip(at, entries, strict=True))]
    # The second payment comes 11 minutes after the first of its three.
    assert plain(PatternSpaceState(plan).judge(batch_of(plan, rows))) == [
        Hit(0, 3, 4, 0, 9 * MINUTE, ("p0", "p1", "p2", "p3"))
    ]


def test_of_four_failures_the_last_three_are_meant() -> None:
    assert matches(pattern(steps=(StepPlan(0, 3), StepPlan(1))), "a1 a2 a3 a4 b5 b6") == ["a2 a3 a4 b5"]


@pytest.mark.parametrize(("end", "expected"), [("c10", ["a0 b5 c10"]), ("c11", [])])
def test_the_last_may_be_as_far_from_the_first_as_stated(end: str, expected: list[str]) -> None:
    assert matches(pattern(0, 1, 2, within=10), f"a0 b5 {end}") == expected


def test_records_between_do_not_matter() -> None:
    assert matches(pattern(0, 1, 2), "a1 x2 c3 b4 x5 a6 c7") == ["a1 b4 c7"]


def test_the_key_is_one() -> None:
    plan = plan_of(pattern(0, 1))
    rows = [Row("k", "1", 1, (0,)), Row("q", "2", 2, (1,)), Row("k", "3", 3, (1,)), Row("q", "4", 4, (0,))]
    assert [hit.evidence for hit in plain(PatternSpaceState(plan).judge(batch_of(plan, rows)))] == [("1", "3")]


def test_what_comes_to_a_step_replaces_the_older_one_that_waits_there() -> None:
    assert matches(pattern(0, 1, 2), "a1 a2 b3 c4") == ["a2 b3 c4"]
    assert matches(pattern(0, 1, 2), "a1 b2 a3 b4 c5 c6") == ["a3 b4 c5"]


def test_a_match_is_used_up_by_its_hit() -> None:
    assert matches(pattern(0, 1), "a1 b2 b3 a4 b5") == ["a1 b2", "a4 b5"]


def test_matches_overlap() -> None:
    """While one waits for c, another one begins; the first is done before the second comes to its place."""
    assert matches(pattern(0, 1, 2), "a1 b2 a3 c4 b5 c6") == ["a1 b2 c4", "a3 b5 c6"]


def test_a_record_serves_two_steps_of_different_matches() -> None:
    """ab3 is the second record of one match and the first of the next; of no match is it both."""
    assert matches(pattern(0, 1), "a1 ab3 b5") == ["a1 ab3", "ab3 b5"]
    assert matches(pattern(0, 0), "a1 a2 a3") == ["a1 a2", "a2 a3"]
    assert matches(pattern(0, 1), "ab1") == []


def test_until_ends_what_is_under_way() -> None:
    line = pattern(0, 1, until=3)
    assert matches(line, "a1 x2 b3 a4 b5") == ["a4 b5"]
    # It ends what it began or carried on itself, but a hit is a hit.
    assert matches(line, "ax1 b2") == []
    assert matches(line, "a1 bx2") == ["a1 bx2"]


def test_until_that_comes_late_leaves_what_began_after_it() -> None:
    assert matches(pattern(0, 1, until=3), "a5 x4 b6") == ["a5 b6"]
    assert matches(pattern(0, 1, until=3), "a5 x5 b6") == []
    assert matches(pattern(0, 1, 2, until=3), "a1 b5 x3 c6") == []


def test_strict_takes_no_other_record_in_between() -> None:
    line = pattern(0, 1, strict=3)
    assert matches(line, "ax1 bx2 ax3 x4 bx5") == ["ax1 bx2"]
    # What is not in the entry is not meant; what comes late, from before, is not in between.
    assert matches(line, "ax1 c2 bx3") == ["ax1 bx3"]
    assert matches(line, "ax5 x4 bx6") == ["ax5 bx6"]


def test_strict_times_are_in_a_row() -> None:
    assert matches(pattern(steps=(StepPlan(0, 2), StepPlan(1)), strict=3), "ax1 x2 ax3 ax4 bx5 ax6 x7 ax8 bx9") == [
        "ax3 ax4 bx5"
    ]


def test_clocks_of_steps_do_not_go_back() -> None:
    assert matches(pattern(0, 1), "a5 b4 b5") == ["a5 b5"]


def test_a_late_record_does_not_replace_what_is_younger() -> None:
    """In order a3 would have come first, and been replaced by a5."""
    assert matches(pattern(0, 1, within=10), "a5 a3 b14") == ["a5 b14"]


def test_of_two_that_began_at_the_same_time_the_one_that_comes_stays() -> None:
    assert matches(pattern(0, 1), "a1 ac1 b2") == ["ac1 b2"]


def test_a_late_record_finds_what_waits_at_its_own_time() -> None:
    assert matches(pattern(0, 1, 2), "a1 x9 b4 c3 c4") == ["a1 b4 c4"]


def test_one_step_is_a_hit_at_once_and_one_of_times_at_every_nth() -> None:
    assert matches(pattern(0), "a1 b2 a3") == ["a1", "a3"]
    # a2 ends the first pair and begins the next.
    assert matches(pattern(steps=(StepPlan(0, 2),), within=2), "a1 a2 a4 a9") == ["a1 a2", "a2 a4"]


def test_evidence_is_the_last_fifty_and_the_count_is_true() -> None:
    plan = plan_of(pattern(steps=(StepPlan(0, 60), StepPlan(1))))
    rows = [*(Row("k", f"n{i}", i) for i in range(60)), Row("k", "last", 70, (1,))]
    (hit,) = plain(PatternSpaceState(plan).judge(batch_of(plan, rows)))
    assert (hit.count, hit.start, hit.end) == (61, 0, 70)
    assert hit.evidence == (*(f"n{i}" for i in range(11, 60)), "last")


def test_hits_come_by_row_and_then_in_the_order_of_the_lines() -> None:
    plan = plan_of(pattern(0, 1, rule_id="x"), pattern(1, rule_id="y"), pattern(0, rule_id="z"))
    found = plain(PatternSpaceState(plan).judge(batch_of(plan, log("a1 b2 ab3"))))
    assert [(hit.row, hit.line) for hit in found] == [(0, 2), (1, 0), (1, 1), (2, 1), (2, 2)]


def test_a_copy_is_offered_to_nothing_and_ends_nothing() -> None:
    plan = plan_of(pattern(0, 1, strict=3))
    rows = [Row("k", "1", 1, (0, 3)), Row("k", "x", 0, (3,)), Row("k", "x", 1, (3,)), Row("k", "1", 2, (1,))]
    state = PatternSpaceState(plan, duplicate_ms=10)
    hits = state.judge(batch_of(plan, [*rows, Row("k", "2", 3, (1, 3))]))
    assert hits.duplicates.tolist() == [False, False, True, True, False]
    assert hits.retained.tolist() == [0, 1, 4]
    assert [hit.evidence for hit in plain(hits)] == [("1", "2")]


def test_a_version_reports_of_what_is_complete_in_its_time_and_offers_all() -> None:
    line = pattern(0, 1, 2, spans=((0, 10), (20, FOREVER[1])))
    assert matches(line, "a5 b15 c21") == ["a5 b15 c21"]
    # c16 comes in the pause: what it completes is used up.
    assert matches(line, "a5 b15 c16 b20 c21") == []
    assert matches(pattern(0, 1, spans=((2, 9),)), "a1 b8") == ["a1 b8"]
    assert matches(pattern(0, 1, spans=((2, 9),)), "a1 a2 b9") == []


def test_what_is_too_late_to_be_judged_takes_steps_and_is_no_hit() -> None:
    plan = plan_of(pattern(0, 1, judge_lateness_ms=5))
    rows = [
        Row("k", "1", 1, (0,), 7, 6),
        Row("k", "2", 2, (1,), 7, 5),
        Row("k", "3", 2, (0,), 7, 5),
        Row("k", "4", 3, (1,), 9, 6),
        Row("k", "5", 3, (1,), 9, 5),
    ]
    assert [hit.evidence for hit in plain(PatternSpaceState(plan).judge(batch_of(plan, rows)))] == [("1", "2")]


def test_after_a_hit_that_is_reported_none_is_for_a_while_and_all_are_used_up() -> None:
    line = pattern(0, 1, cooldown_ms=10)
    assert matches(line, "a1 b2 a3 b11 a11 b12") == ["a1 b2", "a11 b12"]
    plan = plan_of(line, pattern(0, 1, rule_id="other"))
    state, batch = PatternSpaceState(plan), batch_of(plan, log("a1 b2"))
    delta = Delta.of(state.delta(batch, state.judge(batch)).arrays())
    fresh, names = PatternSpaceState(plan), (("r", 1), ("other", 1))
    fresh.load(delta, names)
    for each in (state, fresh):
        each.replan(plan_of(pattern(0, 1, rule_id="new", cooldown_ms=10), line))
        found = plain(each.judge(batch_of(each.plan, log("a3 b11"))))
        assert [hit.line for hit in found] == [0], "the other one has a hit at b2"


def test_a_probe_reports_of_each_step_the_furthest_that_a_record_takes() -> None:
    assert matches(pattern(0, 1, 2, probes=True), "a1 ab2 x3 a4 c5 c6") == ["a1", "a1 ab2", "a4", "a1 ab2 c5"]


def test_a_new_plan_is_offered_all_that_is_held() -> None:
    first, second = pattern(0, 1, 2, rule_id="first"), pattern(0, 2, rule_id="second")
    state = PatternSpaceState(plan_of(first, second))
    state.judge(batch_of(state.plan, log("a1 b2 a3")))
    state.replan(plan_of(pattern(1, 2, rule_id="new"), first))
    check(state)
    found = plain(state.judge(batch_of(state.plan, log("c4 b5 c6"))))
    assert [(hit.line, hit.evidence) for hit in found] == [
        (0, ("b2", "c4")),
        (1, ("a1", "b2", "c4")),
        (0, ("b5", "c6")),
        (1, ("a3", "b5", "c6")),
    ]
    with pytest.raises(ValueError, match="a store of 4 entries cannot be judged by a plan of 5"):
        state.replan(plan_of(first, filters=5))


def test_what_is_loaded_is_offered_to_all_patterns() -> None:
    first, second = pattern(0, 1, rule_id="first"), pattern(0, 1, rule_id="second")
    plan = plan_of(first, second)
    state, batch = PatternSpaceState(plan_of(first)), batch_of(plan, log("a1"))
    delta = Delta.of(state.delta(batch, state.judge(batch)).arrays())
    fresh = PatternSpaceState(plan)
    fresh.load(delta, (("gone", 1), ("first", 1)))
    assert [hit.line for hit in plain(fresh.judge(batch_of(plan, log("a1 b2"))))] == [0, 1]


def test_what_was_kept_is_loaded_though_ids_are_remembered_longer_by_now() -> None:
    plan = plan_of(pattern(0, 0))
    state, batch = PatternSpaceState(plan, 10), batch_of(plan, [Row("k", "1", 1), Row("k", "1", 20)])
    hits = state.judge(batch)
    assert [hit.evidence for hit in plain(hits)] == [("1", "1")]
    fresh = PatternSpaceState(plan, 30)
    fresh.load(state.delta(batch, hits), (("r", 1),))
    assert fresh.records == 2
    found = plain(fresh.judge(batch_of(plan, [Row("k", "1", 30), Row("k", "2", 30)])))
    assert [(hit.start, hit.evidence) for hit in found] == [(20, ("1", "2"))]


def test_old_matches_go_with_their_records_and_memory_is_given_back() -> None:
    plan = plan_of(pattern(0, 1), retention_ms=100)
    state = PatternSpaceState(plan, 1000)
    state.judge(batch_of(plan, [Row(f"key {i}", f"{i}", 100) for i in range(5000)]))
    full = state.sizes()
    assert (full.records, full.keys) == (5000, 5000)
    state.judge(batch_of(plan, [Row("key 7", "b", 150, (1,)), Row("late", "late", 120)]))
    state.evict(110)
    check(state)
    assert (state.records, state.keys) == (2, 2)
    assert state.bytes_in_memory() < full.bytes / 10
    found = plain(state.judge(batch_of(plan, [Row("late", "c", 160, (1,)), Row("key 8", "d", 160, (1,))])))
    assert [hit.evidence for hit in found] == [("late", "c")]


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (pattern(), "pattern r version 1 has no step"),
        (pattern(steps=(StepPlan(0, 0),)), "has no step, or one that no record takes"),
        (pattern(0, 4), "names an entry beyond the 4 that there are"),
        (pattern(0, until=-1), "names an entry beyond"),
        (pattern(0, strict=9), "names an entry beyond"),
        (pattern(0, within=101), "is within 101 ms, not from 0 to the plan's 100"),
        (pattern(0, within=-1), "is within -1 ms"),
    ],
)
def test_what_has_no_meaning_is_refused(line: SequencePlan, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        PatternSpaceState(plan_of(line))


def test_a_plan_without_patterns_keeps_records_and_finds_duplicates() -> None:
    kernel = new_kernel(PatternSpacePlan(1, (), 10))
    batch = batch_of(plan_of(filters=1), log("a1 a2"))
    hits = kernel.judge(batch)
    assert (len(hits), kernel.judge(batch).duplicates.tolist(), kernel.sizes().records) == (0, [True, True], 2)
