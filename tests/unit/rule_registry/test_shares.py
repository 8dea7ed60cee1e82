"""A version for a share of keys in the rule log: what may follow, and what judges then."""

from __future__ import annotations

from pathlib import Path

import pytest

from crossline.basics.errors import PermanentError
from crossline.basics.share import Slots
from crossline.basics.streams.schema import load_streams
from crossline.basics.texts.problems import RefusedError
from crossline.rule_registry.directory import ruleset_of_log
from crossline.rule_registry.publish import RuleFolder

from .harness import STREAMS, Harness, rule


def judges(harness: Harness) -> list[tuple[int, str, Slots | None]]:
    """The versions that judge what comes now, by the log."""
    found = ruleset_of_log(harness.folder / ".log/p.jsonl").versions
    return [(each.rule.version, each.kind, each.slots) for each in found if each.endless]


def test_a_share_is_widened_and_taken_back_and_the_log_says_so(tmp_path: Path) -> None:
    harness = Harness(tmp_path, load_streams(STREAMS, "stream.yaml"))
    harness.write("large.yaml", rule(entity="[account]"))
    harness.start()
    harness.write("large.yaml", rule(version=2, entity="[account]", severity="high", share="10%"))
    harness.take_up()
    tenth = Slots(0, 100_000), Slots(100_000, 1_000_000)
    assert judges(harness) == [(1, "active", tenth[1]), (2, "active", tenth[0])]
    folder = RuleFolder(tmp_path)
    assert folder.set_share("large", "50%").rule.share == "50%"
    assert folder.set_share("large", "50%").change == "unchanged"
    harness.now_ms += 1_000
    _, (event,) = harness.take_up()
    assert (event.event, event.version, (event.body or {})["share"]) == ("status_changed", 2, "50%")
    assert judges(harness)[1] == (2, "active", Slots(0, 500_000))
    harness.restart()
    assert judges(harness)[0] == (1, "active", Slots(500_000, 1_000_000))
    folder.set_share("large", "0%")
    harness.now_ms += 1_000
    harness.take_up()
    assert judges(harness) == [(1, "active", None), (2, "active", Slots(0, 0))]
    folder.set_share("large", "100%")
    harness.now_ms += 1_000
    harness.take_up()
    assert judges(harness) == [(2, "active", None)]
    harness.log.close()


def test_what_has_no_key_or_no_file_has_no_share(tmp_path: Path) -> None:
    (tmp_path / "large.yaml").write_text(rule())
    with pytest.raises(RefusedError, match="has no keys to share out"):
        RuleFolder(tmp_path).set_share("large", "10%")
    with pytest.raises(PermanentError, match="found no rule small"):
        RuleFolder(tmp_path).set_share("small", "10%")
    assert (tmp_path / "large.yaml").read_text() == rule()
