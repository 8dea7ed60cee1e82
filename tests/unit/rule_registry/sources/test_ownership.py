"""Review of files in a folder: who owns a file is who asks, or who approves."""

from __future__ import annotations

from pathlib import Path

import pytest

from crossline.basics.errors import PermanentError
from crossline.basics.streams.schema import load_streams
from crossline.rule_registry.content import FileContent
from crossline.rule_registry.directory import DirectoryRuleLog
from crossline.rule_registry.events import RuleEvent
from crossline.rule_registry.rule_files import folder_of_rules, read_rules
from crossline.rule_registry.sources.folder import Folder
from crossline.rule_registry.sources.ownership import (
    APPROVALS,
    STATEMENTS,
    OwnedFolder,
    Statement,
    me,
    origins_in,
    owner_of,
    state,
    user_name,
)
from crossline.rule_registry.sources.review import approval_text
from rule_registry.harness import STREAMS, rule


class Team:
    """People with files in one folder, and a pipeline on it; owners are played, since only root gives files away."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.owners: dict[Path, str] = {}
        (folder / APPROVALS).mkdir(parents=True)
        (folder / STATEMENTS).mkdir()
        self.log = self._log()
        self.log.start(1_000)

    def _log(self) -> DirectoryRuleLog:
        asked = OwnedFolder(folder_of_rules(self.folder), self.owners.get, speaker="server")
        streams = load_streams(STREAMS, "stream.yaml")
        return DirectoryRuleLog(self.folder, "p", streams, publications=asked, review=True)

    def write(self, who: str, name: str, text: str) -> None:
        path = self.folder / name
        partial = path.with_name(".new")
        partial.write_text(text)
        partial.replace(path)
        self.owners[path] = who

    def approve(self, who: str, name: str) -> None:
        (each,) = read_rules(self.folder / name)
        self.write(who, f"{APPROVALS}/{each.rule_id}.{each.version}.{who}.json", approval_text(each).decode())

    def state(self, owner: str, name: str, text: str, who: str, author: str | None = None) -> None:
        """``owner`` says that he writes ``text`` in the name of ``who``."""
        found = Statement(name, FileContent(text.encode()).digest, who, author)
        self.write(owner, f"{STATEMENTS}/{found.file}", found.to_bytes().decode())

    def approve_for(self, owner: str, name: str, who: str) -> None:
        """``owner`` says that ``who`` approves."""
        (each,) = read_rules(self.folder / name)
        path = f"{APPROVALS}/{each.rule_id}.{each.version}.{owner}-{len(who)}.json"
        self.write(owner, path, approval_text(each, None, who).decode())

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


def test_a_server_publishes_and_approves_in_the_names_of_people(team: Team) -> None:
    team.state("server", "large.yaml", rule(), "ann")
    team.write("server", "large.yaml", rule())
    assert [(each.event, each.who) for each in team.look()] == [("waiting", "ann")]
    team.approve_for("server", "large.yaml", "ann")
    assert [each.event for each in team.look()] == ["refused"], "ann published it"
    team.approve_for("server", "large.yaml", "robert")
    assert [(each.event, each.who, each.approved_by) for each in team.look()] == [("published", "ann", "robert")]


def test_names_stated_by_others_are_not_trusted(team: Team) -> None:
    team.state("mallory", "large.yaml", rule(), "ann")
    team.write("mallory", "large.yaml", rule())
    assert [(each.event, each.who) for each in team.look()] == [("waiting", "mallory")], "her file is hers"
    team.approve_for("mallory", "large.yaml", "robert")
    (refused,) = team.look()
    assert (refused.event, "an approval in the name of 'robert'" in str(refused.text)) == ("refused", True)
    team.state("server", "large.yaml", rule(), "ann")
    assert [(each.event, each.who) for each in team.look()] == [], "nor does a statement of the server make it ann's"
    team.approve("mallory", "large.yaml")
    assert [each.event for each in team.look()] == ["refused"]


def test_a_file_that_is_changed_by_hand_is_no_longer_of_whom_it_was_written_for(team: Team) -> None:
    team.state("server", "large.yaml", rule(), "ann")
    team.write("server", "large.yaml", rule())
    team.look()
    team.approve_for("server", "large.yaml", "robert")
    team.write("server", "large.yaml", rule(amount=1))
    events = team.look()
    assert [(each.event, each.who) for each in events] == [("refused", "robert"), ("waiting", "server")]
    assert "another body" in str(events[0].text)
    team.write("server", "large.yaml", rule())
    assert [(each.event, each.who) for each in team.look()] == [("published", "ann")], "put back, it is approved of"


def test_who_another_one_wrote_a_version_for_stays_its_author(team: Team) -> None:
    shadow = rule(status="shadow")
    team.state("server", "large.yaml", rule(), "ann")
    team.write("server", "large.yaml", rule())
    team.state("server", "large.yaml", shadow, "robert", "ann")
    team.write("server", "large.yaml", shadow)
    assert [(each.event, each.who) for each in team.look()] == [("waiting", "robert")]
    for who in ("ann", "robert"):
        team.approve_for("server", "large.yaml", who)
        assert "refused" in {each.event for each in team.look()}
    team.approve_for("server", "large.yaml", "c" * 9)
    assert [each.event for each in team.look()] == ["published"]


def test_a_statement_lies_there_before_the_file_and_that_of_what_stands_there_stays(tmp_path: Path) -> None:
    old, new = FileContent(rule().encode()), FileContent(rule(amount=1).encode())
    path = tmp_path / "large.yaml"
    state(tmp_path, Statement("large.yaml", old.digest, "ann"), None)
    path.write_bytes(old.data)
    state(tmp_path, Statement("large.yaml", new.digest, "robert"), old)
    folder = Folder(tmp_path, (".yaml",), 1_000)
    assert origins_in(folder)["large.yaml"].who == "ann"
    path.write_bytes(new.data)
    assert origins_in(Folder(tmp_path, (".yaml",), 1_000))["large.yaml"].who == "robert"
    state(tmp_path, Statement("large.yaml", new.digest, "carl"), new)
    assert len(list((tmp_path / STATEMENTS).iterdir())) == 1, "that of bytes that are gone goes"
    path.write_bytes(b"- by hand")
    assert origins_in(Folder(tmp_path, (".yaml",), 1_000))["large.yaml"].who == me()
    with pytest.raises(PermanentError, match="LEFT-TO-RIGHT MARK"):
        state(tmp_path, Statement("large.yaml", new.digest, "ann\u200e"), new)


def test_no_statement_is_made_where_others_could_take_it_away(tmp_path: Path) -> None:
    found = Statement("large.yaml", FileContent(b"x").digest, "ann")
    (tmp_path / STATEMENTS).mkdir()
    for mode in (0o775, 0o757, 0o777):
        (tmp_path / STATEMENTS).chmod(mode)
        with pytest.raises(PermanentError, match=f"with mode {mode:o}; expected a folder into which"):
            state(tmp_path, found, None)
    (tmp_path / STATEMENTS).chmod(0o755)
    state(tmp_path, found, None)
    assert [each.name for each in (tmp_path / STATEMENTS).iterdir()] == [found.file]
