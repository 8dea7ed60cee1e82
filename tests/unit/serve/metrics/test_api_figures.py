"""The metrics of an API process: counted by hand over a small app, and read as Prometheus reads it."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from tests.unit.serve.decisions.fakes import FakeLedger, decided

from crossline.basics.errors import RetryableError, UsageError
from crossline.observe.watch.listener import HttpListener
from crossline.serve.access.credentials import Credentials
from crossline.serve.access.keyring import KeyRing
from crossline.serve.access.middleware import Access
from crossline.serve.decisions.outbox import SqliteOutbox
from crossline.serve.decisions.reconciliation import Revised
from crossline.serve.decisions.replies import DecisionAnswer
from crossline.serve.decisions.values import Degraded, SubmittedRecord
from crossline.serve.health.values import HealthReport
from crossline.serve.metrics import exposition
from crossline.serve.metrics.exposition import ApiCollector, ApiStatus, metrics_endpoint
from crossline.serve.metrics.figures import OTHERS, PARTS_MAX, ApiFigures, RequestCounter, TimedAnswers
from crossline.serve.metrics.rules import RuleGauges
from crossline.serve.replica.answers import ReplicationLag
from crossline.settings.process.serve import LimitSettings, ServeSettings
from e2e.scraping import Scrape, alerting_rules, get, names_in

STANDING = ApiStatus(ReplicationLag(1_500, 812, ready=True), 3, 2, 1, (40, 0.25), 0)


def asked(number: int) -> SubmittedRecord:
    return SubmittedRecord(number, "payments", f"t{number}", b"{}", f"digest{number}", 0)


def answer(number: int, answered: Any, decision: str, *parts: str) -> DecisionAnswer:
    given = asked(number)
    return DecisionAnswer(
        given, decided(given, decision), answered, degraded=tuple(Degraded(part, "late") for part in parts)
    )


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> list[HttpListener]:
    """The listeners that were made."""
    made: list[HttpListener] = []

    class Kept(HttpListener):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            made.append(self)

    monkeypatch.setattr(exposition, "HttpListener", Kept)
    return made


def scraped(
    figures: ApiFigures, made: list[HttpListener], standing: ApiStatus = STANDING, rules: RuleGauges | None = None
) -> Scrape:
    settings = ServeSettings(open=True, metrics="127.0.0.1:0")
    with metrics_endpoint(settings, ApiCollector("shop", figures, lambda: standing, rules)):
        return Scrape(made[-1].place)


async def requests_of(app: Any, *paths: str, headers: Mapping[str, str] | None = None) -> list[int]:
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", headers=headers) as client:
        return [(await client.get(path)).status_code for path in paths]


def test_requests_are_counted_by_route_and_status(tmp_path: Path, place: list[HttpListener]) -> None:
    async def rules(_: Any) -> Response:
        return PlainTextResponse("rules")

    objectives: list[Any] = []
    figures = ApiFigures(lambda route, status, took_s: objectives.append((route, status, took_s >= 0)))
    inner = Starlette(routes=[Route("/v1/rules", rules), Route("/v1/rules/{rule_id}", rules), Route("/healthz", rules)])
    few = LimitSettings(per_s=1, burst=3)
    free = RequestCounter(Access(inner, None, few), figures)
    found = asyncio.run(requests_of(free, "/v1/rules", "/v1/rules/a", "/v1/rules/b", "/v1/rules"))
    assert found == [200, 200, 200, 429]
    keys = RequestCounter(Access(inner, Credentials(KeyRing(tmp_path / "keys.db")), few), figures)
    wrong = {"Authorization": "Bearer clk_nobodys"}
    assert asyncio.run(requests_of(keys, "/v1/rules/<secret>", "/nothing", headers=wrong)) == [401, 401]
    assert asyncio.run(requests_of(keys, "/healthz")) == [200]
    assert [each for each in objectives if each[1] == 429] == [(None, 429, True)]
    assert len(objectives) == 7
    page = scraped(figures, place)
    # What was refused before there was a route is named by none: an address may be anything.
    assert page.values("crossline_api_requests_total") == {
        ("GET", "/v1/rules", "200"): 1,
        ("GET", "/v1/rules/{rule_id}", "200"): 2,
        ("", "(none)", "429"): 1,
        ("", "(none)", "401"): 2,
        ("GET", "/healthz", "200"): 1,
    }
    counts = page.values("crossline_api_request_seconds_count")
    assert counts == {("/v1/rules",): 1, ("/v1/rules/{rule_id}",): 2, ("(none)",): 3, ("/healthz",): 1}
    buckets = page.values("crossline_api_request_seconds_bucket")
    assert buckets["+Inf", "/v1/rules/{rule_id}"] == 2


def test_decisions_revisions_and_what_was_degraded(place: list[HttpListener]) -> None:
    figures, passed = ApiFigures(), list[Any]()
    for each in (
        answer(1, "peek", "allow"),
        answer(2, "peek", "block"),
        answer(3, "peek", "block", "rule:card_burst"),
        answer(4, "fallback", "review", "replica"),
        answer(5, "fallback", "review", "replica", "stream"),
        answer(6, "exact", "allow"),
    ):
        figures.before(lambda given, place: passed.append((given.asked.number, place)))(each, None)
    assert passed == [(number, None) for number in range(1, 7)], "and the other subscriber gets it too"
    revised = Revised("d2", "payments", "t2", "peek", "block", {"decision": "allow"}, 7)
    figures.differed([revised, revised])
    page = scraped(figures, place)
    assert page.values("crossline_api_decisions_total") == {
        ("peek", "allow", "payments"): 1,
        ("peek", "block", "payments"): 2,
        ("fallback", "review", "payments"): 2,
        ("exact", "allow", "payments"): 1,
    }
    assert page.values("crossline_api_degraded_total") == {("replica",): 2, ("stream",): 1, ("rule:card_burst",): 1}
    assert page.values("crossline_api_revised_total") == {("peek", "payments"): 2}


def test_of_many_parts_the_rest_are_reported_together() -> None:
    figures = ApiFigures()
    for number in range(PARTS_MAX + 5):
        figures.answered(answer(number, "peek", "allow", f"rule:r{number}"))
    assert len(figures.degraded) == PARTS_MAX + 1
    assert figures.degraded[OTHERS] == 5


def test_how_it_stands(place: list[HttpListener]) -> None:
    page = scraped(ApiFigures(), place)
    assert {name: page.values(f"crossline_api_{name}")[()] for name in (
        "ready", "replica_behind_seconds", "replica_batch", "laid_over_records", "unsettled_answers", "outbox_records",
        "judge_calls_total", "judge_seconds_total", "replicas_lost_total",
    )} == {
        "ready": 1, "replica_behind_seconds": 1.5, "replica_batch": 812, "laid_over_records": 3,
        "unsettled_answers": 2, "outbox_records": 1, "judge_calls_total": 40, "judge_seconds_total": 0.25,
        "replicas_lost_total": 0,
    }  # fmt: skip
    unknown = ApiStatus(STANDING.lag, 0, 0, None, (0, 0.0), 0)
    assert scraped(ApiFigures(), place, unknown).values("crossline_api_outbox_records") == {}
    assert page.values("process_cpu_seconds_total")[()] > 0


def test_the_time_that_the_ledger_takes_counts_also_where_it_fails() -> None:
    async def work() -> ApiFigures:
        figures, ledger = ApiFigures(), FakeLedger()
        ledger.keeps.set()
        ledger.frees.set()
        timed = TimedAnswers(ledger, figures)
        assert (await timed.claim(asked(1), 1.0)).outcome == "fresh"
        await timed.answer(answer(1, "peek", "allow"), {})
        await timed.claim(asked(2), 1.0)
        await timed.release(asked(2))
        assert ("payments", "t2") not in ledger.known
        ledger.error = RetryableError("locked")
        with pytest.raises(RetryableError):
            await timed.claim(asked(3), 1.0)
        return figures

    figures = asyncio.run(work())
    assert {name: sum(each.counts) for name, each in figures.ledger.items()} == {"claim": 3, "answer": 1}


def test_the_outbox_says_how_many_wait(tmp_path: Path) -> None:
    outbox = SqliteOutbox(tmp_path / "outbox.db")
    asyncio.run(outbox.put([asked(1), asked(2), asked(3)]))
    asyncio.run(outbox.done(asked(1)))
    asyncio.run(outbox.park(asked(2)))  # which is sent no more
    assert outbox.count() == 1
    (tmp_path / "outbox.db").write_text("no database")
    with pytest.raises(sqlite3.Error):
        outbox.count()


def test_nowhere_unless_it_is_asked_for(place: list[HttpListener]) -> None:
    with metrics_endpoint(ServeSettings(open=True), ApiCollector("shop", ApiFigures(), lambda: STANDING)):
        assert place == []


def test_only_its_page_is_there_and_a_place_that_is_taken_is_reported(place: list[HttpListener]) -> None:
    collector = ApiCollector("shop", ApiFigures(), lambda: STANDING)
    with metrics_endpoint(ServeSettings(open=True, metrics="127.0.0.1:0"), collector):
        there = place[-1].place
        assert get(there, "/v1/rules")[0] == 404
        with (
            pytest.raises(UsageError, match=f"serve: cannot listen at {there}.*serve.metrics of the pipeline file"),
            metrics_endpoint(ServeSettings(open=True, metrics=str(there)), collector),
        ):
            pass


def test_every_metric_of_the_alerts_is_reported(place: list[HttpListener]) -> None:
    report = HealthReport("shop", 0, (), counted=True, since_day=None, answered=True, refused={})
    names = scraped(ApiFigures(), place, rules=RuleGauges(lambda: report)).names()
    rules = alerting_rules("api-alerts.yaml")
    used = {name for rule in rules for name in names_in(rule["expr"])} - {"up"}
    assert used - names == set()
    assert {rule["labels"]["severity"] for rule in rules} == {"critical", "warning"}
    assert all(rule["annotations"].keys() == {"summary", "do"} for rule in rules)
