"""The naive twin against examples worked by hand: what enters, keys, versions, duplicates, evidence."""

from __future__ import annotations

from .naive import naive_detect, running_max_ingest
from .worked import EVERY, click, detect, rule, values


def test_conditions_decide_what_enters_and_what_is_judged() -> None:
    body = rule(**EVERY, conditions=[{"field": "type", "operator": "==", "value": "buy"}])
    clicks = [click(0, type="buy"), click(1, type="look"), click(2), click(3, type="buy")]
    assert values(body, *clicks) == [("t0", 1), ("t3", 2)]


def test_a_record_without_the_aggregated_field_does_not_enter() -> None:
    body = rule(**EVERY, aggregation_type="min", aggregation_field="amount")
    clicks = [click(0, amount=7), click(1), click(2, amount=None), click(3, amount=9)]
    (_, second) = detect(body, *clicks).hits
    assert (second.record_id, second.value, second.count) == ("t3", 7, 2)


def test_no_group_is_one_window_for_all() -> None:
    clicks = [click(0, user="a"), click(1, user="b"), click(2, user=None)]
    (hit,) = detect(rule(group_by=None), *clicks).hits
    assert (hit.record_id, hit.value, hit.key) == ("t2", 3, {})


def test_keys_of_several_fields_and_nested_ones() -> None:
    body = rule(group_by=["user", "card.bin"], aggregation_threshold=2)
    clicks = [
        click(0, card={"bin": 41}),
        click(1, card={"bin": 42}),
        click(2, card={"bin": None}),  # no key
        click(3, card={}),  # no key
        click(4, card={"bin": 41}, user="u2"),
        {**click(5), "card.bin": 42},
    ]
    (hit,) = detect(body, *clicks).hits
    assert (hit.record_id, hit.value, hit.key) == ("t5", 2, {"user": "u1", "card.bin": 42})


def test_a_new_version_takes_over_at_its_instant_on_the_ingest_clock() -> None:
    v1 = rule(aggregation_threshold=2)
    v2 = rule(version=2, aggregation_threshold=3, effective_from=5000)
    clicks = [
        click(1000),
        click(4998, ingest_ms=4999),  # v1: 2, hit
        click(4999, ingest_ms=5000),  # v2 by ingest time: 3, and v2 has no crossing yet: hit
        click(5001),  # v2: 4, still above
    ]
    result = naive_detect([v1, v2], clicks)
    assert [(h.record_id, h.version, h.value) for h in result.hits] == [("t4998", 1, 2), ("t4999", 2, 3)]


def test_a_version_that_starts_before_an_older_one_leaves_that_no_time() -> None:
    body = rule(emit="every", aggregation_threshold=1)
    v2, v3 = {**body, "version": 2, "effective_from": 5000}, {**body, "version": 3, "effective_from": 3000}
    result = naive_detect([body, v2, v3], [click(t) for t in (2999, 3000, 5000)])
    assert [(h.record_id, h.version) for h in result.hits] == [("t2999", 1), ("t3000", 3), ("t5000", 3)]


def test_statuses_shadow_paused_and_draft() -> None:
    versions = [
        rule(emit="every", aggregation_threshold=1),
        rule(emit="every", aggregation_threshold=1, version=2, status="shadow", effective_from="1970-01-01T00:00:02Z"),
        rule(emit="every", aggregation_threshold=1, version=2, status="paused", effective_from=4000),
        rule(emit="every", aggregation_threshold=1, version=3, status="draft"),
    ]
    result = naive_detect(versions, [click(t) for t in (1999, 2000, 3999, 4000, 9000)])
    assert [(h.record_id, h.version, h.kind) for h in result.hits] == [
        ("t1999", 1, "alert"),
        ("t2000", 2, "shadow"),
        ("t3999", 2, "shadow"),
    ]


def test_a_duplicate_id_is_not_taken_in() -> None:
    body = rule(**EVERY)
    clicks = [click(0, id_="a"), click(1000, id_="b"), click(0, ingest_ms=2000, id_="a"), click(3000, id_="c")]
    result = detect(body, *clicks)
    assert [(h.position, h.value) for h in result.hits] == [(0, 1), (1, 2), (3, 3)]
    assert result.duplicates == [2]
    assert result.late == []


def test_a_copy_is_a_duplicate_as_long_as_any_rule_would_take_it() -> None:
    body = rule(**EVERY, window="4s", cooldown="5s", allowed_lateness="2s", watermark_delay="1s")
    first = click(0, id_="a")
    # A copy has the event time of the first: at 2 s it is late but allowed, at 2.001 s it is too late for the rule.
    later = [click(0, ingest_ms=t, id_="a") for t in (2000, 2001, 7001)]
    for each in (body, {**body, "group_by": []}):
        result = detect(each, first, *later)
        assert [h.position for h in result.hits] == [0]
        assert (result.duplicates, result.late) == ([1], [2, 3])


def test_the_ingest_clock_forgets_ids_after_a_power_of_two_seconds() -> None:
    body = rule(**EVERY, window="5s", time_mode="processing_time")
    clicks = [click(0, ingest_ms=t, id_="a") for t in (0, 120_000, 128_000, 128_001)]
    result = detect(body, *clicks)
    # 5 s and the pipeline's 2 min are 125 s, rounded up 128 s: the last is a new record, alone in its window.
    assert [(h.position, h.value) for h in result.hits] == [(0, 1), (3, 1)]
    assert (result.duplicates, result.late) == ([1, 2], [])


def test_what_is_allowed_is_asked_of_the_rules_in_force() -> None:
    patient = rule(**EVERY, allowed_lateness="10m", rule_id="patient", effective_from=400_000)
    early = [click(0, id_="a"), click(0, ingest_ms=300_000, id_="a")]
    after = [click(0, ingest_ms=500_000, id_="a"), click(0, ingest_ms=600_001, id_="a")]
    result = naive_detect([rule(**EVERY), patient], [*early, *after])
    # At 300 s the rules take 2 min; at 500 s one takes 10, and the copy is known; at 600.001 s it is too late for all.
    assert (result.duplicates, result.late) == ([2], [1, 3])


def test_an_id_is_known_by_key_and_only_where_it_entered() -> None:
    body = rule(**EVERY, conditions=[{"field": "kind", "operator": "==", "value": "x"}])
    plain, x = click(0, id_="a"), [click(t, id_="a", kind="x") for t in (1, 2)]
    clicks = [plain, *x, click(3, id_="a", user="u2", kind="x")]
    result = detect(body, *clicks)
    # The first did not enter, so the second is new to u1's windows, the third is not; to u2's the fourth is new.
    assert [h.position for h in result.hits] == [1, 3]
    assert result.duplicates == [1, 2, 3]


def test_a_very_late_record_is_late_twice_and_not_a_duplicate() -> None:
    clicks = [click(0, ingest_ms=200_000, id_="a"), click(0, ingest_ms=200_001, id_="a")]
    result = detect(rule(), *clicks)
    assert (result.duplicates, result.late) == ([], [0, 1])


def test_a_threshold_rule_is_its_conditions_alone() -> None:
    large = {"rule_id": "big", "version": 1, "rule_type": "threshold", "source_topic": "clicks"}
    body = {**large, "conditions": [{"field": "amount", "operator": ">", "value": 100}]}
    clicks = [click(0, amount=100), click(1, amount=101), click(2, amount=102), click(0, id_="x", ingest_ms=200_000)]
    result = detect(body, *clicks)
    assert [(h.record_id, h.key, h.value, h.evidence) for h in result.hits] == [
        ("t1", {}, None, ("t1",)),
        ("t2", {}, None, ("t2",)),
    ]
    assert result.late == [3]


def test_evidence_is_the_last_fifty_and_the_count_is_true() -> None:
    (hit,) = detect(rule(aggregation_threshold=60), *[click(t) for t in range(60)]).hits
    assert hit.count == 60
    assert hit.evidence == tuple(f"t{t}" for t in range(10, 60))


def test_alert_ids_depend_on_rule_version_key_and_record_alone() -> None:
    clicks = [click(0), click(1), click(0, id_="other", user="u2")]
    body = rule(emit="every", aggregation_threshold=1)
    once = detect(body, *clicks).hits
    again = naive_detect([body], [clicks[2], clicks[0], clicks[1]]).hits
    assert {h.alert_id for h in once} == {h.alert_id for h in again}
    assert len({h.alert_id for h in once}) == 3
    assert {h.alert_id for h in detect({**body, "version": 2}, *clicks).hits}.isdisjoint(h.alert_id for h in once)


def test_ingest_times_of_a_file_without_them() -> None:
    assert running_max_ingest([5, 3, 9, 9, 1, 10]) == [5, 5, 9, 9, 9, 10]
    assert running_max_ingest([]) == []


def test_the_entity_of_what_keeps_nothing_is_the_key_of_its_alerts() -> None:
    body = {"rule_id": "r", "version": 1, "rule_type": "threshold", "source_topic": "clicks", "entity": ["user", "tv"]}
    body["conditions"] = [{"field": "amount", "operator": ">", "value": 5}]
    clicks = [click(0, amount=6, tv=1), click(1, amount=5, tv=1), click(2, amount=7), click(3, amount=8, tv=None)]
    assert [(hit.record_id, hit.key) for hit in detect(body, *clicks).hits] == [
        ("t0", {"user": "u1", "tv": 1}),
        ("t2", {}),  # it lacks a field of the entity, and is a hit all the same
        ("t3", {}),
    ]
