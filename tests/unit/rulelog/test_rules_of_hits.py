"""Rules that read hits, in a folder of rule files: across files, and as time goes on."""

from __future__ import annotations

from .desk import Desk, rule


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
