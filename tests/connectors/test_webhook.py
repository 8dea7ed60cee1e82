"""A webhook that accepts, rejects, is busy, hangs or is unreachable: what is posted, in which order, what is parked."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from crossline.basics.errors import PermanentError, SinkError, UsageError
from crossline.io.sinks.base import Delivery, build_sink
from crossline.io.webhook import sink as module
from crossline.io.webhook.signing import TOLERANCE_S, is_signed, signature
from crossline.io.webhook.sink import WebhookSink

from .makers import alert
from .receiving import KEY, TRICKLE, Receiver

WAIT_S = 120.0


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    assert made.unsigned == []
    made.close()


@pytest.fixture
def make(receiver: Receiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., WebhookSink]]:
    monkeypatch.setenv("CROSSLINE_TEST_KEY", KEY)
    monkeypatch.setattr(module, "PAUSE_MS", 1)
    made: list[WebhookSink] = []

    def sink(**settings: Any) -> WebhookSink:
        where = {"url": f"http://127.0.0.1:{receiver.port}/hook", "parked": str(tmp_path / "parked.jsonl")}
        found = build_sink(
            {"kind": "webhook", "password_env": "CROSSLINE_TEST_KEY", "timeout": "2m", **where, **settings}, "p"
        )
        assert isinstance(found, WebhookSink)
        made.append(found)
        found.open()
        return found

    yield sink
    for each in made:
        each.close()


def of(account: str, *names: str) -> list[dict[str, Any]]:
    return [alert(name, key={"account_id": account}) for name in names]


def parked(folder: Path) -> list[tuple[str, str, int]]:
    path = folder / "parked.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return [(line["message"]["alert_id"], line["why"], line["attempts"]) for line in lines]


def test_those_of_an_entity_come_in_order_and_signed(make: Callable[..., WebhookSink], receiver: Receiver) -> None:
    sink = make(parallel=3)
    names = [[f"{account}-{n}" for n in range(20)] for account in "abcde"]
    alerts = [each for row in zip(*names, strict=True) for name in row for each in of(name[0], name)]
    sink.deliver(Delivery("p", 0, alerts=alerts))
    for row in names:
        assert [name for name in receiver.taken if name[3] == row[0][0]] == [f"id-{name}" for name in row]
    assert receiver.got[0]["delivered_at"].endswith("Z")
    sink.deliver(Delivery("p", 0, alerts=alerts))
    assert len(receiver.taken) == 100, "what was taken of a batch is not posted again"
    sink.deliver(Delivery("p", 1, alerts=of("a", "new")))
    assert receiver.taken[100:] == ["id-new"]


def test_one_that_is_refused_is_tried_again_before_those_behind_it(
    make: Callable[..., WebhookSink], receiver: Receiver, tmp_path: Path
) -> None:
    receiver.answer = lambda body, times: 500 if body["record_id"] == "b" and times < 4 else 200
    make().deliver(Delivery("p", 0, alerts=of("a1", "a", "b", "c")))
    assert receiver.taken == ["id-a", "id-b", "id-c"]
    assert [body["record_id"] for body in receiver.got] == ["a", "b", "b", "b", "b", "c"]
    assert parked(tmp_path) == []


@pytest.mark.parametrize(("status", "attempts"), [(500, 3), (404, 3), (302, 3), (400, 1), (413, 1), (422, 1)])
def test_one_that_is_never_taken_is_parked_once(
    make: Callable[..., WebhookSink], receiver: Receiver, tmp_path: Path, status: int, attempts: int
) -> None:
    receiver.answer = lambda body, _times: status if body["record_id"] == "b" else 200
    receiver.headers = {"Location": f"http://127.0.0.1:{receiver.port}/elsewhere"}
    batch = Delivery("p", 0, alerts=[*of("a1", "a", "b", "c"), *of("a2", "d")])
    sink = make(attempts=3)
    with capture_logs() as logs:
        sink.deliver(batch)
    assert sorted(receiver.taken) == ["id-a", "id-c", "id-d"]
    assert parked(tmp_path) == [("id-b", f"{status} said", attempts)]
    assert [each["name"] for each in logs if each["event"] == "a message is parked"] == ["id-b"]
    sink.close()
    with capture_logs():
        make(attempts=3).deliver(batch)  # as after a kill
    assert len(parked(tmp_path)) == 1


def test_an_address_that_is_busy_holds_the_batch(
    make: Callable[..., WebhookSink], receiver: Receiver, tmp_path: Path
) -> None:
    busy = {429: True}
    receiver.answer = lambda body, _times: 429 if busy[429] and body["record_id"] == "b" else 200
    receiver.headers = {"Retry-After": "7"}
    batch, sink = Delivery("p", 0, alerts=[*of("a1", "a", "b", "c"), *of("a2", "d")]), make(attempts=1)
    for _ in range(3):
        with pytest.raises(SinkError, match="busy: 429 said") as raised:
            sink.deliver(batch)
        assert raised.value.retry_after_ms == 7_000
    busy[429] = False
    sink.deliver(batch)
    assert sorted(receiver.taken) == ["id-a", "id-b", "id-c", "id-d"]
    assert receiver.taken.index("id-b") < receiver.taken.index("id-c")
    assert parked(tmp_path) == []


def test_an_address_that_is_away_holds_the_batch(make: Callable[..., WebhookSink], receiver: Receiver) -> None:
    sink = make(attempts=1, url="http://127.0.0.1:1/hook?token=t")
    with pytest.raises(SinkError, match=r"http://127.0.0.1:1/hook cannot be reached") as raised:
        sink.deliver(Delivery("p", 0, alerts=of("a1", "a")))
    assert "token" not in str(raised.value)
    assert receiver.taken == []


@pytest.mark.parametrize("how", [None, TRICKLE], ids=["hangs up", "sends a byte now and then"])
def test_one_that_makes_the_address_fall_silent_is_parked_and_blocks_no_other(
    make: Callable[..., WebhookSink], receiver: Receiver, tmp_path: Path, how: int | None
) -> None:
    receiver.answer = lambda body, _times: how if body["record_id"] == "b" else 200
    sink = make(attempts=2, timeout="2s", parallel=1)
    with capture_logs():
        sink.deliver(Delivery("p", 0, alerts=[*of("a1", "a", "b", "c"), *of("a2", "d")]))
    assert sorted(receiver.taken) == ["id-a", "id-c", "id-d"]
    ((name, why, attempts),) = parked(tmp_path)
    assert (name, attempts) == ("id-b", 2)
    assert why.startswith("it hung up: " if how is None else "no answer in 2000 ms")
    with capture_logs():
        sink.deliver(Delivery("p", 1, alerts=of("a1", "e")))
    assert receiver.taken[-1] == "id-e"


def test_an_address_that_hangs_up_on_everything_is_away(
    make: Callable[..., WebhookSink], receiver: Receiver, tmp_path: Path
) -> None:
    receiver.answer = lambda _body, _times: None
    receiver.away.set()
    sink, batch = make(attempts=1), Delivery("p", 0, alerts=of("a1", "a", "b"))
    for _ in range(3):
        with pytest.raises(SinkError, match="does not answer: it hung up"):
            sink.deliver(batch)
    assert parked(tmp_path) == []
    receiver.answer = lambda _body, _times: 200
    sink.deliver(batch)
    assert receiver.taken == ["id-a", "id-b"]


def test_a_connection_that_was_closed_between_two_messages_is_made_anew(
    make: Callable[..., WebhookSink], receiver: Receiver, tmp_path: Path
) -> None:
    """The server ends each connection behind an answer, and does not say so before."""
    receiver.headers = {"Connection": "keep-alive"}
    receiver.hang_up_after = True
    sink = make(attempts=1)
    for number in range(20):
        sink.deliver(Delivery("p", number, alerts=of("a1", f"n{number}")))
    assert len(receiver.taken) == 20
    assert parked(tmp_path) == []


def test_a_stop_does_not_wait_for_an_answer_that_never_ends(
    make: Callable[..., WebhookSink], receiver: Receiver, tmp_path: Path
) -> None:
    asked, stop, sink = threading.Event(), threading.Event(), make(timeout="1h")

    def trickle(_body: dict[str, Any], _times: int) -> int:
        asked.set()
        return TRICKLE

    receiver.answer = trickle
    sink.use_cancel_token(stop)
    raised: list[BaseException] = []

    def deliver() -> None:
        try:
            sink.deliver(Delivery("p", 0, alerts=of("a1", "a")))
        except SinkError as error:
            raised.append(error)

    thread = threading.Thread(target=deliver, daemon=True)
    thread.start()
    assert asked.wait(WAIT_S)
    stop.set()
    thread.join(WAIT_S)
    assert not thread.is_alive()
    assert "stopped before id-a was accepted" in str(raised[0])
    assert parked(tmp_path) == []


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        ({"Content-Encoding": "gzip", "Content-Length": "4"}, b"said"),
        ({"Content-Length": "400"}, b"cut off"),
        ({"Transfer-Encoding": "chunked"}, b"no chunk"),
        ({}, b"x" * 2_000_000),
    ],
)
@pytest.mark.parametrize("status", [200, 500])
def test_the_status_counts_whatever_follows(
    make: Callable[..., WebhookSink],
    receiver: Receiver,
    tmp_path: Path,
    headers: dict[str, str],
    body: bytes,
    status: int,
) -> None:
    receiver.answer = lambda alert, _times: status if alert["record_id"] == "b" else 200
    receiver.raw = (headers, body)
    with capture_logs():
        make(attempts=2).deliver(Delivery("p", 0, alerts=of("a1", "a", "b", "c")))
    assert [each["record_id"] for each in receiver.got] == (["a", "b", "c"] if status == 200 else ["a", "b", "b", "c"])
    assert [name for name, _, _ in parked(tmp_path)] == ([] if status == 200 else ["id-b"])
    assert all(why.startswith("500") and len(why) <= 304 for _, why, _ in parked(tmp_path))


@pytest.mark.parametrize("asked", ["9" * 30, "9" * 5_000, "3601"])
def test_no_address_asks_for_longer_than_an_hour(
    make: Callable[..., WebhookSink], receiver: Receiver, asked: str
) -> None:
    receiver.answer = lambda _body, _times: 503
    receiver.headers = {"Retry-After": asked}
    with pytest.raises(SinkError, match="busy: 503") as raised:
        make().deliver(Delivery("p", 0, alerts=of("a1", "a")))
    assert raised.value.retry_after_ms == 3_600_000


def test_a_stop_is_not_waited_for(
    make: Callable[..., WebhookSink], receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PAUSE_MS", 10_000_000)
    monkeypatch.setattr(module, "PAUSE_MS_MAX", 10_000_000)
    stop, sink = threading.Event(), make()
    sink.use_cancel_token(stop)

    def refuse(_body: dict[str, Any], _times: int) -> int:
        stop.set()
        return 500

    receiver.answer = refuse
    with pytest.raises(SinkError, match="stopped before id-a was accepted: 500 said"):
        sink.deliver(Delivery("p", 0, alerts=of("a1", "a", "b")))


def test_decisions_are_posted_where_asked_to(make: Callable[..., WebhookSink], receiver: Receiver) -> None:
    decided = {"decision_id": "d1", "stream": "payments", "record_id": "t1", "decision": "block"}
    make().deliver(Delivery("p", 0, decisions=[decided]))
    assert receiver.got == []
    make(decisions=True).deliver(Delivery("p", 0, decisions=[decided]))
    assert receiver.got == [decided]
    assert receiver.taken == ["d1"]


def test_shadow_alerts_and_feeders_stay_at_home(make: Callable[..., WebhookSink], receiver: Receiver) -> None:
    make().deliver(Delivery("p", 0, alerts=[alert("a", kind="shadow"), alert("b", emit_to_sink=False), alert("c")]))
    assert receiver.taken == ["id-c"]


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        (
            {"url": "http://hooks.example/x"},
            "found http:// to hooks.example; expected https://, for alerts name people",
        ),
        (
            {"url": "https://user:word@hooks.example/x"},
            "found an address with a user in it; expected an address without",
        ),
        ({"url": "hooks.example"}, "expected an address, https://HOST/…"),
        ({"url": "https://[::1"}, "expected an address, https://HOST/…"),
        ({"password_env": None}, "expected password_env or password_file: the key that signs"),
        ({"password_file": "f"}, "found both password_env and password_file"),
    ],
)
def test_what_is_wrong_with_an_address_is_reported(settings: dict[str, Any], text: str) -> None:
    whole = {"kind": "webhook", "url": "https://h/x", "parked": "p.jsonl", "password_env": "K", **settings}
    with pytest.raises(UsageError) as raised:
        build_sink({name: value for name, value in whole.items() if value is not None}, "p")
    assert text in str(raised.value)
    assert "word" not in str(raised.value).replace("password", "")


def test_without_its_key_it_does_not_begin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key = tmp_path / "key"
    key.write_text("\n")
    settings = {"kind": "webhook", "url": "https://h/x", "parked": str(tmp_path / "p"), "password_file": str(key)}
    with pytest.raises(PermanentError, match="the key that signs messages is empty"):
        build_sink(settings, "p").open()
    monkeypatch.delenv("CROSSLINE_TEST_KEY", raising=False)
    with pytest.raises(PermanentError, match="CROSSLINE_TEST_KEY, which password_env names, is not set"):
        build_sink({**settings, "password_file": None, "password_env": "CROSSLINE_TEST_KEY"}, "p").open()


def test_a_signature_is_of_this_key_body_and_instant() -> None:
    key, body, at_s = b"k", b'{"a":1}', 1_767_225_600
    # Worked out with another program: printf '1767225600.{"a":1}' | openssl dgst -sha256 -hmac k
    signed = signature(key, body, at_s)
    assert signed == f"t={at_s},v1=6ae64a4b295c0172152e96208272092ca0f841124a6b70b4a384d70a318b0276"
    assert is_signed(key, body, signed, at_s)
    assert is_signed(key, body, signed, at_s + TOLERANCE_S)
    for other in (
        (b"K", body, signed, at_s),
        (key, b'{"a":2}', signed, at_s),
        (key, body, signed, at_s + TOLERANCE_S + 1),
        (key, body, signed, at_s - TOLERANCE_S - 1),
        (key, body, signed.replace(str(at_s), str(at_s + 1)), at_s),
        *(
            (key, body, bad, at_s)
            for bad in ("", "t=,v1=", "t=x,v1=y", f"t={at_s}", "v1=" + signed[-64:], "t=²,v1=", "é")
        ),
    ):
        assert not is_signed(*other)
