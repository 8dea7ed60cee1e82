"""Commands that change a folder of rules: one at a time, only over what they read, each file whole."""

import fcntl
import multiprocessing
import os
import threading
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import pytest

from crossline.basics.errors import PermanentError, RetryableError, UsageError
from crossline.rule_registry import publish
from crossline.rule_registry.atomic_files import held, replace_file
from crossline.rule_registry.content import FileContent
from crossline.rule_registry.publish import RuleFolder
from crossline.rules.base import Status
from crossline.rules.rule_reader import load_rules_text

from .harness import Harness, rule

ROUNDS = 15
WAIT_S = 300.0
SPAWN = multiprocessing.get_context("spawn")


def statuses_of(path: Path) -> dict[str, tuple[int, Status]]:
    loaded = load_rules_text(path.read_text(encoding="utf-8"), path.name)
    return {item.rule.rule_id: (item.rule.version, item.rule.status) for item in loaded}


def toggles(folder: str, rule_id: str, together: Barrier, body: Any) -> None:
    for number in range(ROUNDS):
        together.wait(WAIT_S)
        written = RuleFolder(Path(folder)).set_status(rule_id, "active" if number % 2 else "paused")
        body.put((rule_id, written.change))


def test_two_processes_set_statuses_in_one_file(tmp_path: Path) -> None:
    (tmp_path / "r.yaml").write_text(rule("a") + rule("b"), encoding="utf-8")
    together, body = SPAWN.Barrier(2), SPAWN.Queue()
    both = [SPAWN.Process(target=toggles, args=(str(tmp_path), each, together, body)) for each in ("a", "b")]
    for each in both:
        each.start()
    changes = [body.get(timeout=WAIT_S) for _ in range(2 * ROUNDS)]
    for each in both:
        each.join(WAIT_S)
    assert [each.exitcode for each in both] == [0, 0]
    # A change that was lost is no change when it is asked for the other way round.
    assert sorted(changes) == [("a", "published")] * ROUNDS + [("b", "published")] * ROUNDS
    assert statuses_of(tmp_path / "r.yaml") == {"a": (1, "paused"), "b": (1, "paused")}
    assert sorted(each.name for each in tmp_path.iterdir()) == [".log", "r.yaml"]


def publishes(folder: str, file: str, together: Barrier, body: Any) -> None:
    for number in range(ROUNDS):
        text = rule("a", version=number + 2) + rule("b", status="paused" if number % 2 else "active")
        Path(file).write_text(text, encoding="utf-8")
        together.wait(WAIT_S)
        body.put(("a", RuleFolder(Path(folder)).publish(Path(file)).rules[0].rule.version))


def test_a_process_publishes_while_another_sets_a_status(tmp_path: Path) -> None:
    """Each published file says of b what the last change made of it, so no order of the two undoes a publication."""
    folder = tmp_path / "rules"
    folder.mkdir()
    (folder / "r.yaml").write_text(rule("a") + rule("b"), encoding="utf-8")
    together, reported = SPAWN.Barrier(2), SPAWN.Queue()
    both = [
        SPAWN.Process(target=publishes, args=(str(folder), str(tmp_path / "r.yaml"), together, reported)),
        SPAWN.Process(target=toggles, args=(str(folder), "b", together, reported)),
    ]
    for each in both:
        each.start()
    for each in both:
        each.join(WAIT_S)
    assert [each.exitcode for each in both] == [0, 0]
    assert statuses_of(folder / "r.yaml")["a"] == (ROUNDS + 1, "active")


def test_what_a_person_wrote_meanwhile_is_not_replaced(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    harness.write("r.yaml", rule("a"))
    edited = rule("a") + "# a remark of a person\n"

    def edits(*arguments: Any) -> str:
        harness.write("r.yaml", edited)
        return with_status(*arguments)

    with_status = publish.with_status
    monkeypatch.setattr(publish, "with_status", edits)
    with pytest.raises(RetryableError, match=r"r\.yaml was changed by someone else at this moment; nothing is written"):
        RuleFolder(harness.folder).set_status("a", "paused")
    assert (harness.folder / "r.yaml").read_text(encoding="utf-8") == edited


def test_a_command_waits_for_the_other_and_says_for_which(tmp_path: Path) -> None:
    with held(tmp_path):
        with (tmp_path / ".log" / "lock").open("rb") as other, pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        text = r"another crossline rules command has held .*\.log/lock"
        with pytest.raises(RetryableError, match=text), held(tmp_path, wait_s=0):
            pass
    done = threading.Event()

    def waits() -> None:
        with held(tmp_path):
            done.set()

    with held(tmp_path):
        waiting = threading.Thread(target=waits)
        waiting.start()
        assert not done.is_set()
    waiting.join(WAIT_S)
    assert done.is_set()


def test_what_a_killed_command_left_is_taken_away(tmp_path: Path) -> None:
    (tmp_path / ".crossline-aside-1-ab").write_bytes(b"half")
    with held(tmp_path):
        pass
    assert [each.name for each in tmp_path.iterdir()] == [".log"]


def test_a_link_stays_a_link_and_a_mode_a_mode(tmp_path: Path) -> None:
    real = tmp_path / "real.yaml"
    real.write_bytes(b"old")
    real.chmod(0o640)
    link = tmp_path / "r.yaml"
    link.symlink_to("real.yaml")
    replace_file(link, b"new", FileContent(b"old"))
    assert link.is_symlink()
    assert (real.read_bytes(), real.stat().st_mode & 0o777) == (b"new", 0o640)


def test_only_files_are_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "r.yaml")
    with pytest.raises(PermanentError, match=r"r\.yaml is not replaced: found a named pipe; expected a file"):
        replace_file(tmp_path / "r.yaml", b"x", None)
    (tmp_path / "s.yaml").write_bytes(b"there")
    with pytest.raises(RetryableError, match="was changed by someone else"):
        replace_file(tmp_path / "s.yaml", b"x", None)
    (tmp_path / "loop.yaml").symlink_to("loop.yaml")
    with pytest.raises(PermanentError, match=r"loop\.yaml is not replaced: found Too many levels of symbolic links"):
        replace_file(tmp_path / "loop.yaml", b"x", None)
    with pytest.raises(UsageError, match=r"loop\.yaml cannot be read: Too many levels"):
        RuleFolder(tmp_path).publish(tmp_path / "loop.yaml")
    (tmp_path / "loop.yaml").unlink()
    with pytest.raises(PermanentError, match=r"t\.yaml cannot be written: No such file or directory"):
        replace_file(tmp_path / "none" / "t.yaml", b"x", None)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["r.yaml", "s.yaml"]


@pytest.mark.parametrize("rule_id", [".x", "..", "-x", "con", ".x.yaml", "x"])
def test_a_rule_that_gets_a_file_gets_one_that_is_read(harness: Harness, rule_id: str) -> None:
    harness.write("r.yaml", rule(f"'{rule_id}'"))
    harness.start()
    (harness.folder / "r.yaml").unlink()
    for name in ("x.yaml", "rule.x.yaml"):
        harness.write(name, "")
    history = harness.log._history
    written = RuleFolder(harness.folder, [history]).set_status(rule_id, "paused")
    assert written.change == "status_changed"
    assert (harness.folder / "x.yaml").read_text(encoding="utf-8") == ""
    _, events = harness.take_up()
    assert [(e.event, e.rule_id, e.status) for e in events] == [("status_changed", rule_id, "paused")]
