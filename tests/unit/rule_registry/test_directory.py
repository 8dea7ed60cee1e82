import os
from pathlib import Path

import pytest

from crossline.basics.errors import PermanentError, StateError, UsageError
from crossline.basics.streams.schema import load_streams
from crossline.basics.times import BEGINNING_MS, FOREVER_MS
from crossline.rule_registry.directory import (
    PREVIEW_MS,
    DirectoryRuleLog,
    IngestClock,
    find_log,
    log_path,
    ruleset_of_log,
)
from crossline.rules.ruleset import RuleSet

from .harness import STREAMS, Harness, rule

Interval = tuple[str, int, int, int, str]


def intervals(rules: RuleSet) -> list[Interval]:
    return [
        (each.rule.rule_id, each.rule.version, each.effective_from_ms, each.effective_until_ms, each.kind)
        for each in rules.versions
    ]


def test_at_the_first_start_all_rules_are_there_from_the_beginning(harness: Harness) -> None:
    harness.write("b.yaml", rule("b"), rule("asked", effective_from=500))
    harness.write("a.yml", rule("a", status="shadow"), rule("d", status="draft"), rule("p", status="paused"))
    harness.write("notes.md", "not a rule")
    assert intervals(harness.start()) == [
        ("a", 1, BEGINNING_MS, FOREVER_MS, "shadow"),
        ("asked", 1, 500, FOREVER_MS, "active"),
        ("b", 1, BEGINNING_MS, FOREVER_MS, "active"),
    ]


def test_a_version_that_comes_later_ends_the_one_before(harness: Harness) -> None:
    harness.write("a.yaml", rule())
    harness.start()
    assert [harness.log.poll(), harness.log.poll()] == [None, None]
    unchanged, events = harness.log.take_up(None, {}, 1_000)
    assert (intervals(unchanged), events) == ([("large", 1, BEGINNING_MS, FOREVER_MS, "active")], [])
    harness.now_ms, harness.highest_ms = 5_000, 4_000
    harness.write("a.yaml", rule(version=2, amount=200))
    rules, events = harness.take_up()
    assert intervals(rules) == [
        ("large", 1, BEGINNING_MS, 5_000, "active"),
        ("large", 2, 5_000, FOREVER_MS, "active"),
    ]
    assert [(e.event, e.version, e.effective_from_ms, e.at_ms, e.source, e.line) for e in events] == [
        ("published", 2, 5_000, 5_000, "a.yaml", 1)
    ]
    assert harness.log.poll() is None


@pytest.mark.parametrize(
    ("clock", "highest_ms", "asked", "expected"),
    [
        ("wall", None, None, 5_000),
        ("wall", 4_000, None, 5_000),
        ("wall", 6_000, None, 6_001),
        ("wall", 4_000, 9_000, 9_000),
        ("wall", 6_000, 5_500, 6_001),
        ("records", 400, None, 401),
        ("records", 400, 300, 401),
        ("records", 400, 700, 700),
        ("records", None, None, BEGINNING_MS),
    ],
)
def test_when_a_publication_holds(
    harness: Harness, clock: str, highest_ms: int | None, asked: int | None, expected: int
) -> None:
    harness.start()
    harness.now_ms, harness.highest_ms, harness.clock = 5_000, highest_ms, clock  # type: ignore[assignment]
    harness.write("a.yaml", rule(**({"effective_from": asked} if asked else {})))
    rules, _ = harness.take_up()
    assert intervals(rules) == [("large", 1, expected, FOREVER_MS, "active")]


def test_a_bad_file_leaves_the_last_good_versions_and_is_reported_once(harness: Harness) -> None:
    harness.write("a.yaml", rule(), rule("other"))
    before = harness.start()
    harness.now_ms = 2_000
    harness.write("a.yaml", rule(version=2), rule("other").replace("amount", "amuont"))
    rules, events = harness.take_up()
    assert intervals(rules) == intervals(before)
    assert [e.event for e in events] == ["refused"]
    assert "a.yaml:10" in str(events[0].text)
    assert "did you mean amount?" in str(events[0].text)

    # Another file changes: the bad one is checked again, and not reported again; nor after a restart.
    harness.write("b.yaml", rule("b"))
    assert [e.event for e in harness.take_up()[1]] == ["published"]
    harness.restart()
    assert harness.take_up()[1] == []

    harness.now_ms = 3_000
    harness.write("a.yaml", rule(version=2), rule("other"))
    rules, events = harness.take_up()
    assert [(e.event, e.rule_id, e.version) for e in events] == [("published", "large", 2)]
    assert ("large", 2, 3_000, FOREVER_MS, "active") in intervals(rules)


def test_a_file_that_cannot_be_read_is_refused(harness: Harness) -> None:
    harness.write("a.yaml", "- [")
    (harness.folder / "b.yaml").write_bytes(b"\xff")
    (harness.folder / "c.yaml").symlink_to("nowhere")
    assert len(harness.start()) == 0
    lines = log_path(harness.folder, "p").read_text(encoding="utf-8").splitlines()
    assert [("refused" in line, "a.yaml" in line, "b.yaml" in line) for line in lines] == [
        (True, True, False),
        (True, False, True),
        (True, False, False),
        (False, False, False),
    ]
    assert "c.yaml:1\\n  found a link to what is not there; expected a file that can be read" in lines[2]


REFUSALS = [
    (
        rule(version=3, amount=7),
        "version 3 is published with another body; set version: 4",
    ),
    (rule(version=2), "found version 2; expected a version above 3, which is published\n  set version: 4"),
    (
        rule(version=3, status="draft"),
        "found a move from active to draft; expected active to become paused or retired or",
    ),
    (
        rule(version=3, effective_from=99),
        "found 1970-01-01T00:00:00.099Z; expected none, as it was published\n  set version: 4",
    ),
    (
        rule(version=4) + rule(version=4, status="shadow"),
        "found version 4 of large again; expected one body and status for it; a.yaml:1 has another",
    ),
]


@pytest.mark.parametrize(("text", "message"), REFUSALS)
def test_what_may_not_follow_is_refused(harness: Harness, text: str, message: str) -> None:
    harness.write("a.yaml", rule(version=3))
    before = harness.start()
    harness.write("a.yaml", text)
    rules, events = harness.take_up()
    assert intervals(rules) == intervals(before)
    assert [e.event for e in events] == ["refused"]
    assert message in str(events[0].text)


def test_two_files_may_not_differ_about_a_version(harness: Harness) -> None:
    harness.write("a.yaml", rule())
    harness.write("b.yaml", rule())
    harness.write("c.yaml", rule(amount=7))
    assert intervals(harness.start()) == [("large", 1, BEGINNING_MS, FOREVER_MS, "active")]
    text = log_path(harness.folder, "p").read_text(encoding="utf-8")
    assert "c.yaml:2" in text
    assert "b.yaml:1 has another" not in text
    assert "a.yaml:1 has another" in text


def test_statuses_make_intervals_of_one_version(harness: Harness) -> None:
    harness.write("a.yaml", rule(status="shadow"))
    harness.start()
    for now_ms, status in ((2_000, "active"), (3_000, "paused"), (4_000, "active"), (5_000, "retired")):
        harness.now_ms = now_ms
        harness.write("a.yaml", rule(status=status))
        rules, events = harness.take_up()
        assert [(e.event, e.status, e.effective_from_ms) for e in events] == [("status_changed", status, now_ms)]
    assert intervals(rules) == [
        ("large", 1, BEGINNING_MS, 2_000, "shadow"),
        ("large", 1, 2_000, 3_000, "active"),
        ("large", 1, 4_000, 5_000, "active"),
    ]
    harness.write("a.yaml", rule(status="active"))
    _, events = harness.take_up()
    assert "found a move from retired to active; expected retired to stay so" in str(events[0].text)
    assert "publish version 2" in str(events[0].text)


def test_a_draft_waits_beside_the_version_in_force(harness: Harness) -> None:
    harness.write("a.yaml", rule())
    harness.start()
    harness.now_ms = 2_000
    harness.write("b.yaml", rule(version=2, status="draft"))
    assert intervals(harness.take_up()[0]) == [("large", 1, BEGINNING_MS, FOREVER_MS, "active")]
    harness.now_ms = 3_000
    harness.write("b.yaml", rule(version=2))
    assert intervals(harness.take_up()[0]) == [
        ("large", 1, BEGINNING_MS, 3_000, "active"),
        ("large", 2, 3_000, FOREVER_MS, "active"),
    ]
    harness.write("a.yaml", rule(status="paused"))
    assert "since version 2 has replaced it" in str(harness.take_up()[1][0].text)


def test_a_rule_whose_file_is_gone_stays_live(harness: Harness) -> None:
    harness.write("a.yaml", rule(), rule("b", status="retired"))
    before = harness.start()
    (harness.folder / "a.yaml").unlink()
    rules, events = harness.take_up()
    assert intervals(rules) == intervals(before)
    assert [(e.event, e.rule_id) for e in events] == [("absent", "large")]
    assert "stays live; to end it, set its status to retired" in str(events[0].text)
    harness.write("b.yaml", rule("c"))
    assert [e.event for e in harness.take_up()[1]] == ["published"]
    harness.restart()
    assert harness.take_up()[1] == []


def test_changes_while_the_pipeline_was_down_are_applied_after(harness: Harness) -> None:
    harness.write("a.yaml", rule())
    first = harness.start()
    harness.log.close()
    harness.write("a.yaml", rule(version=2))
    again = harness.restart()
    assert intervals(again) == intervals(first)
    harness.now_ms, harness.highest_ms = 7_000, 8_000
    assert intervals(harness.take_up()[0])[-1] == ("large", 2, 8_001, FOREVER_MS, "active")


def test_a_touched_file_is_no_change(harness: Harness) -> None:
    harness.write("a.yaml", rule())
    harness.start()
    assert harness.log.poll() is None
    os.utime(harness.folder / "a.yaml", ns=(1, 1))
    assert harness.log.poll() is None
    harness.write("a.yaml", rule(version=2))
    os.utime(harness.folder / "a.yaml", ns=(1, 1))
    assert harness.log.poll() is not None


def test_the_log_alone_reports_who_judged_when(harness: Harness) -> None:
    harness.write("a.yaml", rule(watermark_delay="1500ms", allowed_lateness="3m"))
    harness.start()
    harness.now_ms = 2_000
    harness.write("a.yaml", rule(version=2))
    rules, _ = harness.take_up()
    assert ruleset_of_log(log_path(harness.folder, "p")).fingerprint == rules.fingerprint
    assert find_log(harness.folder) == find_log(harness.folder, "p") == log_path(harness.folder, "p")
    with pytest.raises(UsageError, match=r"found no rule log of pipeline q .* there are those of p"):
        find_log(harness.folder, "q")
    other = DirectoryRuleLog(harness.folder, "q", harness.streams)
    other.start(0)
    other.close()
    with pytest.raises(UsageError, match=r"found the rule logs of p, q .* expected --pipeline"):
        find_log(harness.folder)


def test_a_rule_waits_for_its_list(tmp_path: Path) -> None:
    names: list[str] = []
    (tmp_path / "a.yaml").write_text(
        rule().replace("operator: '>', value: 100", "operator: in, value: {list: amounts}"), encoding="utf-8"
    )
    log = DirectoryRuleLog(tmp_path, "p", load_streams(STREAMS, "s"), lambda: names)
    assert len(log.start(0)) == 0
    assert log.poll() is None
    names.append("amounts")
    rules, _ = log.take_up(log.poll(), {}, 5)
    assert intervals(rules) == [("large", 1, 5, FOREVER_MS, "active")]
    log.close()


def test_a_missing_folder_is_wrong_use(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"found no folder .*/none; expected the folder of the rule files"):
        DirectoryRuleLog(tmp_path / "none", "p", {}).start(0)


def test_one_process_holds_the_log(harness: Harness) -> None:
    harness.start()
    with pytest.raises(StateError, match=r"p\.jsonl is held by another run of this pipeline"):
        DirectoryRuleLog(harness.folder, "p", harness.streams).start(0)


def test_rules_of_the_log_must_fit_the_streams(harness: Harness) -> None:
    harness.write("a.yaml", rule())
    harness.start()
    harness.streams = load_streams(STREAMS.replace(", amount: integer", ""), "stream.yaml")
    with pytest.raises(PermanentError, match=r'rule large version 1 of the log .* does not fit .* found "amount"'):
        harness.restart()


TWO_STREAMS = STREAMS + STREAMS.partition("streams:\n")[2].replace("payments:", "refunds:")


def test_a_publication_holds_from_where_its_own_stream_stands(harness: Harness) -> None:
    streams = load_streams(TWO_STREAMS, "stream.yaml")
    log = DirectoryRuleLog(harness.folder, "p", streams)
    log.start(1_000)
    harness.write("a.yaml", rule("on_payments"), rule("on_refunds").replace(": payments", ": refunds"))
    clocks: dict[str, IngestClock] = {"payments": "records", "refunds": "records"}
    _, events = log.take_up(log.poll(), {"payments": 9_000, "refunds": 50}, 1_000, clocks)
    assert [(e.rule_id, e.effective_from_ms) for e in events] == [("on_payments", 9_001), ("on_refunds", 51)]
    log.close()


def test_a_version_that_reads_another_stream_ends_the_one_before_where_that_ones_stream_stands(
    harness: Harness,
) -> None:
    streams = load_streams(TWO_STREAMS, "stream.yaml")
    clocks: dict[str, IngestClock] = {"payments": "records", "refunds": "records"}
    log = DirectoryRuleLog(harness.folder, "p", streams)
    harness.write("a.yaml", rule())
    log.start(1_000)
    harness.write("a.yaml", rule(version=2).replace(": payments", ": refunds"))
    previewed = log.preview(log.poll())
    assert [(v.rule.version, v.effective_until_ms) for v in previewed.versions] == [(1, PREVIEW_MS), (2, FOREVER_MS)]
    rules, events = log.take_up(log.poll(), {"payments": 9_000, "refunds": 50}, 1_000, clocks)
    assert [(e.event, e.version, e.effective_from_ms) for e in events] == [("ended", 1, 9_001), ("published", 2, 51)]
    assert intervals(rules) == [
        ("large", 1, BEGINNING_MS, 9_001, "active"),
        ("large", 2, 51, FOREVER_MS, "active"),
    ]
    log.close()
    assert ruleset_of_log(log_path(harness.folder, "p")).fingerprint == rules.fingerprint
    again = DirectoryRuleLog(harness.folder, "p", streams)
    assert again.start(2_000).fingerprint == rules.fingerprint
    assert again.take_up(again.poll(), {}, 2_000)[1] == [], "what stands in the file is what is there"
    again.close()
