"""``doctor`` on a real Redis."""

from __future__ import annotations

from typing import Any

import pytest
from dev.services.redis import LocalRedis

from crossline.cli.doctor.redis import _server, redis_findings
from crossline.settings.config import load_pipeline

TEXT = """
schema_version: 1
name: p
streams: {s: {id: id, event_time: {field: at}, fields: {id: string, at: integer}}}
sources: {s: {kind: files, path: in}}
rules: {kind: directory, path: rules}
sinks: [{kind: console}, {kind: redis, @}]
"""


def finding(given: str, **environment: str) -> tuple[str, str]:
    (found,) = redis_findings(load_pipeline(TEXT.replace("@", given), "pipeline.yaml", str), environment)
    return found.status, f"{found.name}: {found.found} | {found.advice}"


def test_what_is_there_and_what_is_missing(redis_server: LocalRedis) -> None:
    at = f"port: {redis_server.port}"
    status, found = finding(at)
    assert status == "ok"
    assert found.startswith(f"redis 127.0.0.1:{redis_server.port}: answers; version ")
    status, found = finding(f"{at}, username: nobody, password_env: P", P="wr0ng-word")
    assert (status, "does not let us in" in found, "wr0ng-word" in found) == ("missing", True, False)
    status, found = finding(f"{at}, password_env: P")
    assert (status, "environment variable P" in found) == ("missing", True)
    status, found = finding("port: 1")
    assert (status, found.endswith("| is it running, are `host`, `port` and `tls` right?")) == ("missing", True)


@pytest.mark.parametrize(
    ("body", "status", "text"),
    [
        ({"redis_version": "7.2.4"}, "ok", "answers; version 7.2.4"),
        ({"role": "slave"}, "missing", "a replica, which takes nothing"),
        ({"cluster_enabled": 1}, "missing", "a cluster, which divides keys"),
        ({"maxmemory": 0, "maxmemory_policy": "allkeys-lru"}, "ok", ""),
        ({"maxmemory": 5, "maxmemory_policy": "noeviction"}, "ok", ""),
        ({"maxmemory": 5, "maxmemory_policy": "volatile-ttl"}, "warning", "it forgets who is blocked"),
    ],
)
def test_what_a_server_reports_of_itself(body: dict[str, Any], status: str, text: str) -> None:
    found = _server("redis", body)
    assert found.status == status
    assert text in found.found
