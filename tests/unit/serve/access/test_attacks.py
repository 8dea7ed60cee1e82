"""Who has no business here, at a real socket."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crossline.serve.access.keyfile import new_key
from crossline.settings.process.serve import LimitSettings

from .served import SILENT_S, Answer, Served, now_ms, one_answer, served, until_end

PAYMENT = b'{"transaction_id": "t1"}'


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("served"), LimitSettings(body_max=1_000)) as found:
        yield found


def test_a_right_key_decides(api: Served) -> None:
    answer = api.ask("POST", "/v1/decisions/payments", api.keys["shop"], PAYMENT)
    assert (answer.status, answer.json) == (200, {"by": "shop", "path": {"stream": "payments"}})
    assert api.ask("POST", "/v1/decisions/payments:batch", api.keys["shop"], PAYMENT).json["by"] == "shop"


@pytest.mark.parametrize(
    "header",
    [
        None,
        "Authorization:",
        "Authorization: Bearer",
        "Authorization: Bearer ",
        "Authorization: Basic c2hvcDpzaG9w",
        "Authorization: Bearer clk_Pqd6k28gKfCYYkdJZpUXggS54FeXFsTO6FmS6Iyr2I7",
        "Authorization: Bearer clk_",
        "Authorization: Bearer eyJhbGciOiJub25lIn0.eyJzdWIiOiJhZG1pbiJ9.",
        "Authorization: Bearer " + "A" * 9_000,
        "Authorization: Bearer clk_\xff\xfe",
        "Authorization: Bearer ' OR 1=1 --",
        "X-Forwarded-For: 127.0.0.1",
    ],
)
def test_no_access_without_a_credential(api: Served, header: str | None) -> None:
    before = len(api.seen.asked)
    answer = api.ask("GET", "/v1/alerts", None, b"", *([] if header is None else [header]))
    assert answer.status in {401, 429}
    assert answer.headers["content-type"] == "application/problem+json"
    assert len(api.seen.asked) == before


def test_a_key_that_was_cut_or_changed_is_nobodys(api: Served) -> None:
    key = api.keys["viewer"]
    for wrong in (key[:-1], key + "A", key[:-1] + ("A" if key[-1] != "A" else "B"), key.upper(), key.encode().hex()):
        assert api.ask("GET", "/v1/alerts", wrong).status in {401, 429}


def test_health_needs_no_user_and_reveals_nothing(api: Served) -> None:
    answer = api.ask("GET", "/healthz")
    assert (answer.status, answer.json) == (200, {"status": "ok"})
    assert api.ask("HEAD", "/readyz").status == 200
    assert "server" not in answer.headers
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert not any(name.startswith("access-control") for name in answer.headers)


def test_what_is_not_there_looks_as_what_may_not_be_seen(api: Served) -> None:
    asked = [
        ("POST", "/v1/decisions/logins", "shop"),  # a stream of others, or none at all
        ("POST", "/v1/decisions/no-such", "shop"),
        ("GET", "/v1/alerts/a1", "shop"),  # a scope that it has not
        ("GET", "/v1/decisions/logins-1", "shop"),  # another stream's decision: the route says so
        ("GET", "/v1/decisions/payments-2", "shop"),  # no such decision
        ("GET", "/v1/nothing", "shop"),
        ("GET", "/v1/secrets", "viewer"),  # a route that the table does not have
        ("POST", "/v1/rules:approve", "analyst"),
        ("PUT", "/v1/labels/payments/t1", "viewer"),
        ("DELETE", "/v1/alerts/a1", "shop"),  # an address that it may use by no method: see test_methods.py
        ("OPTIONS", "/v1/alerts", "shop"),
    ]
    answers = [api.ask(method, path, api.keys[who]) for method, path, who in asked]
    assert {each.status for each in answers} == {403}
    assert len({each.body for each in answers}) == 1
    assert (
        len({tuple(sorted(each.headers.items() - {("date", each.headers.get("date", ""))})) for each in answers}) == 1
    )
    assert api.ask("GET", "/v1/decisions/payments-1", api.keys["shop"]).json == {"stream": "payments"}
    assert api.ask("GET", "/v1/decisions/logins-1", api.keys["viewer"]).json == {"stream": "logins"}


@pytest.mark.parametrize(
    "path",
    [
        "/v1/decisions/../audit",
        "/v1/decisions/%2e%2e/audit",
        "/v1/decisions/payments/../../audit",
        "/v1/decisions/payments%2f..%2f..%2faudit",
        "/v1/alerts/..%2faudit",
        "/v1/alerts/..",
        "/v1/alerts/%2e%2e",
        "/v1//audit",
        "//v1/audit",
        "/v1/audit/",
        "/v1/audit%00",
        "/v1/alerts/a%00b",
        "/v1/alerts/a%0d%0aX-Evil:1",
        "/v1/alerts/%ff",
        "/v1/Audit",
        "/v1/audit;/v1/alerts",
        "/healthz/../v1/audit",
        "/healthz%2f..%2fv1%2faudit",
        "/healthz/",
        "http://127.0.0.1/v1/audit",
    ],
)
def test_no_way_of_writing_a_path_leads_elsewhere(api: Served, path: str) -> None:
    before = len(api.seen.asked)
    assert api.ask("GET", path, api.keys["viewer"]).status in {400, 403}
    assert api.ask("POST", path, api.keys["shop"], PAYMENT).status in {400, 403}
    assert len(api.seen.asked) == before
    assert api.ask("GET", "/v1/audit", api.keys["root"]).status == 200


@pytest.mark.parametrize("text", ["' OR 1=1 --", "{{7*7}}", "${jndi:ldap:x}", "<script>", "%s%n", "a:batch", "\u0430"])
def test_ids_are_text_and_nothing_else(api: Served, text: str) -> None:
    written = "".join(f"%{byte:02x}" for byte in text.encode())
    answer = api.ask("GET", f"/v1/alerts/{written}", api.keys["viewer"])
    assert answer.json == {"by": "viewer", "path": {"alert_id": text}}
    assert api.ask("POST", f"/v1/decisions/{written}", api.keys["shop"], PAYMENT).status == 403


def test_a_body_is_bounded_by_what_is_stated_and_by_what_comes(api: Served) -> None:
    right, large = b'"' + b"a" * 998 + b'"', b'"' + b"a" * 999 + b'"'
    assert api.ask("POST", "/v1/decisions/payments", api.keys["shop"], right).status == 200
    before = len(api.seen.bodies)
    answer = api.ask("POST", "/v1/decisions/payments", api.keys["shop"], large)
    assert answer.status == 413
    assert "1,001" in answer.json["detail"]
    assert api.ask("POST", "/v1/decisions/payments:batch", api.keys["shop"], large).status == 200
    assert len(api.seen.bodies) == before + 1


def chunked(api: Served, *chunks: bytes, end: bytes = b"0\r\n\r\n", more: bytes = b"") -> bytes:
    head = b"POST /v1/decisions/payments HTTP/1.1\r\nHost: a\r\nConnection: close\r\nAuthorization: Bearer "
    head += api.keys["shop"].encode() + b"\r\nTransfer-Encoding: chunked\r\n" + more + b"\r\n"
    return head + b"".join(b"%x\r\n%s\r\n" % (len(each), each) for each in chunks) + end


def test_a_chunked_body_is_bounded_as_it_comes(api: Served) -> None:
    assert Answer.of(api.raw(chunked(api, b'{"a":', b"1}"))).status == 200
    before = len(api.seen.bodies)
    assert Answer.of(api.raw(chunked(api, *[b" " * 400] * 3))).status == 413
    with api.connected() as client:  # one that never ends is hung up on
        client.sendall(chunked(api, b" " * 400, end=b""))
        try:
            for _ in range(10_000):
                client.sendall(b"400\r\n" + b" " * 0x400 + b"\r\n")
        except (BrokenPipeError, ConnectionResetError):
            pass
        else:
            pytest.fail("it took ten megabytes")
    assert len(api.seen.bodies) == before


def test_what_is_no_json_or_no_utf8_is_the_clients_fault(api: Served) -> None:
    for body in (b"{", b"\xff\xfe", b'{"a": "\xed\xa0\x80"}', b"[" * 900, b"NaN", b'{"a":1e999999}\x00'):
        answer = api.ask("POST", "/v1/decisions/payments", api.keys["shop"], body)
        assert (answer.status, answer.headers["content-type"]) == (422, "application/problem+json")


@pytest.mark.parametrize(
    "lines",
    [
        "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /v1/audit HTTP/1.1\r\n\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n",
        "Content-Length: 4\r\nContent-Length: 5\r\n\r\nabcde",
        "Content-Length: 4, 5\r\n\r\nabcde",
        "Content-Length: -1\r\n\r\n",
        "Content-Length: +4\r\n\r\nabcd",
        "Content-Length: 0x4\r\n\r\nabcd",
        "Content-Length: 99999999999999999999999\r\n\r\nabcd",
        "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
        "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
        "Transfer-Encoding: identity\r\n\r\n0\r\n\r\n",
        "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "Transfer-Encoding:\x0bchunked\r\n\r\n0\r\n\r\n",
        "Transfer-Encoding: chunked\r\n\r\nzz\r\n\r\n",
        "Transfer-Encoding: chunked\r\n\r\n-1\r\n\r\n",
        "X: a\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "X: a\r\n folded: b\r\nContent-Length: 4\r\n\r\nabcd",
        "X\x00: a\r\n\r\n",
        ": a\r\n\r\n",
        "no colon\r\n\r\n",
    ],
)
def test_a_request_that_two_readers_could_divide_differently_is_refused(api: Served, lines: str) -> None:
    before = len(api.seen.asked), len(api.seen.bodies)
    head = f"POST /v1/decisions/payments HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {api.keys['shop']}\r\n{lines}"
    found = api.raw(head.encode("latin-1"))
    assert len(re.findall(rb"HTTP/1\.1 \d", found)) == 1
    assert Answer.of(found).status in {400, 413}
    assert (len(api.seen.asked), len(api.seen.bodies)) == before or "zz" in lines or "-1" in lines


def test_two_credentials_are_one_too_many(api: Served) -> None:
    more = f"Authorization: Bearer {api.keys['root']}"
    assert api.ask("GET", "/v1/alerts", api.keys["viewer"], b"", more).status == 400


def test_a_head_is_bounded(api: Served) -> None:
    key = api.keys["viewer"]
    assert api.ask("GET", "/v1/alerts", key, b"", *[f"X-{number}: a" for number in range(70)]).status == 431
    assert api.ask("GET", "/v1/alerts", key, b"", "X: " + "a" * 20_000).status == 431
    assert api.ask("GET", "/v1/alerts?q=" + "a" * 20_000, key).status == 431
    with api.connected() as client:  # one header that never ends
        client.sendall(b"GET /healthz HTTP/1.1\r\nX: ")
        try:
            for _ in range(1_000):
                client.sendall(b"a" * 1_000)
        except (BrokenPipeError, ConnectionResetError):
            pass
        assert until_end(client)[:12] in {b"HTTP/1.1 431", b""}


@pytest.mark.parametrize(
    "raw",
    [b"\x16\x03\x01\x02\x00\x01\x00", b"GET / HTTP/9.9\r\n\r\n", b"\x00" * 100, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"],
)
def test_what_is_no_http_is_hung_up_on(api: Served, raw: bytes) -> None:
    assert Answer.of(api.raw(raw)).status == 400
    assert api.ask("GET", "/healthz").status == 200


@pytest.mark.parametrize("method", ["CONNECT", "TRACE", "OPTIONS", "PROPFIND", "PURGE"])
def test_other_methods_get_nowhere(api: Served, method: str) -> None:
    before = len(api.seen.asked)
    for path in ("/v1/alerts", "*", "127.0.0.1:22"):
        assert api.ask(method, path, api.keys["viewer"]).status in {400, 403, 405}
    assert len(api.seen.asked) == before


def test_a_fault_says_nothing_of_itself(api: Served) -> None:
    answer = api.ask("GET", "/v1/rules", api.keys["viewer"])
    assert answer.status == 500
    assert b"hunter2" not in answer.body


@settings(max_examples=100)
@given(st.data())
def test_changed_bytes_of_a_request_give_no_access(api: Served, data: st.DataObject) -> None:
    """A request without a key and with a good one for something else, with some of its bytes replaced."""
    key = data.draw(st.sampled_from([new_key(), api.keys["shop"]]))
    asked = bytearray(f"PUT /v1/labels/a/b HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {key}\r\n".encode())
    asked += b"Content-Length: 2\r\nConnection: close\r\n\r\n{}"
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(asked) - 1))
        asked[at : at + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=3))
    before = len(api.seen.asked)
    with api.connected() as client:
        client.sendall(asked)
        client.shutdown(socket.SHUT_WR)
        found = until_end(client)
    assert found == b"" or 400 <= Answer.of(found).status < 500
    assert len(api.seen.asked) == before


def test_a_key_that_ended_ends(api: Served) -> None:
    expired, _ = api.file.create("gone", ["read:alerts"], now_ms=now_ms() - 10_000, expires_ms=now_ms() - 1)
    revoked, made = api.file.create("left", ["read:alerts"], now_ms=now_ms(), expires_ms=None)
    while api.ask("GET", "/v1/alerts", revoked).status != 200:  # a new one is known within a quarter of a second
        pass
    assert api.ask("GET", "/v1/alerts", expired).status in {401, 429}
    api.file.revoke(None, made.key_id, now_ms=now_ms())
    while api.ask("GET", "/v1/alerts", revoked).status == 200:  # and so is its end
        pass
    assert api.ask("GET", "/v1/alerts", api.keys["viewer"]).status == 200


def test_a_stream_ends_with_its_key(api: Served) -> None:
    key, made = api.file.create("listener", ["read:alerts"], now_ms=now_ms(), expires_ms=None)
    while api.ask("GET", "/v1/alerts", key).status != 200:
        pass
    with api.connected() as client:
        client.sendall(f"GET /v1/events HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {key}\r\n\r\n".encode())
        assert client.recv(1 << 16).startswith(b"HTTP/1.1 200")
        api.file.revoke(None, made.key_id, now_ms=now_ms())
        found = b""
        while not found.endswith(b"0\r\n\r\n"):
            found += client.recv(1 << 16)
    assert api.seen.ended.wait(SILENT_S)  # the app has ended it too


def test_guessing_is_slowed_and_disturbs_no_other_user(api: Served) -> None:
    found = [api.ask("GET", "/v1/alerts", new_key()) for _ in range(40)]
    assert found[-1].status == 429
    assert int(found[-1].headers["retry-after"]) >= 1
    assert api.ask("GET", "/v1/alerts", api.keys["viewer"]).status == 200  # of the same address


def test_a_client_that_offers_http2_is_answered_twice_on_one_connection(api: Served) -> None:
    body = PAYMENT
    head = f"POST /v1/decisions/payments HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {api.keys['shop']}\r\n"
    head += "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAEAAEAAAAIAAAABAAMAAABk\r\n"
    asked = f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body
    with api.connected() as client:
        for _ in range(2):
            client.sendall(asked)
            assert one_answer(client).status == 200
