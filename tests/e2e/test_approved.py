"""An approval by its proof, through the API, of a rule in a topic of a real broker: a pipeline loads it."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
import yaml

from crossline.rule_registry.content import read_pipeline_in_place
from crossline.runtime.changes.rule_feed import DirectoryFeed
from crossline.serve.approvals.file import ApprovalFile, proof_id_of
from crossline.serve.approvals.values import KeptProof
from crossline.serve.http.api import create_api
from unit.serve.http.kit import Admitting, dependencies, project

if TYPE_CHECKING:
    from dev.services.broker import LocalBroker

pytestmark = [pytest.mark.kafka]

TEXT = """\
rule_id: huge
version: 1
rule_type: threshold
source_topic: payments
conditions:
  - {field: amount_cents, operator: ">", value: 80000}
"""


def taken_up(pipeline: Path, what: str) -> list[dict[str, Any]]:
    """What a pipeline that starts now logs of the rule, up to an event ``what`` of it."""
    feed = DirectoryFeed(read_pipeline_in_place(pipeline), {})
    found: list[dict[str, Any]] = []

    deadline = time.monotonic() + 60
    try:
        feed.start()
        found += feed.events()
        while not any((each.get("rule_id"), each["event"]) == ("huge", what) for each in found):
            assert time.monotonic() < deadline, "nothing of it was taken up"
            time.sleep(0.02)
            if feed.changed():
                found += feed.take_up({})[2]
        return [each for each in found if each.get("rule_id") == "huge"]
    finally:
        feed.close()


def test_what_a_second_person_signs_goes_live_by_its_proof(
    kafka_broker: LocalBroker, kafka_topic: Callable[..., str], tmp_path: Path
) -> None:
    folder, path = project(tmp_path), tmp_path / "serve"
    pipeline = folder / "pipeline.yaml"
    settings = yaml.safe_load(pipeline.read_text())
    topic = kafka_topic(config={"cleanup.policy": "compact"})
    rules = {"kind": "kafka", "brokers": kafka_broker.brokers, "topic": topic, "path": "topic-rules/"}
    settings |= {"name": "approved", "rules": {**rules, "review": "proven"}}
    settings.pop("lists")
    pipeline.write_text(yaml.safe_dump(settings))
    digest = hashlib.sha256(TEXT.encode()).hexdigest()
    digests = {"rule": digest, "data": "d" * 64, "result": "e" * 64}
    body = {"rule_id": "huge", "version": 1, "text": TEXT, "digests": digests}
    ApprovalFile(path).keep_proof(KeptProof(proof_id_of(body), "ines", 5, body))

    async def walk() -> None:
        app = create_api(replace(dependencies(folder, path), config=read_pipeline_in_place(pipeline)))
        transport = httpx.ASGITransport(Admitting(app), raise_app_exceptions=True)
        async with httpx.AsyncClient(transport=transport, base_url="http://api", timeout=120) as client:
            ines, oda = {"X-Who": "ines"}, {"X-Who": "oda"}
            # Published by itself, it waits; an approval without a proof is none.
            answer = await client.post("/v1/rules:publish", json={"name": "huge.yaml", "text": TEXT}, headers=ines)
            assert answer.is_success, answer.text
            waiting = await asyncio.to_thread(taken_up, pipeline, "waiting")
            assert [(each["event"], each["who"]) for each in waiting] == [("waiting", "ines")]
            bare = {"rule_id": "huge", "version": 1}
            refused = await client.post("/v1/rules:approve", json=bare, headers={**oda, "If-Match": "*"})
            assert "expected the proof of the version" in refused.text
            made = (await client.post("/v1/approvals", json={"text": TEXT}, headers=ines)).json()
            signed = {"proof_id": made["proof_id"]}
            mine = await client.post("/v1/approvals/1:approve", json=signed, headers=ines)
            assert mine.status_code == 409
            done = await client.post("/v1/approvals/1:approve", json=signed, headers=oda)
            assert done.is_success, done.text
        await app.state.close()

    asyncio.run(walk())
    (event,) = [each for each in taken_up(pipeline, "published") if each["event"] == "published"]
    assert (event["who"], event["approved_by"], event["proof"]) == ("ines", "oda", digests)
