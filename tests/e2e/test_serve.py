"""The decision API as a user has it: beside a pipeline, over a log in a folder, with nothing else installed.

Each start takes some 15 s of a core, so most tests ask one pipeline: each of an account of its own.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import orjson
import psutil
import pytest

from crossline.basics.times import instant_text

from .scraping import Scrape
from .serving import T0, Running, serving, shop
from .traffic import STREAM

pytestmark = pytest.mark.spark

STEP_UP_FROM = 3  # payments of an account, as the rule of the shop says


def payment(number: int, account: str = "a1", amount: int = 20) -> dict[str, Any]:
    at_ms = T0 + number * 1_000
    return {"id": f"{account}-t{number:06d}", "account": account, "amount": amount, "kind": "card", "event_time": at_ms}


@pytest.fixture(scope="module")
def shop_served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """The pipeline that most tests ask; they share a process (tests/conftest.py)."""
    with serving(shop(tmp_path_factory.mktemp("served") / "shop")) as found:
        yield found


@pytest.fixture
def running(shop_served: Running) -> Running:
    """It, once it is ready: whatever a test before did to it."""
    shop_served.ready()
    return shop_served


def decisions_of_the_stream(running: Running, account: str) -> dict[str, str]:
    with closing(sqlite3.connect(running.log.parent / "out" / "alerts.db")) as store:
        rows = store.execute("SELECT body FROM decisions").fetchall()
    lines = [orjson.loads(body) for (body,) in rows]
    return {
        each["record_id"]: each["decision"]
        for each in lines
        if each["kind"] == "decision" and each["record_id"].startswith(f"{account}-")
    }


def counted(before: Scrape, after: Scrape, name: str) -> Mapping[tuple[str, ...], float]:
    """By how much each count of that name has grown, where it has."""
    was = before.values(name)
    grown = {labels: count - was.get(labels, 0) for labels, count in after.values(name).items()}
    return {labels: count for labels, count in grown.items() if count}


def test_an_alert_becomes_a_case_that_is_worked_on(running: Running) -> None:
    for number in range(STEP_UP_FROM):
        running.decide(payment(number, "worked"))
    (case,) = running.until(
        lambda: [
            each for each in running.get("/v1/cases?view=unassigned&key.account=worked")["items"] if each["decision"]
        ],
        "the alert is in a case, with its decision",
    )
    number = case["number"]
    assert (number[:2], case["alert_count"], case["decision"]["gravest"]) == ("C-", 1, "step_up")
    assert case["rules"] == [{"rule_id": "burst", "version": 1, "count": 1}]
    body = {"act": "resolve", "label": "good", "reason": "a loyal customer"}
    done = running.client.post(f"/v1/cases/{number}:act", json=body, headers={"If-Match": "*"})
    assert (done.status_code, done.json()["status"]) == (200, "resolved")
    assert running.get(f"/v1/labels/{STREAM}/worked-t000002")["is_fraud"] is False


def test_payments_are_answered_as_the_stream_decides_them(running: Running) -> None:
    before = running.scrape()
    asked = [payment(number) for number in range(6)]
    peeked = [running.decide(each) for each in asked[:5]]
    exact = running.decide(asked[5], mode="exact")
    lines = [each["decision"] for each in (*peeked, exact)]
    assert lines == ["allow"] * (STEP_UP_FROM - 1) + ["step_up"] * 4
    assert [each["answered"] for each in (*peeked, exact)] == ["peek"] * 5 + ["exact"]
    # The third payment crosses the line; from then on the rule holds, and names the alert of the crossing.
    reasons = [each["reasons"][0] for each in (*peeked[2:], exact)]
    assert [each["standing"] for each in reasons] == [False, True, True, True]
    assert len({each["alert_id"] for each in reasons}) == 1
    assert [each["rule_id"] for each in reasons] == ["burst"] * 4

    again = running.client.post(f"/v1/decisions/{STREAM}", json=asked[0])
    assert (again.json(), again.headers["idempotency-replayed"]) == (peeked[0], "true")
    assert running.client.post(f"/v1/decisions/{STREAM}", json={**asked[0], "amount": 21}).status_code == 409
    unfit = running.client.post(f"/v1/decisions/{STREAM}", json={**asked[0], "amount": "much", "kind": 5})
    assert (unfit.status_code, [each["pointer"] for each in unfit.json()["errors"]]) == (422, ["/amount", "/kind"])
    assert running.client.post("/v1/decisions/refunds", json=asked[0]).status_code in {403, 404}
    put = running.client.put(f"/v1/decisions/{STREAM}", json=asked[0])
    assert (put.status_code, put.headers["allow"]) == (405, "GET, HEAD, POST")
    dry = running.decide(payment(9), dry_run="true")
    assert (dry["decision"], dry["answered"], dry["receipt"]) == ("step_up", "peek", None), str(dry)

    body = running.scrape()
    assert counted(before, body, "crossline_api_decisions_total") == {
        ("peek", "allow", STREAM): 2,
        ("peek", "step_up", STREAM): 3,
        ("exact", "step_up", STREAM): 1,
    }
    requests = counted(before, body, "crossline_api_requests_total")
    hot = {key[2]: count for key, count in requests.items() if "{stream}" in key[1]}
    assert (hot["200"], hot["409"], hot["422"]) == (8, 1, 1)  # six, one again, a dry run
    assert body.values("crossline_api_ready")[()] == 1

    settled = running.until(
        lambda: len(found := decisions_of_the_stream(running, "a1")) == 4 and found, "the stream decided otherwise"
    )
    assert settled == {f"a1-t{number:06d}": "step_up" for number in range(2, 6)}
    entity = running.get("/v1/entities/account/a1")
    (figure,) = entity["figures"]
    assert (entity["figures_as_of"], entity["missing"]) == ("replica", [])
    assert [figure[name] for name in ("rule_id", "name", "value", "threshold")] == ["burst", "count", 6, STEP_UP_FROM]
    assert figure["as_of"] == figure["window_end"] == instant_text(T0 + 5_000)
    assert [each["value"] for each in running.get("/v1/entities/account/nobody")["figures"]] == [0]
    one = running.get(f"/v1/decisions/{peeked[3]['decision_id']}")
    assert (one["decision"], one["revisions"]) == ("step_up", [])
    receipt = running.get(f"/v1/decisions/{peeked[3]['decision_id']}/receipt")
    assert (receipt["digest"], receipt["decision"]["decision"]) == (peeked[3]["receipt"], "step_up")


def test_a_batch_is_answered_in_its_order(running: Running) -> None:
    records = [payment(number, "a2") for number in range(4)]
    reply = running.client.post(f"/v1/decisions/{STREAM}:batch", json={"records": [*records, {"id": "t9"}]})
    body = reply.json()
    assert [each["decision"] for each in body[:4]] == ["allow", "allow", "step_up", "step_up"]
    assert body[4]["status"] == 422


def test_an_api_that_is_killed_answers_the_same_again(running: Running) -> None:
    before = [running.decide(payment(number, "killed")) for number in range(3)]
    for server in running.servers():
        server.kill()

    def again() -> Any:
        return running.client.get("/readyz").status_code == 200

    running.until(again, "the API did not come back")
    assert [running.decide(payment(number, "killed")) for number in range(3)] == before
    assert running.decide(payment(3, "killed"))["decision"] == "step_up"


@pytest.fixture
def without_replicas(running: Running) -> Iterator[Running]:
    """The server without a replica that could answer `peek` in time."""
    frozen = running.replicas()
    assert frozen
    for each in frozen:
        each.suspend()
    yield running
    for each in frozen:
        with suppress(psutil.NoSuchProcess):  # a process that does not answer may have been replaced
            each.resume()


def test_past_the_deadline_the_policy_answers_and_the_stream_revises(without_replicas: Running) -> None:
    running = without_replicas
    before = running.scrape()
    listens = threading.Event()
    with ThreadPoolExecutor(1) as beside:
        hearing = beside.submit(revisions_of, running, None, 3, listens)
        assert listens.wait(60)
        lines = [running.decide(payment(number, "late", 600), timeout_ms="300") for number in range(3)]
        assert {(each["decision"], each["answered"]) for each in lines} == {("review", "fallback")}
        assert all(each["degraded"] for each in lines)

        def revised() -> Any:
            found = [running.get(f"/v1/decisions/{each['decision_id']}")["revisions"] for each in lines]
            return all(found) and found

        revisions = running.until(revised, "the stream revised nothing")
        assert [each[-1]["decision"] for each in revisions] == ["allow", "allow", "step_up"]
        body = hearing.result(60)
    # A listener gets each, and again all after the first.
    assert {(event["record_id"], event["was"], event["decision"]) for _, event in body} == {
        ("late-t000000", "review", "allow"),
        ("late-t000001", "review", "allow"),
        ("late-t000002", "review", "step_up"),
    }
    assert {(event["kind"], event["answered"]) for _, event in body} == {("revision", "fallback")}
    # Ids also contain the position in the alerts, which may be farther the second time.
    assert [event for _, event in revisions_of(running, body[0][0], 2)] == [event for _, event in body[1:]]
    assert counted(before, running.scrape(), "crossline_api_revised_total") == {("fallback", STREAM): 3}


def revisions_of(
    running: Running, after: str | None, count: int, listens: threading.Event | None = None
) -> list[tuple[str, Any]]:
    """``count`` revisions with their ids, from an event stream; ``listens`` is set once the stream began."""
    found: list[tuple[str, Any]] = []
    name = ""
    headers = {} if after is None else {"Last-Event-ID": after}
    asked: dict[str, Any] = {"params": {"kinds": "revision"}, "headers": headers}
    with running.client.stream("GET", "/v1/events", **asked) as reply:
        if listens is not None:
            listens.set()
        for line in reply.iter_lines():
            if line.startswith("id: "):
                name = line.removeprefix("id: ")
            elif line.startswith("data: "):
                found.append((name, orjson.loads(line.removeprefix("data: "))))
                if len(found) == count:
                    return found
    raise AssertionError(found)


def test_what_was_answered_while_no_pipeline_ran_is_revised_and_a_restart_of_all_loses_nothing(tmp_path: Path) -> None:
    """Both of one pipeline: the API before any ran, then two runs of it."""
    pipeline = shop(tmp_path)
    with serving(pipeline, "serve", str(pipeline)) as alone:
        lines = [alone.decide(payment(number, amount=600), timeout_ms="3000") for number in range(3)]
        assert {(each["decision"], each["answered"]) for each in lines} == {("review", "fallback")}
    with serving(pipeline) as running:

        def revised() -> Any:
            found = [running.get(f"/v1/decisions/{each['decision_id']}")["revisions"] for each in lines]
            return all(found) and found

        revisions = running.until(revised, "the stream revised nothing")
        assert [each[-1]["decision"] for each in revisions] == ["allow", "allow", "step_up"]
        running.ready()
        before = [running.decide(payment(number, "a2")) for number in range(2)]
    with serving(pipeline) as running:
        running.ready()
        assert [running.decide(payment(number, "a2")) for number in range(2)] == before
        assert running.decide(payment(2, "a2"))["decision"] == "step_up"
        assert running.decide(payment(2, "a3", 700), timeout_ms="20000", dry_run="true")["decision"] == "allow"
