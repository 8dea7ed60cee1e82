"""The OpenAPI file, and what schemathesis makes of it: no request that it can think of is answered by a fault."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from tests.unit.serve.http.kit import Client, client_of, dependencies, project

from crossline.serve.http.openapi import with_path
from crossline.serve.http.problems import MEDIA_TYPE

# Jobs would each start a process; events are sent until the client leaves.
LEFT_OUT = {"/v1/events", "/v1/rules:test", "/v1/rules:backtest", "/v1/alerts/{alert_id}/records"}
SCOPES = {
    *("read:alerts", "read:records", "write:labels", "write:records", "write:cases", "write:lists", "hold"),
    *("rules:draft", "rules:approve", "admin", ""),
}
EXAMPLES = 200 if os.environ.get("CROSSLINE_DEEP") == "1" else 12  # of each operation


def document(client: Client) -> dict[str, Any]:
    found: dict[str, Any] = client.get("/v1/openapi.json").json()
    return found


def test_each_operation_says_what_it_needs(reading: Client) -> None:
    body = document(reading)
    assert body["openapi"] == "3.1.0"
    for path, item in body["paths"].items():
        for verb, operation in item.items():
            if path in {"/healthz", "/readyz"}:
                assert operation["security"] == []
                continue
            assert operation["x-crossline-scope"] in SCOPES, path
            assert operation["summary"]
            assert MEDIA_TYPE in operation["responses"]["default"]["content"]
            named = {each["name"] for each in operation.get("parameters", [])}
            assert ("Idempotency-Key" in named) == (verb != "get"), f"{verb} {path}"
            # There is one job, and a draft belongs to its caller: no change of another user can be lost.
            if verb in {"put", "patch", "delete"} and not path.startswith(("/v1/jobs/", "/v1/drafts/")):
                assert "if-match" in named, f"{verb} {path}"


def test_a_hand_written_operation_stands_beside_the_others(tmp_path: Path) -> None:
    plain = {"paths": {"/v1/x": {"get": {}}}}
    more = with_path(plain, "/v1/x", {"post": {"summary": "y"}}, Decision={"type": "object"})
    assert more["paths"]["/v1/x"] == {"get": {}, "post": {"summary": "y"}}
    assert more["components"]["schemas"] == {"Decision": {"type": "object"}}
    assert plain == {"paths": {"/v1/x": {"get": {}}}}
    with pytest.raises(ValueError, match="get is there already"):
        with_path(plain, "/v1/x", {"get": {}})


def test_schemathesis_finds_no_fault(tmp_path: Path) -> None:
    """Each operation, with what the file allows and what it does not: an answer, or a problem; never a fault."""
    folder = project(tmp_path)
    with client_of(dependencies(folder, tmp_path / "serve")) as client:
        schema = schemathesis.openapi.from_dict(document(client))
        seen: dict[str, set[int]] = {}
        for found in schema.get_all_operations():
            operation = found.ok()
            if operation.path in LEFT_OUT:
                continue
            seen[f"{operation.method} {operation.path}"] = probed(client, operation)
        assert len(seen) > 20
        assert all(statuses for statuses in seen.values())
        assert client.get("/v1/alerts").json()["items"], "and the store is what it was"


def probed(client: Client, operation: Any) -> set[int]:
    """The statuses of some requests that the file allows, and of some that it does not."""
    statuses: set[int] = set()

    @given(data=st.data())
    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def probe(data: st.DataObject) -> None:
        mode = data.draw(st.sampled_from(list(schemathesis.GenerationMode)))
        statuses.add(asked(client, data.draw(operation.as_strategy(generation_mode=mode))))

    probe()
    return statuses


def asked(client: Client, case: Any) -> int:
    """Ask, and check what is answered."""
    given = case.as_transport_kwargs(base_url="http://api")
    known = {name: given[name] for name in ("json", "params", "headers") if name in given}
    if isinstance(given.get("data"), bytes | str):
        known["content"] = given["data"]
    try:
        answer = client.request(given["method"], given["url"], **known)
    except (httpx.InvalidURL, UnicodeEncodeError, TypeError, httpx.LocalProtocolError, ValueError):
        return 0  # no client sends it
    assert answer.status_code < 500 or case.operation.path == "/readyz", (given, answer.text)
    if answer.status_code >= 400:
        assert answer.headers["content-type"] == MEDIA_TYPE, (given, answer.text)
        assert orjson.loads(answer.content)["status"] == answer.status_code
    return answer.status_code
