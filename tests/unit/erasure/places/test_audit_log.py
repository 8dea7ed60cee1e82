"""The audit log: values of the person go, its chain holds, and it goes on."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from crossline.erasure.places.audit_log import audit_place
from crossline.erasure.subject import Key, Subject
from crossline.serve.access.audit import AuditLog, verify
from crossline.serve.access.auditfiles import FILE, FOLDER
from crossline.serve.access.roles import Principal
from unit.erasure.traces import SALT, files_with

ANN = Principal("ann", frozenset({"write:labels"}), "token")
PERSON, RECORD = "acct-jo@example", "p00003"


def log_in(folder: Path, rotate_bytes: int = 1 << 20) -> AuditLog:
    ticks = iter(range(1_767_225_600_000, 1_767_225_700_000))
    return AuditLog(folder / FOLDER, lambda: next(ticks), rotate_bytes)


def write(log: AuditLog, resource: str, after: object) -> None:
    with log.write(ANN, "PUT", "/v1/x", resource) as made:
        made.after = after


def subject() -> Subject:
    return Subject((Key("account_id", PERSON),), SALT, {"payments": {RECORD}})


def test_values_go_and_the_chain_holds(tmp_path: Path) -> None:
    log = log_in(tmp_path, 1_500)
    for number in range(8):
        write(log, f"payments/p{number:05}", {"is_fraud": True})
        write(log, "holds", {"key": {"account_id": PERSON if number % 2 else "other"}, "reason": f"{PERSON} again"})
    assert len(list((tmp_path / FOLDER).iterdir())) > 2
    path = tmp_path / FOLDER / FILE
    head = verify(path).head
    place, mine = audit_place(tmp_path), subject()
    found = place.find(mine)
    assert place.erase(mine).changed == found.changed == 8 + 1  # an end has the reason; a beginning the record
    assert not place.find(mine).found
    assert not files_with(tmp_path, PERSON, RECORD)
    done = verify(path, head)
    assert (done.problems, done.head, done.events, done.erased) == ((), head, 32, 9)
    assert "other" in path.read_text() + "".join(each.read_text() for each in path.parent.iterdir())
    write(log, "payments/p9", None)
    write(log_in(tmp_path), "payments/p10", None)  # another process
    assert (verify(path).problems, verify(path).events) == ((), 36)
    again = Subject((Key("account_id", "other"),), b"another secret of 16")
    assert place.erase(again).changed == 4
    assert verify(path, head).problems == ()


@pytest.mark.parametrize("of", ["content", "mark"])
def test_what_is_altered_afterwards_is_found(tmp_path: Path, of: str) -> None:
    write(log_in(tmp_path), f"payments/{RECORD}", {"is_fraud": True})
    audit_place(tmp_path).erase(subject())
    path = tmp_path / FOLDER / FILE
    first, second = (json.loads(each) for each in path.read_text().splitlines())
    assert "erased" in first
    if of == "content":
        first["principal"] = "bob"
    else:
        first["erased"] = "0" * 64
    path.write_text("".join(json.dumps(each) + "\n" for each in (first, second)))
    assert "it was altered" in verify(path).problems[0]


def test_half_a_line_of_a_kill_keeps_its_length_alone(tmp_path: Path) -> None:
    path = tmp_path / FOLDER / FILE
    write(log_in(tmp_path), "payments/p1", None)
    half = b'{"principal":"ann","after":{"account_id":"acct-jo\\u0040example'
    with path.open("ab") as file:
        file.write(half)
    log = log_in(tmp_path)
    write(log, "payments/p2", None)
    with path.open("ab") as file:
        file.write(half)
    place, mine = audit_place(tmp_path), subject()
    assert place.erase(mine).changed == 2
    assert b"account_id" not in path.read_bytes()
    done = verify(path)
    assert (done.problems, done.events, done.torn) == ((), 4, len(half))
    write(log_in(tmp_path), "payments/p3", None)
    assert verify(path).problems == ()


def test_an_event_that_a_command_writes_meanwhile_is_not_lost(tmp_path: Path) -> None:
    log = log_in(tmp_path)
    write(log, f"payments/{RECORD}", None)
    writers: list[threading.Thread] = []
    waits = threading.Event()

    def beside() -> None:
        waits.set()
        write(log_in(tmp_path), "payments/p9", None)

    def begin(_: Path) -> None:
        writers.append(threading.Thread(target=beside))
        writers[-1].start()
        assert waits.wait(10)

    place = audit_place(tmp_path)
    place.after = begin  # the new file is there, and still held
    assert place.erase(subject()).changed == 1
    writers[0].join(10)
    done = verify(tmp_path / FOLDER / FILE)
    assert (done.problems, done.events, done.erased) == ((), 4, 1)
