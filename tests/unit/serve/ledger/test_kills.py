"""Processes at one ledger, killed between any two steps: an id has one answer, ever."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from crossline.serve.ledger.reports import check_ledger
from crossline.serve.ledger.sqlite import SqliteLedger

from .ledgerkit import asked, entry

UNIT = Path(__file__).parents[2]


class Process:
    """A process of ``answering``."""

    def __init__(self, path: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "serve.ledger.answering", str(path)],
            cwd=UNIT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(UNIT)},
        )
        self._replica: str | None = None

    @property
    def replica(self) -> str:
        """Its chain, once it has opened the ledger."""
        self._replica = self._replica or self.read_line()["replica"]
        return self._replica

    def read_line(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        return json.loads(line) if line else {}

    def say(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def ask(self, line: str) -> dict[str, Any]:
        self.say(line)
        return self.read_line()

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.end()

    def end(self) -> None:
        with self.process:
            assert self.process.stdin is not None
            self.process.stdin.close()
            self.process.wait()


Start = Callable[[], Process]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


@pytest.fixture
def start(path: Path) -> Iterator[Start]:
    with ExitStack() as stack:

        def starting() -> Process:
            process = Process(path)
            stack.callback(lambda: process.process.poll() is None and process.kill())
            assert process.replica
            return process

        yield starting


def test_killed_between_any_two_steps(start: Start, path: Path) -> None:
    for number, steps in enumerate([[], ["claim"], ["claim", "entered"], ["claim", "answer"]]):
        record_id, other = f"t{number}", start()
        mine = start()
        before = ""
        for step in steps:
            body = mine.ask(f"{step} {record_id} allow")
            if step == "claim":
                assert body["outcome"] == "fresh"
                assert other.ask(f"claim {record_id}")["outcome"] == "pending"
            before = body.get("body", "")
        mine.kill()
        claimed = other.ask(f"claim {record_id}")
        if before:
            assert (claimed["outcome"], claimed["body"]) == ("answered", before)
        else:
            assert (claimed["outcome"], claimed["again"]) == ("fresh", bool(steps))
        kept = other.ask(f"answer {record_id} block")
        assert kept["first"] is not bool(before)
        assert json.loads(kept["body"])["decision"] == ("allow" if before else "block")
        later = start()
        assert later.ask(f"claim {record_id}")["body"] == kept["body"], "over a restart"
        for each in (other, later):
            each.kill()
    checked = check_ledger(path)
    assert checked.faults == []
    assert sum(checked.chains.values()) == 4
    assert checked.counts.to_json()["answered"] == {"peek": 4}


def test_the_chain_goes_on_over_kills(start: Start, path: Path) -> None:
    names = set()
    for number in range(3):
        process = start()
        names.add(process.replica)
        process.ask(f"answer t{number} allow")
        process.say(f"entered u{number} allow")
        process.end()
        assert process.process.returncode == -signal.SIGKILL
    assert len(names) == 1
    checked = check_ledger(path)
    assert (checked.faults, checked.chains) == ([], {names.pop(): 3})


def test_all_race_for_the_same_ids(path: Path) -> None:
    """Four processes want to answer each of 40 ids, each in its own way; they start at once, on a new file."""
    processes = [Process(path) for _ in range(4)]
    assert len({each.replica for each in processes}) == 4
    words = ("allow", "review", "step_up", "block")
    for number in range(40):
        for process, word in zip(processes, words, strict=True):
            process.say(f"answer t{number} {word}")
    read_line = [[process.read_line() for _ in range(40)] for process in processes]
    for answers in zip(*read_line, strict=True):
        assert len({each["body"] for each in answers}) == 1
        assert sum(each["first"] for each in answers) == 1
    for process in processes:
        process.end()
    checked = check_ledger(path)
    assert (checked.faults, sum(checked.chains.values()), len(checked.chains)) == ([], 40, 4)


def test_one_that_is_frozen_does_not_answer_again(start: Start, path: Path) -> None:
    """A process that was stopped for long finds another's answer, and sends that one."""
    frozen = start()
    assert frozen.ask("claim t1")["outcome"] == "fresh"
    frozen.process.send_signal(signal.SIGSTOP)
    quick = SqliteLedger(path, claim_ms_max=0)  # as if its time were up
    try:
        assert quick.claim([asked("t1")])[0].outcome == "fresh"
        (kept,) = quick.answer([entry("t1", decision="block")])
        frozen.process.send_signal(signal.SIGCONT)
        body = frozen.ask("answer t1 allow")
        assert kept is not None
        assert (body["body"], body["first"]) == (kept.body.decode(), False)
    finally:
        quick.close()
