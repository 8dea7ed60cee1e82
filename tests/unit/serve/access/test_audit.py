"""The audit log: what was altered in it is seen, and what a kill leaves is none of that."""

from __future__ import annotations

import asyncio
import errno
import hashlib
import json
import multiprocessing
import os
import stat
import threading
from collections.abc import Callable
from pathlib import Path

import orjson
import pytest

from crossline.basics.errors import RetryableError, StateError
from crossline.serve.access import audit
from crossline.serve.access.audit import AuditLog, verify
from crossline.serve.access.keyfile import new_key
from crossline.serve.access.redaction import HIDDEN, redacted
from crossline.serve.access.roles import Principal
from crossline.serve.http.problems import refusal

ANN = Principal("ann", frozenset({"write:labels"}), "token")
ROUTE = "/v1/labels/{stream}/{record_id}"


def log_in(folder: Path) -> AuditLog:
    ticks = iter(range(1_767_225_600_000, 1_767_225_700_000))
    return AuditLog(folder / "audit", lambda: next(ticks))


@pytest.fixture
def log(tmp_path: Path) -> AuditLog:
    return log_in(tmp_path)


def label(log: AuditLog, record: str, after: object = True) -> None:
    with log.write(ANN, "PUT", ROUTE, f"payments/{record}", before=None) as write:
        write.after = {"is_fraud": after}


def lines(log: AuditLog) -> list[bytes]:
    return log.path.read_bytes().splitlines(keepends=True)


def test_a_write_has_two_lines_chained_by_their_digests(log: AuditLog) -> None:
    label(log, "t1")
    begun, done = (json.loads(line) for line in lines(log))
    assert begun == {
        "principal": "ann",
        "by": "token",
        "method": "PUT",
        "route": ROUTE,
        "resource": "payments/t1",
        "before": None,
        "outcome": "begun",
        "sequence": 1,
        "at_ms": 1_767_225_600_000,
        "previous": "0" * 64,
        "digest": begun["digest"],
    }
    assert (done["begun"], done["outcome"], done["after"]) == (1, "done", {"is_fraud": True})
    assert done["previous"] == begun["digest"]
    # The docs say how: SHA-256 of the JSON with sorted keys and no blanks, without the digest.
    body = {name: value for name, value in begun.items() if name != "digest"}
    text = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    assert begun["digest"] == hashlib.sha256(text.encode()).hexdigest()
    assert stat.S_IMODE(log.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(log.path.parent.stat().st_mode) == 0o700


def test_what_begins_is_on_the_disk_before_anything_is_written(log: AuditLog, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[bytes] = []
    sync = os.fsync

    def fsync(descriptor: int) -> None:
        sync(descriptor)
        synced.append(log.path.read_bytes())

    monkeypatch.setattr(os, "fsync", fsync)
    with log.write(ANN, "PUT", ROUTE, "payments/t1"):
        assert synced[-1].count(b"\n") == 1
    assert synced[-1].count(b"\n") == 2


def test_a_coroutine_writes_as_well_and_its_end_is_reported_also_where_it_is_cancelled(log: AuditLog) -> None:
    async def run() -> None:
        async with log.writing(ANN, "PUT", ROUTE, "payments/t1") as write:
            write.after = 1
        begun = asyncio.Event()

        async def endless() -> None:
            async with log.writing(ANN, "PUT", ROUTE, "payments/t2"):
                begun.set()
                await asyncio.Event().wait()

        task = asyncio.create_task(endless())
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())
    assert [json.loads(line)["outcome"] for line in lines(log)] == ["begun", "done", "begun", "failed"]


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (refusal(409, "another version"), "refused"),
        (refusal(503, "later"), "failed"),
        (OSError("x"), "failed"),
    ],
)
def test_how_a_write_ended_is_reported(log: AuditLog, error: Exception, outcome: str) -> None:
    with pytest.raises(type(error)), log.write(ANN, "PUT", ROUTE, "payments/t1"):
        raise error
    assert json.loads(lines(log)[1])["outcome"] == outcome
    assert verify(log.path).open_writes == ()


def altered(found: list[bytes]) -> list[bytes]:
    return [*found[:2], found[2].replace(b"payments/t2", b"payments/t9"), *found[3:]]


def rewritten(found: list[bytes]) -> list[bytes]:
    """By an attacker who knows how digests are made, and makes this one anew."""
    event = {**orjson.loads(found[2]), "principal": "bob"}
    return [*found[:2], orjson.dumps({**event, "digest": audit.digest_of(event)}) + b"\n", *found[3:]]


TAMPERED: dict[str, tuple[Callable[[list[bytes]], list[bytes]], str]] = {
    "altered": (altered, "line 3: found an event whose digest is another one"),
    "rewritten": (rewritten, "line 4: found an event after"),
    "left out": (lambda found: [*found[:2], *found[3:]], "line 3: found event 4; expected 3"),
    "first left out": (lambda found: found[1:], "line 1: found event 2; expected 1"),
    "twice": (lambda found: [*found[:3], found[2], *found[3:]], "line 4: found event 3; expected 4"),
    "turned round": (lambda found: [*found[:2], found[3], found[2], *found[4:]], "line 3: found event 4; expected 3"),
    "put in": (lambda found: [*found[:2], b'{"principal": "eve"}\n', *found[2:]], "line 3: found"),
    "an empty line": (lambda found: [*found[:2], b"\n", *found[2:]], "line 3: found"),
    "cut short": (lambda found: [*found[:2], found[2][:20] + b"\n", *found[3:]], "line 3: found"),
    "last altered": (lambda found: [*found[:-1], b"{}\n"], "last line that is no event"),
}


@pytest.mark.parametrize("how", TAMPERED)
def test_a_line_that_was_tampered_with_is_found(log: AuditLog, how: str) -> None:
    for number in range(1, 4):
        label(log, f"t{number}")
    assert verify(log.path).problems == ()
    change, found = TAMPERED[how]
    log.path.write_bytes(b"".join(change(lines(log))))
    assert found in verify(log.path).problems[0]


def test_lines_that_were_cut_off_at_the_end_are_missed_by_a_head_that_was_noted(log: AuditLog) -> None:
    label(log, "t1")
    earlier = verify(log.path).head
    label(log, "t2")
    head = verify(log.path).head
    assert verify(log.path, earlier).problems == ()
    log.path.write_bytes(b"".join(lines(log)[:2]))
    assert verify(log.path).problems == ()  # nothing in the file shows them
    assert "lines are missing" in verify(log.path, head).problems[0]


def test_half_a_line_of_a_kill_is_passed_over_and_known(log: AuditLog, tmp_path: Path) -> None:
    label(log, "t1")
    whole = log.path.read_bytes()
    label(log, "t2")
    for cut in (1, 30, 200):
        log.path.write_bytes((whole + lines(log)[2])[: len(whole) + cut])
        assert (verify(log.path).problems, verify(log.path).torn) == ((), cut)
        other = log_in(tmp_path)  # the process that is started next
        label(other, "t3")
        found = verify(log.path)
        assert (found.problems, found.events, found.torn) == ((), 4, 0)
        text = log.path.read_bytes()
        log.path.write_bytes(text.replace(b"\n" + lines(log)[2], b"\n", 1))  # the half line taken out
        assert "line 2: found 0 bytes that are no event" in verify(log.path).problems[0]
        log.path.write_bytes(whole + lines(log)[-1])


def test_a_write_of_which_no_end_is_known_is_named(log: AuditLog) -> None:
    label(log, "t1")
    log.begin(ANN, "PUT", ROUTE, "payments/t2")
    assert verify(log.path).open_writes == (3,)


def test_a_disk_that_takes_nothing_lets_nothing_be_written(log: AuditLog, monkeypatch: pytest.MonkeyPatch) -> None:
    label(log, "t1")
    before = log.path.read_bytes()

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(RetryableError, match="nothing was changed"):
            label(log, "t2")
    assert log.path.read_bytes() == before
    label(log, "t3")
    assert verify(log.path).problems == ()


def test_a_log_that_is_none_is_not_written_to(log: AuditLog) -> None:
    log.path.parent.mkdir()
    log.path.write_bytes(b"something else\n")
    with pytest.raises(StateError, match="expected an event"):
        label(log, "t1")
    with pytest.raises(StateError, match="cannot be read"):
        verify(log.path.with_name("not there"))


def _label_many(folder: str) -> None:
    log = log_in(Path(folder))
    for number in range(20):
        label(log, f"t{number}")


def test_processes_and_threads_write_one_chain(log: AuditLog, tmp_path: Path) -> None:
    process = multiprocessing.get_context("spawn").Process(target=_label_many, args=(str(tmp_path),))
    process.start()
    threads = [threading.Thread(target=lambda: [label(log, "x") for _ in range(20)]) for _ in range(3)]
    for each in threads:
        each.start()
    for each in (*threads, process):
        each.join()
    found = verify(log.path)
    assert (found.events, found.problems, found.open_writes) == (160, (), ())


def test_secrets_do_not_stand_in_it(log: AuditLog) -> None:
    key, token = new_key(), "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhbm4ifQ.c2lnbmF0dXJl"
    after = {
        "note": f"my key is {key}, my token {token}",
        "password": "hunter2",
        "x": {"API_KEY": 7, "key": {"a": "b"}},
    }
    with log.write(ANN, "PUT", ROUTE, "payments/t1", before=["redis://ann:hunter2@host/0"]) as write:
        write.after = after
    text = log.path.read_bytes()
    assert not any(secret.encode() in text for secret in (key, token, "hunter2"))
    event = json.loads(lines(log)[1])
    assert event["after"]["x"] == {"API_KEY": HIDDEN, "key": {"a": "b"}}
    assert json.loads(lines(log)[0])["before"] == [f"redis://{HIDDEN}@host/0"]


def test_what_is_large_or_odd_is_bounded() -> None:
    assert redacted({"a": "x" * 1_000_000}) == {"left_out_bytes": 1_000_008}
    for hostile in ("a", "a://", "-eyJ", "eyJeyJeyJ.", "clk_", "-----BEGIN ", "a@", "://"):
        text = hostile * (100_000 // len(hostile))
        assert redacted(text) is not None  # at once: none of these is looked at from each of its letters
    assert redacted({1: {2, 3}}) == {"1": "{2, 3}"}
    assert redacted("-----BEGIN PRIVATE KEY-----\nabc\n-----END PRIVATE KEY-----\nx") == f"{HIDDEN}\nx"
    assert redacted("\ud800") is not None
