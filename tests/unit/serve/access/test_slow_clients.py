"""Clients that send or read too slowly, limits of one key, and an API that is open on this machine."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from crossline.serve.access import protocol
from crossline.settings.process.serve import LimitSettings

from .served import SILENT_S, Answer, Served, one_answer, served, until_end

PAYMENT = b'{"transaction_id": "t1"}'


@pytest.fixture
def impatient(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    """A server whose patience is short, so that a test need not wait as long as a client may."""
    monkeypatch.setattr(protocol, "_WATCH_S", 0.02)
    monkeypatch.setattr(protocol, "HEAD_S", 0.8)
    monkeypatch.setattr(protocol, "SILENT_S", 0.8)
    monkeypatch.setattr(protocol, "BODY_S", 0.8)
    with served(tmp_path) as found:
        yield found


def head(api: Served, length: int, path: str = "/v1/decisions/payments") -> bytes:
    lines = [
        f"POST {path} HTTP/1.1",
        "Host: a",
        f"Authorization: Bearer {api.keys['shop']}",
        f"Content-Length: {length}",
    ]
    return "\r\n".join([*lines, "", ""]).encode()


def drip(client: socket.socket, parts: Iterator[bytes]) -> Answer:
    """Send a part now and then, until the server has enough of it."""
    client.settimeout(0.05)
    for part in parts:
        try:
            client.sendall(part)
            found = client.recv(1 << 16)
        except TimeoutError:
            continue
        except (BrokenPipeError, ConnectionResetError):
            break
        client.settimeout(SILENT_S)
        return Answer.of(found + until_end(client))
    raise AssertionError("it was never hung up on, or without a word")


def test_a_head_that_drips_is_hung_up_on(impatient: Served) -> None:
    for start in (b"GET /healthz HTTP/1.1\r\nX: ", b"", b"\r\n"):
        with impatient.connected() as client:
            client.sendall(start or b"G")
            drops = (b"\r\n" if start == b"\r\n" else b"a" for _ in range(1_000))
            assert drip(client, drops).status in {400, 408}


def test_a_silent_connection_is_closed_without_a_response(impatient: Served) -> None:
    """A client would take bytes sent before its first request for the answer to that request."""
    with impatient.connected() as client:
        assert until_end(client) == b""


def test_a_second_request_that_drips_is_hung_up_on_too(impatient: Served) -> None:
    with impatient.connected() as client:
        client.sendall(head(impatient, len(PAYMENT)) + PAYMENT)
        assert one_answer(client).status == 200
        client.sendall(b"GET /hea")
        assert drip(client, (b"a" for _ in range(1_000))).status == 408
    with impatient.connected() as client:  # and where it came in one piece with the first
        client.sendall(head(impatient, len(PAYMENT)) + PAYMENT + b"GET /hea")
        assert until_end(client).count(b"HTTP/1.1 ") == 2


def test_a_body_that_drips_is_hung_up_on(impatient: Served) -> None:
    before = len(impatient.seen.bodies)
    with impatient.connected() as client:
        client.sendall(head(impatient, 900))
        assert drip(client, (b"a" for _ in range(800))).status == 408
    assert len(impatient.seen.bodies) == before


def test_an_unread_body_is_dropped_but_not_for_ever(impatient: Served) -> None:
    with impatient.connected() as client:  # it gets the reason while it still sends; then the connection goes on
        client.sendall(head(impatient, 200_000) + b"a" * 200_000)
        assert one_answer(client).status == 413
        client.sendall(head(impatient, len(PAYMENT)) + PAYMENT)
        assert one_answer(client).status == 200
    with impatient.connected() as client:
        client.sendall(head(impatient, 1 << 40))
        with pytest.raises((BrokenPipeError, ConnectionResetError)):
            client.sendall(b"a" * 100_000_000)


def test_an_idle_connection_is_kept(impatient: Served) -> None:
    with impatient.connected() as client, impatient.connected() as other:
        client.sendall(head(impatient, len(PAYMENT)) + PAYMENT)
        assert one_answer(client).status == 200
        until_end(other)  # so long that a silent connection was closed
        client.sendall(head(impatient, len(PAYMENT)) + PAYMENT)
        assert one_answer(client).status == 200


def test_many_slow_clients_delay_no_other(impatient: Served) -> None:
    slow = [impatient.connected() for _ in range(200)]
    try:
        for each in slow:
            each.sendall(b"POST /v1/decisions/payments HTTP/1.1\r\nX: ")
        assert impatient.ask("POST", "/v1/decisions/payments", impatient.keys["shop"], PAYMENT).status == 200
        assert all(Answer.of(until_end(each)).status == 408 for each in slow)
    finally:
        for each in slow:
            each.close()


def test_keys_that_cannot_be_read_are_503_and_say_nothing_of_the_machine(tmp_path: Path) -> None:
    with served(tmp_path) as api:
        api.file.path.chmod(0o644)
        answer = api.ask("GET", "/v1/alerts", api.keys["viewer"])
        assert (answer.status, answer.headers["retry-after"]) == (503, "1")
        assert b"keys.db" not in answer.body
        assert b"0644" not in answer.body
        assert api.ask("GET", "/healthz").status == 200
        api.file.path.chmod(0o600)
        while api.ask("GET", "/v1/alerts", api.keys["viewer"]).status == 503:
            pass
        assert api.ask("GET", "/v1/alerts", api.keys["viewer"]).status == 200


def test_last_use_is_written_when_the_server_ends(tmp_path: Path) -> None:
    with served(tmp_path) as api:
        assert api.ask("GET", "/v1/alerts", api.keys["viewer"]).status == 200
    used = {each.name: each.used_ms for each in api.file.listed()}
    assert used.pop("viewer") is not None
    assert set(used.values()) == {None}


def test_a_key_has_its_limit_and_others_have_theirs(tmp_path: Path) -> None:
    with served(tmp_path, LimitSettings(per_s=1, burst=3)) as api:
        found = [api.ask("GET", "/v1/alerts", api.keys["viewer"]) for _ in range(30)]
        assert [each.status for each in found[:3]] == [200] * 3
        refused = [each for each in found if each.status == 429]
        assert refused
        assert {each.headers["retry-after"] for each in refused} == {"1"}
        assert refused[0].json["title"] == "Too Many Requests"
        assert api.ask("GET", "/v1/alerts", api.keys["analyst"]).status == 200
        assert api.ask("GET", "/healthz").status == 200


def test_an_open_api_answers_this_machine_and_no_page_in_its_browser(tmp_path: Path) -> None:
    with served(tmp_path, open_=True) as api:
        assert api.ask("POST", "/v1/decisions/payments", None, PAYMENT).json["by"] == "anybody"
        for host in ("localhost", "LOCALHOST:8080", "127.0.0.2:1", "[::1]:8080", "[::1]"):
            raw = f"GET /v1/alerts HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
            assert Answer.of(api.raw(raw.encode())).status == 200
        assert api.ask("POST", "/v1/rules:approve").status == 403
        assert api.ask("GET", "/v1/audit").status == 403
        for more in (
            "Origin: https://evil.example",
            "Origin: null",
            "Sec-Fetch-Site: cross-site",
            "Host: evil.example:8080",  # a name that its owner lets point here
            "Host: 127.0.0.1.evil.example",
            "Host: [::1].evil.example@[2001:db8::1]",
            "Host: localhost.",
            "Host:",
        ):
            assert api.ask("POST", "/v1/decisions/payments", None, PAYMENT, more).status == 403
