"""``crossline run --serve``: what the API would refuse is refused at once, with its own text, before Spark starts."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from crossline.cli.main import run_command

SETTINGS: dict[str, Any] = {
    "schema_version": 1,
    "name": "shop",
    "streams": "stream.yaml",
    "sources": {"payments": {"kind": "api", "path": "in"}},
    "rules": {"kind": "directory", "path": "rules"},
    "policy": "policy.yaml",
    "sinks": [{"kind": "sqlite", "path": "out/alerts.db"}],
    "engine": {"checkpoint": "out/checkpoint"},
    "serve": {"listen": "127.0.0.1:0", "open": True, "path": "out/serve"},
}
STREAM = """schema_version: 1
streams:
  payments: {format: json, id: id, event_time: {field: at, unit: ms}, fields: {id: string, at: integer}}
"""


class SparkStartedError(Exception):
    """It came as far as Spark."""


@pytest.fixture
def ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Runs the command over changed settings, as far as Spark."""

    def start(*_: object) -> None:
        raise SparkStartedError

    monkeypatch.setattr("crossline.runtime.pipeline.assemble.session_for", start)
    monkeypatch.setattr("crossline.cli.run._launch_ahead", lambda _: None)
    (tmp_path / "stream.yaml").write_text(STREAM)
    (tmp_path / "policy.yaml").write_text("schema_version: 1\nversion: 1\n")
    (tmp_path / "rules").mkdir()
    (tmp_path / "cert.pem").write_text("no certificate")
    (tmp_path / "file").write_text("")

    def run(*options: str, **changed: Any) -> int:
        settings = {name: value for name, value in {**SETTINGS, **changed}.items() if value is not None}
        (tmp_path / "pipeline.yaml").write_text(yaml.safe_dump(settings))
        return run_command(["run", str(tmp_path / "pipeline.yaml"), *(options or ("--serve",))])

    return run


def serve(**changed: Any) -> dict[str, Any]:
    return {"serve": {**SETTINGS["serve"], **changed}}


TOPIC = {"kind": "kafka", "brokers": "127.0.0.1:9", "topic": "payments"}
REVISIONS = [{"url": "http://127.0.0.1:9/", "password_env": "CROSSLINE_NOBODY_SET_THIS"}]
REFUSED = {
    "a topic without a key": ({"sources": {"payments": TOPIC}}, "sources.payments has no key; expected key: FIELD"),
    "no policy": ({"policy": None}, "found no policy; expected policy: FILE, by which the API answers"),
    "no section serve": ({"serve": None}, "found no serve; expected serve: {listen: 127.0.0.1:8080}"),
    "no certificate there": (serve(tls={"cert_file": "a.pem", "key_file": "b.pem"}), "serve.tls.cert_file: "),
    "no certificate": (serve(tls={"cert_file": "cert.pem", "key_file": "cert.pem"}), "no certificate with its key"),
    "no key to sign with": (serve(signing_key_file="none.pem"), "none.pem"),
    "no key of an address": (serve(revisions=REVISIONS), "CROSSLINE_NOBODY_SET_THIS"),
    "a file in the place of its folder": (serve(path="file/serve"), "serve.path: "),
}


@pytest.mark.parametrize("what", sorted(REFUSED))
def test_what_the_api_refuses_no_pipeline_is_started_for(
    ran: Callable[..., int], capsys: pytest.CaptureFixture[str], what: str
) -> None:
    changed, found = REFUSED[what]
    assert ran(**changed) == 2
    assert found in capsys.readouterr().err


def test_a_place_that_is_taken(ran: Callable[..., int], capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        place = f"127.0.0.1:{other.getsockname()[1]}"
        assert ran(**serve(listen=place)) == 2
    assert f"serve: cannot listen at {place}" in capsys.readouterr().err


def test_what_the_api_takes_goes_on_to_spark(ran: Callable[..., int]) -> None:
    with pytest.raises(SparkStartedError):
        ran()
    with pytest.raises(SparkStartedError):
        ran(sources={"payments": {**TOPIC, "key": "id"}})


def test_without_an_api_there_is_no_request(ran: Callable[..., int]) -> None:
    with pytest.raises(SparkStartedError):
        ran("--json", sources={"payments": TOPIC}, **serve(signing_key_file="none.pem"))
