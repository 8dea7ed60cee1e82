"""Lists and look-ups that go on in the lake: what the kit put into store and lake is expected, each once, in order."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.serve.http.kit import PATIENT, Client, client_of, dependencies, detail

from crossline.basics.times import format_instant
from crossline.evaluate.alerts.alert_json import json_bytes
from crossline.io.stores.protocol import AlertFilter, DecisionFilter
from crossline.serve.fault_log import TellableError
from crossline.serve.http.commands import CommandResult, Commands
from crossline.serve.http.deps import CommandWaits
from crossline.serve.http.problems import ProblemError
from crossline.serve.http.reads.history import BEGIN_MS, NO_END_MS, LakePlace, LakeReads
from unit.lake.history_kit import NEW, OLD, HistoricPipeline, burst

SHORT_OLD = OLD[:8]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return HistoricPipeline.made(tmp_path_factory.mktemp("lake")).spooled.root


@pytest.fixture(scope="module")
def asked(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    with client_of(dependencies(root, tmp_path_factory.mktemp("serve"))) as client:
        yield client


@pytest.fixture
def fresh(asked: Client) -> Iterator[Client]:
    """Knows nothing of the lake yet."""
    asked.app.state.lake.forget()
    yield asked
    asked.app.state.lake.forget()


def walked(client: Client, query: str, limit: int) -> list[str]:
    """The ids of all pages."""
    found: list[str] = []
    cursor = ""
    for _ in range(20):
        answer = client.get(f"/v1/alerts?limit={limit}{query}{cursor}")
        assert answer.status_code == 200, answer.text
        body = answer.json()
        assert len(body["items"]) <= limit
        found += [each["alert_id"] for each in body["items"]]
        if body["next_cursor"] is None:
            return found
        cursor = f"&cursor={body['next_cursor']}"
    raise AssertionError(f"no end after {found}")


@pytest.mark.parametrize("limit", [1, 2, 50])
def test_a_list_goes_on_in_the_lake_with_no_alert_twice(asked: Client, limit: int) -> None:
    assert walked(asked, "", limit) == [NEW, OLD]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("&rule_id=burst", [NEW, OLD]),
        ("&rule_id=other", []),
        ("&to=2026-01-01T00:05:00Z", [OLD]),
        ("&from=2026-01-01T00:05:00Z", [NEW]),
        ("&to=2026-01-01T00:01:30Z", []),
        ("&key.account_id=a0", [NEW, OLD]),
        ("&key.account_id=a1", []),
        ("&key.account_id%3Da0=a0", []),
        ("&to=0001-01-01T00:00:00Z", []),
        (f"&q={SHORT_OLD}", [OLD]),
        ("&status=standing", [NEW, OLD]),
        ("&status=retracted", []),
        ("&kind=correction", []),
    ],
)
def test_filters_hold_in_the_lake(asked: Client, query: str, found: list[str]) -> None:
    assert walked(asked, query, 5) == found


def test_an_alert_and_its_records_that_the_store_has_not(asked: Client) -> None:
    for name in (OLD, SHORT_OLD):
        body = asked.get(f"/v1/alerts/{name}").json()
        assert (body["alert_id"], body["status"], body["corrections"]) == (OLD, "standing", [])
    body = asked.get(f"/v1/alerts/{OLD}/records").json()
    assert [each["record_id"] for each in body["records"]] == ["p00001", "p00002"]
    assert body["records_from"] == {"lake": 2, "source": 0}
    assert "deadbeef" in detail(asked.get("/v1/alerts/deadbeef"), 404)


def test_decisions_that_the_store_has_not(asked: Client) -> None:
    for record, name in (("p00002", "old"), ("p00012", "new")):
        items = asked.get(f"/v1/decisions?record_id={record}").json()["items"]
        assert [(each["decision_id"], each["revisions"]) for each in items] == [(name, [])]
        assert asked.get(f"/v1/decisions/{name}").json()["record_id"] == record
    assert asked.get("/v1/decisions?record_id=p00002&stream=other").json()["items"] == []
    detail(asked.get("/v1/decisions/none"), 404)


@pytest.mark.parametrize(("limit", "found", "more"), [(1, [NEW], True), (2, [NEW, OLD], False)])
def test_an_entity_has_the_older_alerts_too(asked: Client, limit: int, found: list[str], more: bool) -> None:
    body = asked.get(f"/v1/entities/account_id/a0?limit={limit}").json()
    assert ([each["alert_id"] for each in body["alerts"]], body["alerts_more"]) == (found, more)


@pytest.mark.parametrize("end_ms", [BEGIN_MS - 1, -(10**17), NO_END_MS + 2, 10**17, "7", True])
def test_cursors_that_were_not_made_here(asked: Client, end_ms: Any) -> None:
    made = asked.get("/v1/alerts?limit=1").json()["next_cursor"]
    of = orjson.loads(base64.urlsafe_b64decode(made + "=" * (-len(made) % 4)))[0]
    forged = base64.urlsafe_b64encode(orjson.dumps([of, "lake", end_ms, 0])).decode()
    assert "?cursor" in detail(asked.get(f"/v1/alerts?limit=1&cursor={quote(forged)}"), 400)


@pytest.mark.parametrize("end_ms", [BEGIN_MS, NO_END_MS, NO_END_MS + 1])
def test_places_at_the_ends_of_time_are_read(asked: Client, end_ms: int) -> None:
    place = LakePlace.of([*LakePlace(end_ms).as_list()])
    assert place == LakePlace(end_ms)
    lake: LakeReads = asked.app.state.lake
    page = asked.runner.run(lake.alerts(AlertFilter(), place, 5))
    assert [each["alert_id"] for each in page.rows] == ([] if end_ms == BEGIN_MS else [NEW, OLD])


def test_a_lake_that_cannot_be_read_is_not_a_lake_without_rows(fresh: Client, root: Path) -> None:
    catalog = root / "out" / "lake" / "catalog.db"
    kept = catalog.read_bytes()
    catalog.write_bytes(b"no database" * 1_000)
    try:
        first = fresh.get("/v1/alerts").json()
        assert [each["alert_id"] for each in first["items"]] == [NEW]
        for address in (f"/v1/alerts?cursor={first['next_cursor']}", f"/v1/alerts/{OLD}", f"/v1/alerts/{OLD}/records"):
            answer = fresh.get(address)
            assert "lake cannot be read now" in detail(answer, 503)
            assert str(root) not in answer.text
            assert int(answer.headers["Retry-After"]) == 10
        for address in ("/v1/decisions/old", "/v1/decisions?record_id=p00002"):
            detail(fresh.get(address), 503)
        assert fresh.get(f"/v1/alerts/{NEW}").status_code == 200
        assert fresh.get("/v1/entities/account_id/a0").json()["alerts_more"] is True
    finally:
        catalog.write_bytes(kept)
    fresh.app.state.lake.forget()
    assert walked(fresh, "", 1) == [NEW, OLD]


def test_a_lake_that_was_not_made_has_nothing(fresh: Client, root: Path) -> None:
    lake = root / "out" / "lake"
    away = lake.rename(lake.with_suffix(".away"))
    try:
        assert walked(fresh, "", 1) == [NEW]
        detail(fresh.get(f"/v1/alerts/{OLD}"), 404)
        assert fresh.get("/v1/decisions?record_id=p00002").json()["items"] == []
        assert not lake.exists()
    finally:
        away.rename(lake)


class FakeCommands(Commands):
    """``crossline lake alerts`` over a list; or it fails."""

    def __init__(self, rows: Sequence[Mapping[str, Any]] = (), error: Exception | None = None) -> None:
        super().__init__()
        self.rows, self.error, self.waits = rows, error, list[float]()

    async def run(self, arguments: Sequence[str], wait_s: float, missing: ProblemError | None = None) -> CommandResult:
        assert missing is None
        self.waits.append(wait_s)
        if self.error is not None:
            raise self.error
        until = arguments[arguments.index("--until") + 1] if "--until" in arguments else "9"
        limit = int(arguments[arguments.index("--limit") + 1])
        found = [each for each in self.rows if each["event_time"] < until][:limit]
        return CommandResult(0, b"".join(json_bytes(each) + b"\n" for each in found), "")


@pytest.mark.parametrize("limit", [1, 2, 3, 7])
def test_pages_divide_equal_instants_without_loss(root: Path, tmp_path: Path, limit: int) -> None:
    instants = [5, 5, 5, 4, 3, 3, 3, 3, 1]
    rows = [
        {**burst(f"{n:08}", 1, 1), "event_time": format_instant(at), "status": "standing"}
        for n, at in enumerate(instants)
    ]
    lake = LakeReads(dependencies(root, tmp_path), FakeCommands(rows))
    place: LakePlace | None = LakePlace(NO_END_MS)
    found: list[str] = []
    while place is not None:
        page = asyncio.run(lake.alerts(AlertFilter(), place, limit))
        assert 0 < len(page.rows) <= limit
        found += [each["alert_id"] for each in page.rows]
        place = page.next
    assert found == [each["alert_id"] for each in rows]


@pytest.mark.parametrize(
    "error",
    [TellableError("it was not done within 5 s"), ProblemError(400, "refused", "locked"), RuntimeError("trace")],
)
def test_a_failure_is_asked_again_soon_and_an_answer_seldom(root: Path, tmp_path: Path, error: Exception) -> None:
    commands, now_s = FakeCommands(error=error), [0.0]
    deps = replace(dependencies(root, tmp_path), waits=CommandWaits(probe_s=5.0))
    lake = LakeReads(deps, commands, clock_s=lambda: now_s[0])

    def goes_on() -> bool:
        return asyncio.run(lake.older("alerts")) is not None

    assert [goes_on(), goes_on(), len(commands.waits)] == [True, True, 1]
    assert commands.waits == [5.0]
    with pytest.raises(TellableError):
        asyncio.run(lake.alert(OLD))
    now_s[0], commands.error = 10.0, None
    assert [goes_on(), len(commands.waits)] == [False, 2]
    now_s[0] = 609.0
    assert [goes_on(), len(commands.waits)] == [False, 2]
    now_s[0] = 611.0
    assert [goes_on(), len(commands.waits)] == [False, 3]


class FakeStore:
    """The alerts and decisions of a store, as ``Store`` reads them."""

    def __init__(self, rows: Sequence[Mapping[str, Any]]) -> None:
        self.rows = rows  # the latest first

    def alerts(self, which: Any, limit: int, *, newest_first: bool = True) -> Iterator[Mapping[str, Any]]:
        since, until = (None if at is None else format_instant(at) for at in (which.since_ms, which.until_ms))
        found = [
            each
            for each in (self.rows if newest_first else reversed(self.rows))
            if (since is None or each["event_time"] >= since) and (until is None or each["event_time"] < until)
        ]
        return iter(found[:limit])

    decisions = alerts

    def close(self) -> None:
        pass


@given(
    st.lists(st.tuples(st.integers(0, 4), st.booleans()), max_size=14),
    st.integers(0, 14),
    st.integers(0, 3),
    st.integers(1, 5),
    st.sampled_from(["alerts", "decisions"]),
)
def test_a_list_over_store_and_lake_is_the_list_of_all(
    made: list[tuple[int, bool]], cut: int, lag: int, limit: int, what: Any
) -> None:
    """The store has what came last, and of the instant where it begins some rows; the lake lags behind by some."""
    made = sorted(made, key=lambda each: -each[0])
    name = {"alerts": "alert_id", "decisions": "decision_id"}[what]
    rows = [{name: f"r{n}", "event_time": format_instant(at), "n": n} for n, (at, _) in enumerate(made)]
    border = made[cut][0] if cut < len(made) else -1
    stored = [row for row, (at, kept) in zip(rows, made, strict=True) if at > border or (at == border and kept)]
    names = {each[name] for each in stored}
    in_lake = [row for row in rows if not (row[name] in names and row["n"] < lag)]
    parts: dict[str, Any] = {"config": SimpleNamespace(lake=object()), "pipeline": "p.yaml", "waits": PATIENT}
    deps = SimpleNamespace(store=lambda: FakeStore(stored), **parts)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(LakeReads, "_made", lambda _: True)
        lake = LakeReads(deps, FakeCommands(in_lake))  # type: ignore[arg-type] - what the reads use of it
        listed = [each[name] for each in stored]
        place = asyncio.run(lake.older(what))
        assert (place is None) == (len(stored) == len(rows))
        while place is not None:
            which: Any = AlertFilter() if what == "alerts" else DecisionFilter()
            page = asyncio.run(_listed(lake, which, place, limit))
            assert 0 < len(page.rows) <= limit
            listed += [each[name] for each in page.rows]
            place = LakePlace.of(page.next.as_list()) if page.next is not None else None
    assert len(listed) == len(set(listed))
    at_of = {row[name]: row["event_time"] for row in rows}
    assert [at_of[each] for each in listed] == [row["event_time"] for row in rows]  # all, the latest first


async def _listed(lake: LakeReads, which: Any, place: LakePlace, limit: int) -> Any:
    return await (lake.alerts if isinstance(which, AlertFilter) else lake.decisions)(which, place, limit)
