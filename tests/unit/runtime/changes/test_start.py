"""A start reports refusals as a running pipeline does: in the log, in metrics, and to the sinks."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from crossline.basics.errors import PermanentError
from crossline.evaluate.bounds import Bounds
from crossline.rules.base import Defaults
from crossline.rules.ruleset import RuleSet
from crossline.runtime.changes.rule_changes import RuleChanges
from crossline.runtime.changes.rule_feed import DirectoryFeed
from crossline.runtime.snapshot.snapshot import PlanSnapshot
from crossline.runtime.state_log.offset_history import OffsetHistory
from crossline.settings.config import PipelineConfig as Config
from crossline.settings.config import in_folder, load_pipeline

PIPELINE = """\
schema_version: 1
name: p
streams: {s: {id: id, event_time: {field: at}, fields: {id: string, at: integer, card: string}}}
sources: {s: {kind: files, path: in}}
rules: {kind: directory, path: rules}
lists: {kind: directory, path: lists}
sinks: [{kind: console}]
"""
RULE = (
    "{rule_id: NAME, version: 1, rule_type: threshold, source_topic: s, conditions: [{field: card, operator: exists}]}"
)


def rule(name: str) -> str:
    return RULE.replace("NAME", name)


def several(*rules: str) -> str:
    return "".join(f"- {each}\n" for each in rules)


WRONG = rule("wrong").replace("card", "crad")


@pytest.fixture
def config(tmp_path: Path) -> Config:
    for name in ("rules", "lists"):
        (tmp_path / name).mkdir()
    return in_folder(load_pipeline(PIPELINE, "p.yaml", str), str(tmp_path))


class Run:
    """A start of the pipeline's rules, and its log."""

    def __init__(self, config: Config, folder: Path, *, allow_no_rules: bool = False) -> None:
        feed = DirectoryFeed(config, {}, allow_no_rules=allow_no_rules)
        snapshot = PlanSnapshot(RuleSet(), config.streams, Defaults(), 1, Bounds(0))
        state = (OffsetHistory(str(folder)), str(folder), None, threading.Event())
        self.changes = RuleChanges(snapshot, None, feed, *state)
        with capture_logs() as self.logs:
            try:
                self.changes.start()
            except BaseException:
                self.changes.close()
                raise

    def logged_refusals(self) -> list[tuple[Any, ...]]:
        return [
            (each["log_level"], each["source"], each.get("rules_not_taken_up"))
            for each in self.logs
            if each["event"] == "refused"
        ]

    def look(self) -> None:
        """As the thread that watches does."""
        with capture_logs() as self.logs:
            self.changes._look()


def test_what_the_first_start_refuses_is_reported_and_counted(config: Config, tmp_path: Path) -> None:
    (tmp_path / "rules" / "a.yaml").write_text(rule("good"), encoding="utf-8")
    (tmp_path / "rules" / "b.yaml").write_text(several(rule("x"), WRONG, rule("y")), encoding="utf-8")
    run = Run(config, tmp_path / "c")
    assert run.logged_refusals() == [("warning", "b.yaml", 3)]
    assert "did you mean card?" in next(each["text"] for each in run.logs if each["event"] == "refused")
    assert run.changes.logged["refused"] == 1
    assert [each["event"] for each in run.changes.events()].count("refused") == 1, "for the sinks, as before"
    run.look()
    assert (run.logged_refusals(), run.changes.logged["refused"]) == ([], 1), "once in a run"
    assert [each["source"] for each in run.changes.refusals()] == ["b.yaml"]
    run.changes.close()


def test_what_is_refused_again_is_reported_again(config: Config, tmp_path: Path) -> None:
    """A row of a topic may be sent twice as it is: a report about the first at the start does not cover the second."""
    (tmp_path / "rules" / "a.yaml").write_text(several(rule("good")), encoding="utf-8")
    (tmp_path / "rules" / "b.yaml").write_text("- [", encoding="utf-8")
    run = Run(config, tmp_path / "c")
    (event,) = run.changes.refusals()
    run.changes._note([event])
    assert run.changes.logged["refused"] == 2
    run.changes.close()


def test_the_next_start_reports_it_again(config: Config, tmp_path: Path) -> None:
    (tmp_path / "rules" / "a.yaml").write_text(rule("good"), encoding="utf-8")
    (tmp_path / "rules" / "b.yaml").write_text(several(rule("x"), WRONG), encoding="utf-8")
    Run(config, tmp_path / "c").changes.close()
    (tmp_path / "rules" / "c.yaml").write_text("- [", encoding="utf-8")
    run = Run(config, tmp_path / "c")
    assert run.logged_refusals() == [("warning", "b.yaml", 2), ("warning", "c.yaml", None)]
    run.look()
    assert (run.logged_refusals(), run.changes.logged["refused"]) == ([], 2)
    assert [each["source"] for each in run.changes.events() if each["event"] == "refused"] == ["b.yaml", "c.yaml"]
    (tmp_path / "rules" / "b.yaml").write_text(several(rule("x")), encoding="utf-8")
    (tmp_path / "rules" / "c.yaml").write_text("- [ ", encoding="utf-8")
    run.look()
    assert run.logged_refusals() == [("warning", "c.yaml", None)], "another content is reported anew"
    assert [each["source"] for each in run.changes.refusals()] == ["c.yaml"]
    run.changes.close()


def test_a_list_that_went_bad_is_reported_at_each_start(config: Config, tmp_path: Path) -> None:
    (tmp_path / "rules" / "a.yaml").write_text(rule("good"), encoding="utf-8")
    (tmp_path / "lists" / "cards.txt").write_text("c1\n", encoding="utf-8")
    Run(config, tmp_path / "c").changes.close()
    (tmp_path / "lists" / "cards.txt").write_bytes(b"\xff\n")
    for _ in range(2):
        run = Run(config, tmp_path / "c")
        assert run.logged_refusals() == [("warning", "cards.txt", None)]
        run.look()
        assert (run.logged_refusals(), run.changes.logged["refused"]) == ([], 1)
        run.changes.close()


def test_a_start_without_a_rule_ends(config: Config, tmp_path: Path) -> None:
    (tmp_path / "rules" / "a.yaml").write_text(several(rule("x"), WRONG, rule("y")), encoding="utf-8")
    with pytest.raises(PermanentError, match="no rule is left to judge by: one file is refused"):
        Run(config, tmp_path / "c")
    run = Run(config, tmp_path / "c", allow_no_rules=True)
    assert run.logged_refusals() == [("warning", "a.yaml", 3)]
    run.changes.close()


def test_what_was_published_while_no_pipeline_ran_judges_the_first_batch(config: Config, tmp_path: Path) -> None:
    """A run that ends with its first batch, as ``run --drain`` over one file does, has no later one to judge by it."""
    path = tmp_path / "rules" / "a.yaml"
    path.write_text(rule("a"), encoding="utf-8")
    Run(config, tmp_path / "c").changes.close()
    path.write_text(rule("a").replace("version: 1", "version: 2"), encoding="utf-8")
    run = Run(config, tmp_path / "c")
    with run.changes.judging():
        newest = max(run.changes.snapshot.rules.versions, key=lambda each: each.rule.version or 0)
        assert (newest.rule.version, newest.endless) == (2, True)
    run.changes.close()
