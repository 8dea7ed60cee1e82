"""Decisions against a real server that speaks the contract."""

from __future__ import annotations

import asyncio
import json
import logging
import pickle
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from starlette.responses import JSONResponse, RedirectResponse, Response

from crossline.client import (
    ApiError,
    AsOf,
    AsyncClient,
    Client,
    ConflictError,
    CredentialError,
    Decision,
    Figure,
    ForbiddenError,
    InvalidError,
    NotFoundError,
    RateLimitedError,
    Reason,
    TooLargeError,
)

from .fake import KEY, Fake, decision, problem, serving

RECORD = {"transaction_id": "t0000007", "account_id": "a1", "amount_cents": 1200, "event_time": 1767225607120}
TIMEOUT_S = 20.0  # what is not about time has enough of it


@pytest.fixture(scope="module")
def server() -> Iterator[Fake]:
    with serving(Fake()) as fake:
        yield fake


@pytest.fixture
def fake(server: Fake) -> Fake:
    for each in (server.asked, server.bodies, server.script, server.known):
        each.clear()
    return server


@pytest.fixture
def client(fake: Fake) -> Iterator[Client]:
    with Client(fake.url, key=KEY, timeout=TIMEOUT_S) as made:
        yield made


def test_the_example_of_the_contract(client: Client, fake: Fake) -> None:
    found = client.decide("payments", RECORD, mode="peek")
    at = datetime(2026, 1, 1, tzinfo=UTC)
    assert found.body == decision(RECORD)
    assert (found.decision, found.score, found.answered, found.degraded) == ("step_up", 55, "peek", ())
    message = "10 payments by account a1 in 60 s"
    assert found.reasons == (Reason("card_burst", 3, "step_up", 55, "x1", message=message),)
    assert found.figures == {"card_burst": Figure(10, ">=", 10, at, at.replace(minute=1))}
    assert found.as_of == AsOf(812, 40, 3)
    assert (found.receipt, found.replayed, found.decision_id) == ("r1", False, "d-t0000007")
    assert found.decided_at == datetime(2026, 1, 1, 0, 1, 0, 250_000, tzinfo=UTC)
    (asked,) = fake.asked
    assert asked.method == "POST"
    assert asked.query_params["mode"] == "peek"
    assert asked.headers["content-type"] == "application/json"
    assert json.loads(fake.bodies[0]) == RECORD


def test_the_server_is_reported_what_is_left_without_a_margin(client: Client, fake: Fake) -> None:
    client.decide("payments", RECORD, timeout=10)
    sent_ms = int(fake.asked[0].query_params["timeout_ms"])
    assert 5 <= sent_ms <= 9_000


@pytest.mark.parametrize(("timeout_s", "sent_ms"), [(3_600.0, "30000"), (40.0, "30000")])
def test_the_server_is_reported_no_more_than_it_takes(
    client: Client, fake: Fake, timeout_s: float, sent_ms: str
) -> None:
    client.decide("payments", RECORD, timeout=timeout_s)
    assert fake.asked[0].query_params["timeout_ms"] == sent_ms


def test_a_record_that_was_answered_before_says_so(client: Client) -> None:
    assert [client.decide("payments", RECORD).replayed for _ in range(2)] == [False, True]


def test_json_as_bytes_goes_as_it_is(client: Client, fake: Fake) -> None:
    raw = b'{"transaction_id":"t1",  "amount_cents":1e2}'
    client.decide("payments", raw)
    assert fake.bodies == [raw]


REFUSALS: list[tuple[int, type[ApiError]]] = [
    (400, ApiError),
    (401, CredentialError),
    (403, ForbiddenError),
    (404, NotFoundError),
    (409, ConflictError),
    (413, TooLargeError),
    (422, InvalidError),
    (429, RateLimitedError),
]


@pytest.mark.parametrize(("status", "kind"), REFUSALS)
def test_a_refusal_is_raised_with_the_problem_s_texts(
    client: Client, fake: Fake, status: int, kind: type[ApiError]
) -> None:
    error = {"pointer": "/amount_cents", "found": "'12'", "expected": "a whole number", "hint": "no quotes"}
    fake.script += [lambda _: problem(status, "Refused", "why it was", [error], **{"Retry-After": "7"})]
    with pytest.raises(ApiError) as caught:
        client.decide("payments", RECORD)
    found = caught.value
    assert type(found) is kind
    assert (found.status, found.title, found.detail, found.retry_after_s) == (status, "Refused", "why it was", 7.0)
    assert str(found) == f"{status} Refused: why it was\n/amount_cents: found '12'; expected a whole number (no quotes)"
    assert len(fake.asked) == 1


def test_a_refusal_that_is_no_problem_is_shown_cut(client: Client, fake: Fake) -> None:
    fake.script += [lambda _: Response("<h1>no</h1>" * 1_000, 404, media_type="text/html")]
    with pytest.raises(NotFoundError, match="<h1>no</h1>") as caught:
        client.decide("payments", RECORD)
    assert len(str(caught.value)) < 600


@pytest.mark.parametrize("status", [408, 425, 500, 502, 503, 504])
def test_a_503_is_asked_again_with_the_same_record(client: Client, fake: Fake, status: int) -> None:
    fake.script += [lambda _: problem(status, "Unavailable", "no disk")] * 3
    assert client.decide("payments", RECORD).answered == "peek"
    assert len(fake.asked) == 4
    assert len(set(fake.bodies)) == 1


def test_no_json_is_asked_again(client: Client, fake: Fake) -> None:
    fake.script += [lambda _: Response(b"{", 200), lambda _: Response(b"[" * 100_000, 200)]
    assert client.decide("payments", RECORD).answered == "peek"
    assert len(fake.asked) == 3


BAD: list[Any] = [[], 3, None, "allow", {}, {"decision": "allow"}, {"decision": "allow", "answered": "guessed"}]
BAD += [{"decision": 1, "answered": "peek"}, {"decision": "allow", "answered": "peek", "reasons": [{}]}]
BAD += [{"decision": "allow", "answered": "peek", "figures": [1]}, {"decision": "a", "answered": "peek", "as_of": 1}]
BAD += [{"decision": "allow", "answered": "peek", "decided_at": "yesterday"}]


@pytest.mark.parametrize("body", BAD, ids=str)
def test_json_that_is_no_decision_is_answered_by_the_fallback(client: Client, fake: Fake, body: Any) -> None:
    fake.script += [lambda _: JSONResponse(body)]
    found = client.decide("payments", RECORD)
    assert (found.answered, found.decision) == ("unreachable", "review")
    assert [each.part for each in found.degraded] == ["client"]
    assert "no decision" in found.degraded[0].why


def test_a_redirect_is_not_followed(client: Client, fake: Fake) -> None:
    with serving(Fake()) as other:
        fake.script += [lambda _: RedirectResponse(f"{other.url}/v1/decisions/payments")]
        found = client.decide("payments", RECORD)
        assert (found.answered, other.asked) == ("unreachable", [])
    assert "redirects" in found.degraded[0].why


def test_many_in_their_order_with_what_is_refused(client: Client, fake: Fake) -> None:
    records = [{**RECORD, "transaction_id": f"t{number}"} for number in range(1_001)]
    del records[600]["amount_cents"]
    found = client.decide_many("payments", records)
    assert [len(json.loads(body)["records"]) for body in fake.bodies] == [500, 500, 1]
    assert isinstance(found[600], InvalidError)
    assert "expected a whole number" in str(found[600])
    ids = [each.record_id for each in found if isinstance(each, Decision)]
    assert ids == [record["transaction_id"] for record in records if "amount_cents" in record]


def test_of_many_answers_are_kept_where_later_ones_are_refused(client: Client, fake: Fake) -> None:
    fake.script += [
        lambda _: JSONResponse([decision(RECORD)] * 500),
        lambda _: problem(429, "Too Many Requests", "later"),
        lambda _: JSONResponse([decision(RECORD)]),
    ]
    found = client.decide_many("payments", [RECORD] * 1_001)
    assert [type(each).__name__ for each in found[499:501] + found[999:]] == [
        *("Decision", "RateLimitedError", "RateLimitedError", "Decision")
    ]
    fake.script += [lambda _: problem(429, "Too Many Requests", "later")]
    with pytest.raises(RateLimitedError):
        client.decide_many("payments", [RECORD])


UNKEPT = {"title": "Service Unavailable", "status": 503, "detail": "the record could not be kept"}


def test_of_many_those_that_could_not_be_kept_are_asked_again(client: Client, fake: Fake) -> None:
    fake.script += [
        lambda _: JSONResponse([UNKEPT, decision({**RECORD, "transaction_id": "t1"}), {**UNKEPT, "status": 500}]),
        lambda _: JSONResponse([decision({**RECORD, "transaction_id": "t0"}), UNKEPT]),
    ]
    found = client.decide_many("payments", [{**RECORD, "transaction_id": f"t{number}"} for number in range(3)])
    assert [each.record_id for each in found if isinstance(each, Decision)] == ["t0", "t1", "t2"]
    asked = [[each["transaction_id"] for each in json.loads(body)["records"]] for body in fake.bodies]
    assert asked == [["t0", "t1", "t2"], ["t0", "t2"], ["t2"]]


def test_of_many_those_that_are_not_kept_in_time_are_answered_by_the_fallback(client: Client, fake: Fake) -> None:
    kept = decision({**RECORD, "transaction_id": "t1"})
    fake.script += [lambda _: JSONResponse([UNKEPT, kept]), *[lambda _: JSONResponse([UNKEPT])] * 10_000]
    found = client.decide_many("payments", [RECORD, {**RECORD, "transaction_id": "t1"}], timeout=0.5)
    assert [(each.answered, each.decision) for each in found if isinstance(each, Decision)] == [
        ("unreachable", "review"),
        ("peek", "step_up"),
    ]


def test_a_refusal_can_be_handed_to_another_process(client: Client, fake: Fake) -> None:
    fake.script += [lambda _: problem(422, "Refused", "why", [{"pointer": "/x", "found": "1", "expected": "2"}])]
    with pytest.raises(InvalidError) as caught:
        client.decide("payments", RECORD)
    again = pickle.loads(pickle.dumps(caught.value))  # noqa: S301 - our own
    assert (type(again), str(again), again.errors) == (InvalidError, str(caught.value), caught.value.errors)


def test_options_go_to_httpx_and_leave_the_key(fake: Fake) -> None:
    with Client(fake.url, key=KEY, timeout=TIMEOUT_S, options={"headers": {"X-Shop": "1"}, "verify": False}) as client:
        assert client.decide("payments", RECORD).answered == "peek"
    assert fake.asked[0].headers["x-shop"] == "1"


@pytest.mark.parametrize("body", [{}, [], [decision(RECORD)] * 3])
def test_a_batch_that_has_not_as_many_answers_is_answered_by_the_fallback(
    client: Client, fake: Fake, body: Any
) -> None:
    fake.script += [lambda _: JSONResponse(body)]
    found = client.decide_many("payments", [RECORD] * 2)
    assert [each.answered for each in found if isinstance(each, Decision)] == ["unreachable"] * 2


def test_a_dry_run_says_so(client: Client, fake: Fake) -> None:
    assert client.dry_run("payments", RECORD).decision == "step_up"
    assert fake.asked[0].query_params["dry_run"] == "true"


def test_the_async_client_says_the_same(fake: Fake) -> None:
    async def ask() -> tuple[Decision, list[Decision | ApiError]]:
        async with AsyncClient(fake.url, key=KEY, timeout=TIMEOUT_S) as client:
            return await client.decide("payments", RECORD), await client.decide_many("payments", [RECORD] * 3)

    one, many = asyncio.run(ask())
    assert one.body == decision(RECORD)
    assert many == [Decision.from_json(decision(RECORD))] * 3


@pytest.mark.parametrize("record", [{"x": float("nan")}, {"x": object()}, [], "text", {"x": {1, 2}}])
def test_what_is_no_json_is_refused_before_it_is_sent(client: Client, fake: Fake, record: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        client.decide("payments", record)
    assert fake.asked == []


@pytest.mark.parametrize("stream", ["", ".", ".."])
def test_a_name_that_leads_elsewhere_is_refused(client: Client, stream: str) -> None:
    with pytest.raises(ValueError, match="as a part of the address"):
        client.decide(stream, RECORD)


@pytest.mark.parametrize("stream", ["a/../../b", "pay ments?x=1#y", "zahlungen/ü", "%2e%2e", "a:b"])
def test_a_name_stays_one_segment(client: Client, fake: Fake, stream: str) -> None:
    fake.script += [lambda _: JSONResponse(decision(RECORD))]
    client.decide(stream, RECORD)
    assert fake.asked[0].scope["raw_path"].count(b"/") == 3
    assert fake.asked[0].url.path == f"/v1/decisions/{stream}" or "%" in str(fake.asked[0].url)
    assert fake.asked[0].scope["path"] == f"/v1/decisions/{stream}"


def test_the_key_is_shown_nowhere(fake: Fake, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    wrong = "clk_a_secret_that_is_wrong"
    with Client(fake.url, key=wrong, timeout=TIMEOUT_S) as client:
        with pytest.raises(CredentialError) as caught:
            client.decide("payments", RECORD)
        shown = [repr(client), str(vars(client)), repr(caught.value), str(caught.value), *caplog.messages]
        shown += [
            repr(vars(client._client)),
            repr(vars(client._client._wire)),
            repr(client._client._wire._http.headers),
        ]
    assert caplog.messages
    assert [each for each in shown if "secret" in each] == []


@pytest.mark.parametrize("key", ["", "a b", "a\r\nX: y", "ключ"])
def test_a_key_that_fits_no_header_is_refused_and_not_printed(key: str) -> None:
    with pytest.raises(ValueError, match="the key is empty or has") as caught:
        Client("http://127.0.0.1:1", key=key)
    assert not key or key not in str(caught.value)


@pytest.mark.parametrize("url", ["127.0.0.1:8080", "ftp://x", "http://", "http://u:p@x", "http://x?y=1", ""])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="address"):
        Client(url)


def test_an_address_may_have_a_path(fake: Fake) -> None:
    fake.script += [lambda _: JSONResponse(decision(RECORD))]
    with Client(f"{fake.url}/fraud/", key=KEY, timeout=TIMEOUT_S) as client:
        assert client.decide("payments", RECORD, mode="exact").answered == "peek"
    assert fake.asked[0].url.path == "/fraud/v1/decisions/payments"
    assert fake.asked[0].query_params["mode"] == "exact"


def test_a_fallback_or_a_time_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="expected one of allow, step_up, review, block"):
        Client("http://127.0.0.1:1", fallback="approve")
    with pytest.raises(ValueError, match="expected seconds, more than 0"):
        Client("http://127.0.0.1:1", timeout=0)


def test_a_client_that_is_closed_says_so(fake: Fake) -> None:
    client = Client(fake.url, key=KEY)
    client.close()
    client.close()
    with pytest.raises(RuntimeError, match="closed"):
        client.decide("payments", RECORD)
