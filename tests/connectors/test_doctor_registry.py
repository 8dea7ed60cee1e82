"""``doctor`` on schema registries."""

from __future__ import annotations

from crossline.cli.doctor.registry import registry_findings
from crossline.settings.config import load_pipeline

from .registry_fake import fake_registry

STREAM = "{format: avro, id: id, event_time: {field: at}, fields: {id: string, at: integer}}"


def finding(registry: str) -> tuple[str, str, str]:
    source = f"{{kind: kafka, brokers: localhost:9, topic: t, registry: {registry}}}"
    text = (
        f"schema_version: 1\nname: p\nstreams: {{s: {STREAM}}}\nsources: {{s: {source}}}\n"
        "rules: {kind: directory, path: rules}\nsinks: [{kind: console}]\n"
    )
    (found,) = registry_findings(load_pipeline(text, "pipeline.yaml", str), {"PASSWORD": "s3cret"})
    return found.status, found.found, found.advice


def test_whether_a_registry_answers() -> None:
    with fake_registry() as registry:
        plain = f"{{url: '{registry.url}'}}"
        answers = "answers; stream s is read by its schemas"
        assert finding(plain) == ("ok", answers, "nothing to do")
        registry.login = ("reader", "s3cret")
        assert finding(f"{{url: '{registry.url}', username: reader, password_env: PASSWORD}}")[:2] == ("ok", answers)
        status, found, _ = finding(plain)
        assert status == "missing"
        assert "answers 401" in found
        registry.down()
        status, found, advice = finding(plain)
        assert (status, advice) == ("missing", "is it running, is `registry` of source s right?")
        assert "does not answer: Connection refused" in found
    assert finding("{url: 'https://r', username: u, password_env: NOT_SET}")[0] == "missing"
