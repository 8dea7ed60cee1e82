"""Generated Avro records decode to the records that were generated."""

from __future__ import annotations

import json
from typing import Any

import pytest
import typer
from typer.testing import CliRunner, Result

from crossline.basics.errors import UsageError
from crossline.cli.generate import register
from crossline.generate.cards import CardWorkload
from crossline.generate.source import Workload
from crossline.generate.tx import TxWorkload
from crossline.ingest.avro.document import document
from crossline.ingest.avro.schema import read_schema
from crossline.ingest.avro.wire import schema_id
from crossline.io.registry.client import RegistryClient

from .kafka_mock import mock_brokers, read_topic  # noqa: F401 - a fixture
from .registry_fake import fake_registry


def run(*arguments: str) -> Result:
    app = typer.Typer()
    register(app)
    return CliRunner().invoke(app, ["generate", *arguments], catch_exceptions=False)


@pytest.mark.parametrize(("name", "workload"), [("tx", TxWorkload(with_device=True)), ("cards", CardWorkload())])
def test_records_of_avro_are_those_of_json(mock_brokers: str, name: str, workload: Workload) -> None:  # noqa: F811
    topic = f"avro-{name}"
    more = ["--with-device"] if name == "tx" else []
    with fake_registry() as registry:
        where = ["--brokers", mock_brokers, "--topic", topic, "--registry", registry.url]
        done = run(name, "--records", "300", *more, *where, "--json")
        assert registry.asked == [f"/subjects/{topic}-value/versions"]
        schemas: dict[int, Any] = {1: read_schema(RegistryClient((registry.url,)).schema(1).texts)}
    assert json.loads(done.stdout)["records"] == 300
    values = [message.value() for message in read_topic(mock_brokers, topic)]
    assert {schema_id(value) for value in values} == {1}
    found = [document(schemas, value) for value in values]
    expected = [json.loads(line) for line in workload.lines(0, 300).splitlines()]
    assert sorted(found, key=str) == sorted(expected, key=str)


def test_what_is_refused() -> None:
    with pytest.raises(UsageError, match="--registry needs --brokers and --topic"):
        run("tx", "--records", "1", "--output", "-", "--registry", "http://r")
    where = ["--brokers", "127.0.0.1:1", "--topic", "t"]
    with pytest.raises(UsageError, match=r"the registry's address: .* expected http:// or https://") as refused:
        run("tx", "--records", "1", *where, "--registry", "http://me:hunter2@r,ftp://x")
    assert "hunter2" not in str(refused.value)
