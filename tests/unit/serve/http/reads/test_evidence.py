"""``/v1/alerts/{id}/evidence`` and ``…/counterfactuals`` over the example's alerts."""

from __future__ import annotations

import json

import pytest
from tests.unit.serve.http.kit import Client, example


def alert_of(rule_id: str) -> dict[str, object]:
    alerts = [json.loads(line) for line in (example() / "alerts.jsonl").read_text().splitlines()]
    return next(each for each in alerts if each["rule_id"] == rule_id)


def test_the_evidence_of_an_alert(reading: Client) -> None:
    alert = alert_of("card_testing")
    answer = reading.get(f"/v1/alerts/{alert['alert_id']}/evidence?money=amount_cents")
    assert answer.status_code == 200, answer.text
    body = answer.json()
    assert body["alert_id"] == alert["alert_id"]
    assert body["crossing"] == alert["record_id"]
    assert body["missing"] == []
    assert (body["window_start"], body["window_end"]) == (alert["window_start"], alert["window_end"])
    counted = [each["record_id"] for each in body["records"] if each["mark"] in {"counted", "before", "crossing"}]
    assert counted == alert["evidence"]["record_ids"]  # type: ignore[index]
    assert [each["value"] for each in body["steps"] if each["record_id"] == alert["record_id"]] == [alert["value"]]
    assert all(each["met"] for each in body["figures"])


def test_what_would_not_have_fired(reading: Client) -> None:
    alert = alert_of("card_testing")
    path = f"/v1/alerts/{alert['alert_id']}/counterfactuals"
    answer = reading.get(path)
    while answer.status_code == 202:
        assert answer.headers["Retry-After"] == "1"
        answer = reading.get(path)
    assert answer.status_code == 200, answer.text
    body = answer.json()
    assert body["why_none"] is None
    assert {"threshold", "window"} <= {each["kind"] for each in body["rows"]}
    assert all(each["then"] for each in body["rows"])
    assert reading.get(path).json() == body  # kept for a minute


@pytest.mark.parametrize("what", ["evidence", "counterfactuals"])
@pytest.mark.parametrize(("alert_id", "status"), [("nothing", 404), ("00000000-0000", 404)])
def test_what_is_not_there(reading: Client, what: str, alert_id: str, status: int) -> None:
    assert reading.get(f"/v1/alerts/{alert_id}/{what}").status_code == status


def test_a_parameter_with_a_slip_of_the_pen_is_refused(reading: Client) -> None:
    alert = alert_of("card_testing")
    assert reading.get(f"/v1/alerts/{alert['alert_id']}/evidence?monye=x").status_code == 422
