"""The demo asks its own API about a payment like the last that raised an alert; what it shows, answered or not."""

from __future__ import annotations

import json
import shlex
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest

from crossline.cli.demo import command
from crossline.cli.demo.api_request import as_lines, ask, payment_to_ask, serve_section, served
from crossline.generate.cards import CardWorkload
from crossline.rule_registry.content import read_pipeline_in_place
from crossline.settings.config import PipelineConfig

RECORDS = 2_000
ANSWER = {
    "decision": "block",
    "score": 80,
    "answered": "peek",
    "took_ms": 3.1,
    "reasons": [{"rule_id": "card_declines", "message": "5 declined payments on card c1 in 5 min"}],
    "degraded": [],
}


class Api(BaseHTTPRequestHandler):
    """Ready at the second time of asking; then it answers ``ANSWER``."""

    asked: ClassVar[list[tuple[str, bytes]]] = []

    def do_GET(self) -> None:
        self.asked.append((self.path, b""))
        self.respond(503 if len(self.asked) == 1 else 200, {"ok": len(self.asked) > 1})

    def do_POST(self) -> None:
        self.asked.append((self.path, self.rfile.read(int(self.headers["Content-Length"]))))
        self.respond(200, ANSWER)

    def respond(self, status: int, body: Any) -> None:
        raw = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the library's
        pass


@pytest.fixture
def api() -> Iterator[int]:
    Api.asked.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), Api) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,)).start()
        yield server.server_address[1]
        server.shutdown()


def project(folder: Path, port: int) -> PipelineConfig:
    """The demo's own, which serves at ``port``."""
    command._lay_out(folder, RECORDS, 100)
    pipeline = folder / "pipeline.yaml"
    given = read_pipeline_in_place(pipeline)
    assert given.serve is not None
    assert given.serve.open
    pipeline.write_text(pipeline.read_text().replace(str(given.serve.place), f"127.0.0.1:{port}"))
    return read_pipeline_in_place(pipeline)


def test_it_asks_about_a_payment_like_the_last_that_raised_an_alert() -> None:
    workload = CardWorkload(seed=7)
    lines = [json.loads(line) for line in workload.lines(0, RECORDS).splitlines()]
    alerts = [{"event_time": "2026-01-01T00:01:00.000Z", "record_id": "t0000900"}]
    alerts += [{"event_time": "2026-01-01T00:00:30.000Z", "record_id": "t0000400"}]  # emitted later, of earlier
    asked = payment_to_ask(alerts, workload, RECORDS)
    assert asked == {**lines[900], "transaction_id": "demo-1", "event_time": lines[-1]["event_time"]}
    assert payment_to_ask([], workload, RECORDS) == {**lines[-1], "transaction_id": "demo-1"}


def test_what_is_answered_is_shown_with_a_line_that_asks_again(tmp_path: Path, api: int) -> None:
    folder = tmp_path / "the demo"
    config = project(folder, api)
    asked = ask(config, folder, {"transaction_id": "demo-1"}, None)
    assert [path for path, _ in Api.asked] == ["/readyz"] * 2 + ["/v1/decisions/payments?dry_run=true&timeout_ms=5000"]
    assert json.loads(Api.asked[-1][1]) == {"transaction_id": "demo-1"}
    lines = as_lines(asked.to_json())
    assert lines[:2] == [
        "asked about one more payment: block, score 80, peek, in 3.1 ms",
        "  card_declines: 5 declined payments on card c1 in 5 min",
    ]
    # What a shell makes of the lines: the pipeline's file, the API's address, the payment as it was asked about.
    serve, curl = (shlex.split(line) for line in lines[-2:])
    assert serve == ["crossline", "serve", str(folder / "pipeline.yaml"), "&"]
    assert curl[:2] == ["curl", "-s"]
    assert curl[2] == f"127.0.0.1:{api}/v1/decisions/payments?dry_run=true&timeout_ms=5000"
    assert curl[3] == "-d"
    assert json.loads(Path(curl[4].removeprefix("@")).read_text()) == {"transaction_id": "demo-1"}


def test_a_demo_that_has_no_api_says_why_and_goes_on(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        config = project(tmp_path / "demo", port)
        with served(config, tmp_path / "demo") as problem:
            assert problem is not None
            assert f"cannot listen at 127.0.0.1:{port}" in problem
        asked = ask(config, tmp_path / "demo", {}, problem)
    assert asked.answer is None
    assert as_lines(asked.to_json()) == [f"the API was not asked: {problem}"]


def test_an_api_that_breaks_off_is_reported(tmp_path: Path, api: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Api, "do_POST", lambda self: self.respond(500, {"detail": "a fault"}))
    asked = ask(project(tmp_path / "demo", api), tmp_path / "demo", {}, None)
    assert asked.problem is not None
    assert "500" in asked.problem
    assert "a fault" in asked.problem


def test_another_port_where_the_usual_one_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        monkeypatch.setattr("crossline.cli.demo.api_request.PORT", other.getsockname()[1])
        (line,) = [each for each in serve_section().splitlines() if each.strip().startswith("listen:")]
        assert int(line.rpartition(":")[2]) not in {0, other.getsockname()[1]}
