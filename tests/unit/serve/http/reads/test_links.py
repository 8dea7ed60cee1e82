"""``GET /v1/entities/{field}/{value}/links``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.serve.cases.casekit import SETTINGS, START, alert
from tests.unit.serve.http.kit import NOW_MS, Client, client_of, dependencies, detail, example

from crossline.evaluate.alerts.alert_json import json_bytes
from crossline.serve.access.routes import RouteTable
from crossline.serve.cases.intake.batches import CaseIntake


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    """Accounts a1 and a/2 share a card in one case."""
    deps = dependencies(example(), tmp_path / "serve")
    intake = CaseIntake(tmp_path / "serve/cases.db", SETTINGS, clock_ms=lambda: NOW_MS)
    lines = [alert("x1", record={"card_hash": "c1"}), alert("x2", START + 1, "a/2", record={"card_hash": "c1"})]
    intake.take([("alerts", json_bytes(each)) for each in lines], None)
    with client_of(deps) as made:
        yield made
    intake.close()


def test_entities_and_links_are_reported_by_their_places(client: Client) -> None:
    body = client.get("/v1/entities/account_id/a%2F2/links?depth=2").json()
    assert [(each["value"], each["steps"], each["cases"], each["case_numbers"]) for each in body["entities"]] == [
        ("a/2", 0, 1, ["C-1"]), ("c1", 1, 1, ["C-1"]), ("a1", 2, 1, ["C-1"]),
    ]  # fmt: skip
    first = {"alerts": 1, "cases": 1, "last_at": "2026-01-01T00:00:00.001Z"}
    assert body["links"] == [
        {"source": 0, "target": 1, **first},
        {"source": 1, "target": 2, **first, "last_at": "2026-01-01T00:00:00.000Z"},
    ]
    assert body["left_out"] == {"entities": 0, "cases": 0}
    assert "?depth" in detail(client.get("/v1/entities/account_id/a1/links?depth=9"), 422)


def test_what_is_held_is_reported_until_when(client: Client) -> None:
    """The example's rule holds its key for half an hour: a3 at the example's end."""
    held = client.get("/v1/holds").json()["items"]
    (account,) = {each["key"]["account_id"]: each["until"] for each in held}.items()
    body = client.get(f"/v1/entities/account_id/{account[0]}/links").json()
    assert body["entities"][0]["held_until"] == account[1]
    assert client.get("/v1/entities/account_id/a1/links").json()["entities"][0]["held_until"] is None


def test_the_table_of_routes_reports_links_from_an_entity() -> None:
    table = RouteTable()
    for path, template in {
        "/v1/entities/account_id/a1/links": "/v1/entities/{field}/{value:path}/links",
        "/v1/entities/account_id/a/1/links": "/v1/entities/{field}/{value:path}/links",
        "/v1/entities/account_id/links": "/v1/entities/{field}/{value:path}",
        "/v1/entities/account_id/a/links/1": "/v1/entities/{field}/{value:path}",
    }.items():
        found = table.find("GET", path)
        assert found is not None
        assert found.template == template, path
    assert table.find("POST", "/v1/entities/account_id/a1/links") is None
