"""``/v1/objectives`` and ``/v1/health/pipeline``: the same as the command; unknown without a running pipeline."""

from __future__ import annotations

from pathlib import Path

from crossline.observe.objectives.report import report
from crossline.observe.run_health.report import ReplicaLag
from unit.observe.run_health.kit import end_of, minutes, promises, promising
from unit.serve.http.kit import NOW_MS, dependencies, detail, project, served


def test_objectives_and_health_are_reported(tmp_path: Path) -> None:
    folder, path = project(tmp_path), tmp_path / "serve"
    path.mkdir()
    config = promising(dependencies(folder, path).config, tmp_path, None)
    with served(folder, path) as client:  # without the section
        assert client.get("/v1/objectives").json()["objectives"] == []
    with served(folder, path, config=config, replicas=lambda: [ReplicaLag(0, 7, 12, ready=True)]) as client:
        reported = client.get("/v1/objectives")
        assert reported.status_code == 200
        assert {each["windows"]["1h"]["kept"] for each in reported.json()["objectives"]} == {None}
        promises(config, end_of(NOW_MS), days=1)
        minutes(config, end_of(NOW_MS))
        reported = client.get("/v1/objectives")
        assert reported.json() == report(config, NOW_MS)
        kept = {each["name"]: each["windows"]["1h"]["kept"] for each in reported.json()["objectives"]}
        # 0.4 % of alerts late, of 1 % that may be; 3 seconds an hour at most, of 3.6; 2 % of requests, of 0.05 %.
        assert kept == {"alert_latency": True, "lag": True, "checkpoint": True, "availability": False}
        health = client.get("/v1/health/pipeline").json()
        assert health["state"] == "unknown"
        assert health["replicas"] == [
            {"number": 0, "batch": 7, "ms": 12, "ready": True, "limit_ms": None, "crossed": False}
        ]
        assert {each["name"] for each in health["figures"] if each["value"] is None} == {"lag", "alert_latency"}
        assert "?what: found the parameter" in detail(client.get("/v1/objectives?what=1"), 422)
        assert "?what: found the parameter" in detail(client.get("/v1/health/pipeline?what=1"), 422)
