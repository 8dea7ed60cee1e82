"""The file of labels and cases: many who write it, kills, removal, files of something else."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from crossline.basics.errors import RetryableError, StateError
from crossline.serve.cases.cases import Cases
from crossline.serve.cases.values import CaseChange, CaseFilter, ChangedError, LinkedAlert, NotTakenError

START = 1_767_225_600_000


@pytest.fixture
def cases(tmp_path: Path) -> Iterator[Cases]:
    made = made_at(tmp_path)
    yield made
    made.close()


def made_at(folder: Path) -> Cases:
    ticks, ids = count(START), count(1)
    return Cases(folder / "serve" / "cases.db", clock_ms=lambda: next(ticks), make_id=lambda: f"case-{next(ids)}")


def test_one_of_many_who_change_the_same_version_wins(tmp_path: Path) -> None:
    """Threads of one process, and another process's connection to the same file."""
    here, there = made_at(tmp_path), made_at(tmp_path)
    here.create_case("One", who="ada")
    won, lost, begin = list[str](), list[str](), threading.Barrier(8)

    def run(number: int) -> None:
        begin.wait()
        for version in range(1, 6):
            try:
                (here if number % 2 else there).change_case(
                    "case-1", version, CaseChange(title=f"{number}"), f"w{number}"
                )
                won.append(f"{version}")
            except (ChangedError, NotTakenError):
                lost.append(f"{version}")

    threads = [threading.Thread(target=run, args=(number,)) for number in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    case = there.case("case-1")
    assert case.version == len(won) + 1
    assert len(set(won)) == len(won)
    assert [each.version for each in here.events("case-1")] == list(range(1, case.version + 1))
    here.close()
    there.close()


def test_what_was_stated_cannot_be_changed_or_removed(cases: Cases, tmp_path: Path) -> None:
    cases.put_label("p", "t1", True, who="ada")
    cases.create_case("One", who="ada")
    with sqlite3.connect(tmp_path / "serve/cases.db") as connection:
        for statement in (
            "UPDATE labels SET is_fraud = 0",
            "DELETE FROM labels",
            "DELETE FROM case_events",
            "UPDATE case_events SET who = 'eve'",
        ):
            with pytest.raises(sqlite3.IntegrityError, match="are only added"):
                connection.execute(statement)
    connection.close()


def test_a_file_that_was_removed_takes_nothing(cases: Cases, tmp_path: Path) -> None:
    path, away = tmp_path / "serve/cases.db", tmp_path / "away.db"
    cases.put_label("p", "t1", True, who="ada", key="k")
    path.rename(away)
    with pytest.raises(RetryableError, match="was deleted or replaced while the API writes to it"):
        cases.put_label("p", "t1", False, who="ada")
    away.rename(path)
    assert len(cases.label_history("p", "t1")) == 1
    assert cases.put_label("p", "t1", False, who="ada").version == 2


CHILD = """
import sys
from pathlib import Path
from crossline.serve.cases.cases import Cases
from crossline.serve.cases.values import CaseChange, LinkedAlert, CaseVerdict
cases = Cases(Path(sys.argv[1]))
for number in range(100_000):
    alerts = [LinkedAlert(f"a{number}", "p", f"t{number}")]
    case = cases.create_case(f"{number}", alerts, who="ada", key=f"c{number}")
    change = CaseChange(state="resolved", verdict=CaseVerdict(True))
    cases.change_case(case.case_id, 1, change, "ada", key=f"r{number}")
    print(number, flush=True)
"""


def test_a_kill_leaves_each_call_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "cases.db"
    with subprocess.Popen([sys.executable, "-c", CHILD, str(path)], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        for line in child.stdout:
            if int(line) >= 20:
                break
        child.send_signal(signal.SIGKILL)
        shown = max([int(line), *map(int, child.stdout.read().split())])
    store = Cases(path)
    resolved = 0
    for number in range(shown + 2):
        found = store.cases(CaseFilter(alert_id=f"a{number}")).items
        assert len(found) == 1 or number > shown
        for case in found:
            label, kinds = store.label("p", f"t{number}"), [each.kind for each in store.events(case.case_id)]
            assert (case.state, case.version, label is not None, kinds) in (
                ("open", 1, False, ["created"]),
                ("resolved", 2, True, ["created", "changed"]),
            )
            resolved += case.state == "resolved"
            again = store.create_case(
                f"{number}", [LinkedAlert(f"a{number}", "p", f"t{number}")], who="ada", key=f"c{number}"
            )
            assert again.case_id == case.case_id, "the key was kept with the case"
    assert resolved >= shown + 1
    store.close()


def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text("no database, and long enough to be none" * 100)
    with pytest.raises(StateError, match="found no file of labels and cases that can be read"):
        Cases(tmp_path / "text.db")
    with sqlite3.connect(tmp_path / "other.db") as connection:
        connection.execute("CREATE TABLE alerts (x)")
    connection.close()
    with pytest.raises(StateError, match="found another SQLite file"):
        Cases(tmp_path / "other.db")
    Cases(tmp_path / "newer.db").close()
    with sqlite3.connect(tmp_path / "newer.db") as connection:
        connection.execute("PRAGMA user_version = 9")
    connection.close()
    with pytest.raises(StateError, match="found version 9"):
        Cases(tmp_path / "newer.db")
