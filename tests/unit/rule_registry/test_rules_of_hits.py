"""Rules that read hits, in a folder of rule files: across files, and as time goes on."""

from __future__ import annotations

from crossline.basics.streams.schema import load_streams
from crossline.plan.compose import compile_all
from crossline.rules.base import Defaults
from crossline.rules.ruleset import RuleSet

from .harness import STREAMS, Harness, rule


def over(rule_id: str, read: str, **more: object) -> str:
    return rule(rule_id, **more).replace("source_topic: payments", f"source_topic: rule:{read}")


def refusals(harness: Harness) -> list[str]:
    return [str(event.text) for event in harness.take_up()[1] if event.event == "refused"]


def test_a_rule_may_stand_in_another_file_than_the_one_it_reads(harness: Harness) -> None:
    harness.write("a.yaml", over("second", "first"))
    harness.write("b.yaml", rule("first"))
    assert {version.rule.rule_id for version in harness.start().versions} == {"first", "second"}
    assert {version.rule.rule_id for version in harness.restart().versions} == {"first", "second"}


def test_a_ring_through_two_files_is_refused_in_both(harness: Harness) -> None:
    harness.start()
    harness.write("a.yaml", over("first", "second"))
    harness.write("b.yaml", over("second", "first"))
    found = refusals(harness)
    assert len(found) == 2
    assert "rule:second reads rule:first reads rule:second" in found[0]
    harness.write("b.yaml", rule("second"))
    rules, _ = harness.take_up()
    assert {version.rule.rule_id for version in rules.versions} == {"first", "second"}


def test_it_holds_from_where_the_stream_stands_whose_records_are_hit(harness: Harness) -> None:
    harness.write("a.yaml", rule("first"))
    harness.start()
    harness.clock, harness.highest_ms = "records", 5_000
    harness.write("b.yaml", over("second", "first"))
    rules, _ = harness.take_up()
    assert {v.rule.rule_id: v.effective_from_ms for v in rules.versions}["second"] == 5_001


def test_what_a_rule_reads_may_be_gone_from_its_file_and_is_still_known(harness: Harness) -> None:
    harness.write("a.yaml", rule("first"))
    harness.start()
    (harness.folder / "a.yaml").unlink()
    harness.take_up()
    harness.write("b.yaml", over("second", "first"))
    rules, _ = harness.take_up()
    assert {version.rule.rule_id for version in rules.versions} == {"first", "second"}


def test_a_rule_whose_hits_are_read_stays_with_its_stream(harness: Harness) -> None:
    """Its readers were checked against the fields of that stream."""
    harness.write("a.yaml", rule("first"), rule("other"))
    harness.write("b.yaml", over("second", "first"))
    harness.start()
    harness.write("a.yaml", over("first", "other", version=2), rule("other"))
    (refused,) = refusals(harness)
    assert 'found "rule:other"; expected payments, since rule second reads its hits' in refused
    harness.write("b.yaml", over("second", "first", status="retired"))
    harness.take_up()
    harness.write("a.yaml", over("first", "other", version=2), rule("other"), "# again\n")
    rules, _ = harness.take_up()
    assert max(v.rule.version for v in rules.versions if v.rule.rule_id == "first") == 2


def counted(rule_id: str, version: int = 1, read: str = "payments", by: str = "account") -> str:
    return (
        f"- {{rule_id: {rule_id}, version: {version}, rule_type: velocity, source_topic: '{read}', group_by: {by}, "
        "aggregation_type: sum, aggregation_field: amount, aggregation_threshold: 1, window: 1m}\n"
    )


def plans(rules: RuleSet, harness: Harness) -> dict[str, set[str]]:
    """The rules that are judged, by stream."""
    found = compile_all(rules, harness.streams, Defaults())
    return {name: {rule_id for rule_id, _ in plan.programs} for name, plan in found.items()}


def test_both_rules_come_in_new_versions_with_another_key(harness: Harness) -> None:
    """The first versions are in the log for good, with a key that the second ones have not."""
    harness.write("a.yaml", counted("first"), counted("second", read="rule:first", by="hit.key.account"))
    harness.start()
    harness.write("a.yaml", counted("first", 2, by="amount"), counted("second", 2, "rule:first", "hit.key.amount"))
    rules, events = harness.take_up()
    assert [event.event for event in events] == ["published", "published"]
    assert plans(rules, harness)["rule:first"] == {"second"}
    again = harness.restart()
    assert again.fingerprint == rules.fingerprint
    later = RuleSet(tuple(version for version in again.versions if version.rule.version == 2))
    assert plans(later, harness) == {"payments": {"first"}, "rule:first": {"second"}}


def test_a_rule_whose_key_another_still_reads_gets_another_one(harness: Harness) -> None:
    """The other rule is not refused: it stays in force, over hits that have no such key."""
    harness.write("a.yaml", counted("first"))
    harness.write("b.yaml", counted("second", read="rule:first", by="hit.key.account"))
    harness.start()
    harness.write("a.yaml", counted("first", 2, by="amount"))
    rules, _ = harness.take_up()
    later = RuleSet(tuple(v for v in rules.versions if (v.rule.rule_id, v.rule.version) != ("first", 1)))
    assert plans(later, harness) == {"payments": {"first"}, "rule:first": {"second"}}
    assert {version.rule.rule_id for version in harness.restart().versions} == {"first", "second"}


def test_a_rule_is_not_published_over_one_that_was_refused(harness: Harness) -> None:
    harness.write("a.yaml", rule("first"), "- {rule_id: wrong, version: 1, rule_type: thresold}\n")
    harness.write("b.yaml", over("second", "first"))
    harness.write("c.yaml", over("third", "second"))
    assert not harness.start().versions
    harness.write("a.yaml", rule("first"))
    rules, _ = harness.take_up()
    assert {version.rule.rule_id for version in rules.versions} == {"first", "second", "third"}


def test_what_is_written_first_or_a_draft_says_nothing_of_hits(harness: Harness) -> None:
    draft = counted("first", 3, "rule:second").replace("version: 3", "version: 3, status: draft")
    harness.write("a.yaml", draft, counted("first", 2, by="amount"), counted("first"))
    harness.write("b.yaml", counted("second", read="rule:first", by="hit.key.amount"))
    assert {version.rule.rule_id for version in harness.start().versions} == {"first", "second"}
    assert harness.restart().versions


def test_a_rule_is_left_out_where_its_hits_have_become_others(harness: Harness) -> None:
    """It is in the log, and what it read went to a stream without the field while it was paused."""
    harness.write("a.yaml", counted("first", by="amount"), counted("second", read="rule:first", by="account"))
    rules = harness.start()
    bare = load_streams(STREAMS.replace(", account: string", ""), "stream.yaml")
    assert {name: set(plan.programs) for name, plan in compile_all(rules, bare, Defaults()).items()} == {
        "payments": {("first", 1)}
    }


def together(rule_id: str, members: str, version: int = 1) -> str:
    return (
        f"- {{rule_id: {rule_id}, version: {version}, rule_type: composite, any_of: [{members}], join_key: account, "
        "window: 1m}\n"
    )


def test_a_composite_whose_hits_are_read_may_have_other_members_of_its_stream(harness: Harness) -> None:
    """Also another first one. A member that is itself a reader of hits would be a level deeper, and is refused."""
    harness.write("a.yaml", *(rule(name) for name in ("one", "two", "three")), over("deep", "three"))
    harness.write("b.yaml", together("both", "one, two"))
    harness.write("c.yaml", over("reader", "both"))
    harness.start()
    harness.write("b.yaml", together("both", "three, two", version=2))
    rules, events = harness.take_up()
    assert [event.event for event in events if event.event == "refused"] == []
    assert max(v.rule.version for v in rules.versions if v.rule.rule_id == "both") == 2
    harness.write("b.yaml", together("both", "two, deep", version=3))
    (refused,) = refusals(harness)
    assert "expected rule:three and rule:two, since rule reader reads its hits" in refused


def formed(version: int, figures: str, when: str) -> str:
    return (
        f"- {{rule_id: formed, version: {version}, rule_type: formula, source_topic: payments, "
        f"figures: {{{figures}}}, when: {when}}}\n"
    )


def test_what_a_rule_looks_at_counts_as_what_it_reads(harness: Harness) -> None:
    """A figure of hits, or of another key, makes its level another one: its reader would lose what it knows."""
    own = "n: {count: true, group_by: account, window: 1m}"
    harness.write("a.yaml", rule("other"), formed(1, own, "n >= 3"))
    harness.write("b.yaml", over("reader", "formed"))
    harness.start()
    side_inputs = "m: {count: true, source_topic: 'rule:other', group_by: account, window: 1m}"
    harness.write("a.yaml", rule("other"), formed(2, f"{own}, {side_inputs}", "n >= 3 and m >= 1"))
    (refused,) = refusals(harness)
    assert "expected payments, since rule reader reads its hits" in refused
    harness.write(
        "a.yaml", rule("other"), formed(2, f"{own}, {side_inputs.replace('account', 'amount')}", "n >= 3 and m >= 1")
    )
    assert len(refusals(harness)) == 1
    cross_key = "m: {count: true, group_by: amount, window: 1m}"
    harness.write("a.yaml", rule("other"), formed(2, f"{own}, {cross_key}", "n >= 3 and m >= 1"))
    (refused,) = refusals(harness)
    assert "figures of several keys" in refused
    assert "expected figures of one key, since rule reader reads its hits" in refused
    harness.write(
        "a.yaml", rule("other"), formed(2, f"{own}, m: {{sum: amount, group_by: account, window: 1h}}", "n + m > 3")
    )
    assert refusals(harness) == []
