"""``/v1/rules``, and what the server says of itself."""

from __future__ import annotations

from pathlib import Path

from tests.unit.serve.http.kit import Client, detail, example, served

from crossline.serve.http.deps import Readiness


def test_rules_are_those_that_are_live(reading: Client) -> None:
    body = reading.get("/v1/rules").json()
    assert [(each["rule_id"], each["version"], each["status"]) for each in body["items"]] == [
        ("card_testing", 1, "active"),
        ("large_payment", 1, "active"),
        ("spending", 1, "shadow"),
    ]
    assert body["waiting"] == body["refused"] == []
    one = reading.get("/v1/rules/spending")
    assert one.headers["etag"] == body["items"][2]["etag"]
    assert one.json() == body["items"][2]
    assert "did you mean spending?" in detail(reading.get("/v1/rules/spendng"), 404)


def test_versions_and_what_became_of_them(folder: Path, tmp_path: Path) -> None:
    file = folder / "rules/spending.yaml"
    file.write_text(file.read_text().replace("version: 1", "version: 2").replace("  status: shadow\n", ""))
    (folder / "rules/bad.yaml").write_text("rule_id: [")
    with served(folder, tmp_path / "serve") as client:
        body = client.get("/v1/rules/spending/versions").json()
        assert [(each["version"], each["live"]) for each in body["items"]] == [(1, True), (2, False)]
        assert [each["event"] for each in body["events"]] == ["published"]
        assert client.get("/v1/rules/spending").json()["version"] == 1, "no pipeline has taken up the other"
        assert [each["source"] for each in client.get("/v1/rules").json()["refused"]] == ["bad.yaml"]
        assert "found no rule" in detail(client.get("/v1/rules/none/versions"), 404)


def test_before_the_first_run_rules_are_the_files(folder: Path, tmp_path: Path) -> None:
    (folder / "rules/.log/payments.jsonl").unlink()
    with served(folder, tmp_path / "serve") as client:
        assert {each["live"] for each in client.get("/v1/rules").json()["items"]} == {False}
        assert client.get("/v1/rules/spending/versions").json()["events"] == []
        assert client.get("/v1/holds").json()["items"] == []


def test_the_server_says_how_it_is(tmp_path: Path) -> None:
    async def behind() -> Readiness:
        return Readiness(ok=False, details={"behind_ms": 2_400})

    with served(example(), tmp_path / "serve", ready=behind) as client:
        anonymous = {"x-who": "nobody"}
        assert client.get("/healthz", headers=anonymous).json() == {"ok": True}
        ready = client.get("/readyz", headers=anonymous)
        assert (ready.status_code, ready.json()) == (503, {"ok": False, "behind_ms": 2_400})
        body = client.get("/v1/version").json()
        assert (body["pipeline"], body["api"], body["policy_version"]) == ("payments", "v1", 1)
        assert body["streams"] == {"payments": {"id": "payment_id", "event_time": "paid_at"}}


def test_what_is_not_there_is_a_problem(reading: Client) -> None:
    assert "there is nothing at this address" in detail(reading.get("/v1/nothing"), 404)
    assert reading.request("PATCH", "/v1/alerts").status_code == 405
    assert detail(reading.request("PATCH", "/v1/alerts"), 405)


def test_requests_without_a_user_get_no_data(reading: Client) -> None:
    """Also if the access layer let a request through without a user."""
    for path, item in reading.get("/v1/openapi.json").json()["paths"].items():
        for verb in item:
            answer = reading.request(verb.upper(), path, headers={"x-who": "nobody"})
            if path in {"/healthz", "/readyz"}:
                assert answer.status_code == 200
            else:
                assert "found no credential" in detail(answer, 401), f"{verb} {path}"
