"""A pipeline whose checkpoint is on an object store, and APIs that read it there: with one ledger in PostgreSQL."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from crossline.runtime.snapshot.lease import CLAIMS

from .serving import serving, shop
from .test_serve import payment
from .traffic import STREAM

if TYPE_CHECKING:
    from dev.services.postgres import LocalPostgres
    from dev.services.s3 import LocalS3

DEEP = os.environ.get("CROSSLINE_DEEP") == "1"


@pytest.mark.skipif(not DEEP, reason="a pipeline of its own, of half a minute; CROSSLINE_DEEP=1 runs it")
@pytest.mark.timeout(900)
def test_an_api_elsewhere_answers_and_the_next_one_says_the_same(
    s3_server: LocalS3,
    postgres_server: LocalPostgres,
    postgres_schema: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)
    server = postgres_server
    password = {"password_file": str(server.password_file)}
    ledger = {"host": server.host, "port": server.port, "user": server.user, "dbname": server.dbname, **password}
    pipeline = shop(tmp_path / "shop", ledger={**ledger, "schema": postgres_schema})
    settings = yaml.safe_load(pipeline.read_text())
    checkpoint = f"s3://{s3_server.bucket}/{tmp_path.name}/shop"
    settings["engine"]["checkpoint"] = checkpoint
    pipeline.write_text(yaml.safe_dump(settings))
    serve = ("serve", str(pipeline), "--replica-of", checkpoint)
    with (
        (tmp_path / "pipeline.log").open("wb") as log,
        subprocess.Popen(
            [sys.executable, "-m", "crossline.cli.main", "run", str(pipeline)], stdout=log, stderr=log
        ) as run,
    ):
        try:
            with serving(pipeline, *serve) as api:
                payments = [payment(number) for number in range(6)]
                api.ready()
                answers = [api.decide(each) for each in payments]
                assert [each["decision"] for each in answers] == ["allow"] * 2 + ["step_up"] * 4
                exact = api.decide(payment(7), mode="exact")
                assert (exact["decision"], exact["answered"]) == ("step_up", "exact")
                body = api.client.get("/readyz").json()
                assert body["behind_ms"] < 20_000
                assert body["batch"] >= 0
                refused = api.client.put("/v1/lists/cash/CSH", json={"reason": "no"})
                assert refused.status_code == 421, refused.text
                claims = (s3_server.data / s3_server.bucket / tmp_path.name / "shop" / CLAIMS).glob("*")
                assert len({each.name.split("-")[1] for each in claims}) == 1, "the pipeline alone holds the checkpoint"
                api.process.send_signal(signal.SIGKILL)
                api.process.wait()
            with serving(pipeline, *serve) as other:
                reply = other.client.post(f"/v1/decisions/{STREAM}", json=payments[3])
                assert reply.headers["Idempotency-Replayed"] == "true"
                assert reply.json() == answers[3]
                other.ready()
                later = other.decide(payment(8))
                assert later["decision"] == "step_up"
                other.until(
                    lambda: other.get(f"/v1/decisions/{answers[3]['decision_id']}/receipt"), "no receipt was there"
                )
        finally:
            run.send_signal(signal.SIGINT)
            try:
                run.wait(60)
            except subprocess.TimeoutExpired:
                run.kill()
