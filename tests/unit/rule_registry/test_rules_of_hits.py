"""Rules that read hits, in a folder of rule files: across files, and as time goes on."""

from __future__ import annotations

from crossline.basics.streams.schema import load_streams
from crossline.plan.compose import compile_all
from crossline.rules.base import Defaults
from crossline.rules.ruleset import RuleSet

from .desk import STREAMS, Desk, rule


def over(rule_id: str, read: str, **more: object) -> str:
    return rule(rule_id, **more).replace("source_topic: payments", f"source_topic: rule:{read}")


def refusals(desk: Desk) -> list[str]:
    return [str(event.text) for event in desk.take_up()[1] if event.event == "refused"]


def test_a_rule_may_stand_in_another_file_than_the_one_it_reads(desk: Desk) -> None:
    desk.write("a.yaml", over("second", "first"))
    desk.write("b.yaml", rule("first"))
    assert {version.rule.rule_id for version in desk.start().versions} == {"first", "second"}
    assert {version.rule.rule_id for version in desk.restart().versions} == {"first", "second"}


def test_a_ring_through_two_files_is_refused_in_both(desk: Desk) -> None:
    desk.start()
    desk.write("a.yaml", over("first", "second"))
    desk.write("b.yaml", over("second", "first"))
    found = refusals(desk)
    assert len(found) == 2
    assert "rule:second reads rule:first reads rule:second" in found[0]
    desk.write("b.yaml", rule("second"))
    rules, _ = desk.take_up()
    assert {version.rule.rule_id for version in rules.versions} == {"first", "second"}


def test_it_holds_from_where_the_stream_stands_whose_records_are_hit(desk: Desk) -> None:
    desk.write("a.yaml", rule("first"))
    desk.start()
    desk.clock, desk.highest_ms = "records", 5_000
    desk.write("b.yaml", over("second", "first"))
    rules, _ = desk.take_up()
    assert {v.rule.rule_id: v.effective_from_ms for v in rules.versions}["second"] == 5_001


def test_what_a_rule_reads_may_be_gone_from_its_file_and_is_still_known(desk: Desk) -> None:
    desk.write("a.yaml", rule("first"))
    desk.start()
    (desk.folder / "a.yaml").unlink()
    desk.take_up()
    desk.write("b.yaml", over("second", "first"))
    rules, _ = desk.take_up()
    assert {version.rule.rule_id for version in rules.versions} == {"first", "second"}


def test_a_rule_whose_hits_are_read_stays_with_its_stream(desk: Desk) -> None:
    """Its readers were checked against the fields of that stream."""
    desk.write("a.yaml", rule("first"), rule("other"))
    desk.write("b.yaml", over("second", "first"))
    desk.start()
    desk.write("a.yaml", over("first", "other", version=2), rule("other"))
    (refused,) = refusals(desk)
    assert 'found "rule:other"; expected payments, since rule second reads its hits' in refused
    desk.write("b.yaml", over("second", "first", status="retired"))
    desk.take_up()
    desk.write("a.yaml", over("first", "other", version=2), rule("other"), "# again\n")
    rules, _ = desk.take_up()
    assert max(v.rule.version for v in rules.versions if v.rule.rule_id == "first") == 2


def counted(rule_id: str, version: int = 1, read: str = "payments", by: str = "account") -> str:
    return (
        f"- {{rule_id: {rule_id}, version: {version}, rule_type: velocity, source_topic: '{read}', group_by: {by}, "
        "aggregation_type: sum, aggregation_field: amount, aggregation_threshold: 1, window: 1m}\n"
    )


def plans(rules: RuleSet, desk: Desk) -> dict[str, set[str]]:
    """The rules that are judged, by stream."""
    found = compile_all(rules, desk.streams, Defaults())
    return {name: {rule_id for rule_id, _ in plan.programs} for name, plan in found.items()}


def test_both_rules_come_in_new_versions_with_another_key(desk: Desk) -> None:
    """The first versions are in the log for good, with a key that the second ones have not."""
    desk.write("a.yaml", counted("first"), counted("second", read="rule:first", by="hit.key.account"))
    desk.start()
    desk.write("a.yaml", counted("first", 2, by="amount"), counted("second", 2, "rule:first", "hit.key.amount"))
    rules, events = desk.take_up()
    assert [event.event for event in events] == ["published", "published"]
    assert plans(rules, desk)["rule:first"] == {"second"}
    again = desk.restart()
    assert again.fingerprint == rules.fingerprint
    later = RuleSet(tuple(version for version in again.versions if version.rule.version == 2))
    assert plans(later, desk) == {"payments": {"first"}, "rule:first": {"second"}}


def test_a_rule_whose_key_another_still_reads_gets_another_one(desk: Desk) -> None:
    """Nobody has said that the other is wrong: it lives on, over hits that have no such key."""
    desk.write("a.yaml", counted("first"))
    desk.write("b.yaml", counted("second", read="rule:first", by="hit.key.account"))
    desk.start()
    desk.write("a.yaml", counted("first", 2, by="amount"))
    rules, _ = desk.take_up()
    later = RuleSet(tuple(v for v in rules.versions if (v.rule.rule_id, v.rule.version) != ("first", 1)))
    assert plans(later, desk) == {"payments": {"first"}, "rule:first": {"second"}}
    assert {version.rule.rule_id for version in desk.restart().versions} == {"first", "second"}


def test_a_rule_is_not_published_over_one_that_was_refused(desk: Desk) -> None:
    desk.write("a.yaml", rule("first"), "- {rule_id: wrong, version: 1, rule_type: thresold}\n")
    desk.write("b.yaml", over("second", "first"))
    desk.write("c.yaml", over("third", "second"))
    assert not desk.start().versions
    desk.write("a.yaml", rule("first"))
    rules, _ = desk.take_up()
    assert {version.rule.rule_id for version in rules.versions} == {"first", "second", "third"}


def test_what_is_written_first_or_a_draft_says_nothing_of_hits(desk: Desk) -> None:
    draft = counted("first", 3, "rule:second").replace("version: 3", "version: 3, status: draft")
    desk.write("a.yaml", draft, counted("first", 2, by="amount"), counted("first"))
    desk.write("b.yaml", counted("second", read="rule:first", by="hit.key.amount"))
    assert {version.rule.rule_id for version in desk.start().versions} == {"first", "second"}
    assert desk.restart().versions


def test_a_rule_is_left_out_where_its_hits_have_become_others(desk: Desk) -> None:
    """It is in the log, and what it read went to a stream without the field while it was paused."""
    desk.write("a.yaml", counted("first", by="amount"), counted("second", read="rule:first", by="account"))
    rules = desk.start()
    bare = load_streams(STREAMS.replace(", account: string", ""), "stream.yaml")
    assert {name: set(plan.programs) for name, plan in compile_all(rules, bare, Defaults()).items()} == {
        "payments": {("first", 1)}
    }


def together(rule_id: str, members: str, version: int = 1) -> str:
    return (
        f"- {{rule_id: {rule_id}, version: {version}, rule_type: composite, any_of: [{members}], join_key: account, "
        "window: 1m}\n"
    )


def test_a_composite_whose_hits_are_read_may_have_other_members_of_its_stream(desk: Desk) -> None:
    """Also another first one. A member that is itself a reader of hits would be a level deeper, and is refused."""
    desk.write("a.yaml", *(rule(name) for name in ("one", "two", "three")), over("deep", "three"))
    desk.write("b.yaml", together("both", "one, two"))
    desk.write("c.yaml", over("reader", "both"))
    desk.start()
    desk.write("b.yaml", together("both", "three, two", version=2))
    rules, events = desk.take_up()
    assert [event.event for event in events if event.event == "refused"] == []
    assert max(v.rule.version for v in rules.versions if v.rule.rule_id == "both") == 2
    desk.write("b.yaml", together("both", "two, deep", version=3))
    (refused,) = refusals(desk)
    assert "expected rule:three and rule:two, since rule reader reads its hits" in refused


def formed(version: int, figures: str, when: str) -> str:
    return (
        f"- {{rule_id: formed, version: {version}, rule_type: formula, source_topic: payments, "
        f"figures: {{{figures}}}, when: {when}}}\n"
    )


def test_what_a_rule_looks_at_counts_as_what_it_reads(desk: Desk) -> None:
    """A figure of hits, or of another key, makes its level another one: its reader would lose what it knows."""
    own = "n: {count: true, group_by: account, window: 1m}"
    desk.write("a.yaml", rule("other"), formed(1, own, "n >= 3"))
    desk.write("b.yaml", over("reader", "formed"))
    desk.start()
    side_inputs = "m: {count: true, source_topic: 'rule:other', group_by: account, window: 1m}"
    desk.write("a.yaml", rule("other"), formed(2, f"{own}, {side_inputs}", "n >= 3 and m >= 1"))
    (refused,) = refusals(desk)
    assert "expected payments, since rule reader reads its hits" in refused
    desk.write(
        "a.yaml", rule("other"), formed(2, f"{own}, {side_inputs.replace('account', 'amount')}", "n >= 3 and m >= 1")
    )
    assert len(refusals(desk)) == 1
    brought = "m: {count: true, group_by: amount, window: 1m}"
    desk.write("a.yaml", rule("other"), formed(2, f"{own}, {brought}", "n >= 3 and m >= 1"))
    (refused,) = refusals(desk)
    assert "figures of several keys" in refused
    assert "expected figures of one key, since rule reader reads its hits" in refused
    desk.write(
        "a.yaml", rule("other"), formed(2, f"{own}, m: {{sum: amount, group_by: account, window: 1h}}", "n + m > 3")
    )
    assert refusals(desk) == []
