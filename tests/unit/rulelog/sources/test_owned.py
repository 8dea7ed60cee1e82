"""Review of files in a folder: who owns a file is who asks, or who approves."""

from __future__ import annotations

from pathlib import Path

import pytest

from crossline.core.streams.schema import load_streams
from crossline.rulelog.directory import DirectoryRuleLog
from crossline.rulelog.events import RuleEvent
from crossline.rulelog.reading import folder_of_rules, read_rules
from crossline.rulelog.sources.owned import APPROVALS, OwnedFolder, owner_of, user_name
from crossline.rulelog.sources.review import approval_text
from rulelog.desk import STREAMS, rule


class Team:
    """People with files in one folder, and a pipeline on it; owners are played, since only root gives files away."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.owners: dict[Path, str] = {}
        (folder / APPROVALS).mkdir(parents=True)
        self.log = self._log()
        self.log.start(1_000)

    def _log(self) -> DirectoryRuleLog:
        asked = OwnedFolder(folder_of_rules(self.folder), self.owners.get)
        streams = load_streams(STREAMS, "stream.yaml")
        return DirectoryRuleLog(self.folder, "p", streams, publications=asked, review=True)

    def write(self, who: str, name: str, text: str) -> None:
        path = self.folder / name
        aside = path.with_name(".aside")
        aside.write_text(text)
        aside.replace(path)
        self.owners[path] = who

    def approve(self, who: str, name: str) -> None:
        (each,) = read_rules(self.folder / name)
        self.write(who, f"{APPROVALS}/{each.rule_id}.{each.version}.{who}.json", approval_text(each).decode())

    def look(self) -> list[RuleEvent]:
        changes = self.log.poll()
        return [] if changes is None else self.log.take_up(changes, {}, 1_000)[1]

    def restart(self) -> None:
        self.log.close()
        self.log = self._log()
        self.log.start(1_000)


@pytest.fixture
def team(tmp_path: Path) -> Team:
    return Team(tmp_path / "rules")


def test_a_file_waits_for_the_approval_of_another_user(team: Team) -> None:
    team.write("alice", "large.yaml", rule())
    assert [(each.event, each.who) for each in team.look()] == [("waiting", "alice")]
    team.approve("alice", "large.yaml")
    (refused,) = team.look()
    assert (refused.event, refused.source) == ("refused", "approval/large/1/alice")
    team.approve("bob", "large.yaml")
    assert [(each.event, each.who, each.approved_by) for each in team.look()] == [("published", "alice", "bob")]
    team.write("alice", "large.yaml", rule(version=2))
    assert [(each.event, each.version) for each in team.look()] == [("waiting", 2)], "the first one is not gone"
    team.restart()
    assert team.look() == []
    team.approve("bob", "large.yaml")
    assert [(each.event, each.version) for each in team.look()] == [("published", 2)]


def test_an_approval_that_cannot_be_read_is_refused(team: Team) -> None:
    team.write("bob", f"{APPROVALS}/x.json", "yes")
    assert [(each.event, each.source, each.who) for each in team.look()] == [("refused", "approval/x.json", "bob")]


def test_the_owner_of_a_file_is_its_user(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("")
    assert owner_of(tmp_path / "a") == user_name((tmp_path / "a").stat().st_uid)
    assert owner_of(tmp_path / "b") is None


@pytest.mark.parametrize("who", ["alice\ufe0f", "\u0430lice"])
def test_a_user_whose_name_looks_like_another_one_s_is_refused(team: Team, who: str) -> None:
    team.write("alice", "large.yaml", rule())
    assert [each.event for each in team.look()] == ["waiting"]
    team.approve(who, "large.yaml")
    (approval,) = team.look()
    team.write(who, "other.yaml", rule("other"))
    (file,) = team.look()
    for event in (approval, file):
        assert event.event == "refused"
        assert f"U+{ord(who[0 if who[0] != 'a' else -1]):04X}" in str(event.text)
