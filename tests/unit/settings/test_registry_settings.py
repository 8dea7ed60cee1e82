"""Where a registry is: what is taken, what is refused, and what is not printed."""

from __future__ import annotations

import pytest

from crossline.basics.texts.problems import RefusedError
from crossline.settings.config import load_pipeline
from crossline.settings.registry import RegistrySettings
from crossline.settings.watch import OtlpSettings
from crossline.settings.webhook import WebhookSettings

PIPELINE = """\
schema_version: 1
name: payments
streams:
  payments: {format: %s, id: id, event_time: {field: at}, fields: {id: string, at: integer}}
sources:
  payments:
    kind: kafka
    brokers: localhost:9092
    topic: payments
%s
rules: {kind: directory, path: rules/}
sinks:
  - {kind: sqlite, path: out/crossline.db}
"""


def load(form: str, registry: str) -> RegistrySettings | None:
    text = PIPELINE % (form, f"    {registry}" if registry else "")
    source = load_pipeline(text, "pipeline.yaml", str).sources["payments"]
    assert source.kind == "kafka"
    return source.registry


def refused(form: str, registry: str) -> str:
    with pytest.raises(RefusedError) as caught:
        load(form, registry)
    return str(caught.value)


def test_the_key_of_what_the_api_sends_is_a_field_of_the_record() -> None:
    source = load_pipeline(PIPELINE % ("json", "    key: id"), "pipeline.yaml", str).sources["payments"]
    assert source.kind == "kafka"
    assert source.key == "id"
    reported = refused("json", "key: ident")
    assert "sources.payments.key" in reported
    assert 'found "ident"; expected a field of stream payments' in reported


def test_addresses() -> None:
    settings = load("avro", "registry: {url: 'https://one:8081/api/ , http://two/', ca_file: ca.pem}")
    assert settings is not None
    assert settings.urls == ["https://one:8081/api", "http://two"]
    assert load("json", "") is None


@pytest.mark.parametrize(
    ("form", "registry", "text"),
    [
        ("avro", "", "found no registry; expected the schema registry of a stream of format avro"),
        (
            "json",
            "registry: {url: http://r}",
            "found a registry for records of json; expected a stream of format: avro",
        ),
        ("avro", "registry: {url: ftp://r}", "expected http:// or https://, a host, and the path above /schemas"),
        ("avro", "registry: {url: 'http://'}", "expected http:// or https://"),
        ("avro", "registry: {url: 'http://r:abc'}", "found an address that cannot be read"),
        ("avro", "registry: {url: 'http://r?x=1'}", "expected http:// or https://"),
        ("avro", "registry: {url: ' , '}", "expected http:// or https://"),
        ("avro", "registry: {}", "expected field url, which is required"),
        (
            "avro",
            "registry: {url: http://r, username: u}",
            "found a username without a password; expected both or neither",
        ),
        ("avro", "registry: {url: http://r, password_env: P}", "found a password without a username"),
        ("avro", "registry: {url: http://r, username: u, password_env: P, password_file: f}", "expected one of them"),
        (
            "avro",
            "registry: {url: 'https://a,http://r:8081/api', username: u, password_env: P}",
            "found http:// to r; expected https://, for a password is sent there",
        ),
        ("avro", "registry: {url: 'http://10.0.0.7', username: u, password_file: f}", "found http:// to 10.0.0.7"),
        ("avro", "registry: {url: 'http://localhost.evil', username: u, password_env: P}", "http:// to localhost.evil"),
        ("avro", "registry: {url: 'http://127.0.0.1.evil', username: u, password_env: P}", "http:// to 127.0.0.1.evil"),
    ],
)
def test_what_is_refused(form: str, registry: str, text: str) -> None:
    assert text in refused(form, registry)


@pytest.mark.parametrize(
    "url", ["http://localhost:8081", "http://127.0.0.1", "http://127.0.0.2/x", "http://[::1]:8081"]
)
def test_a_password_goes_in_the_clear_to_this_machine_alone(url: str) -> None:
    """As that of a webhook and of a collector do: one rule says what this machine is."""
    more = {"url": url, "password_env": "P"}
    assert RegistrySettings(username="u", **more).urls == [url]
    assert WebhookSettings(kind="webhook", parked="p", **more).url == url
    assert OtlpSettings(endpoint=url, password_env="P").endpoint == url


def test_no_secret_stands_in_a_report() -> None:
    found = refused("avro", "registry: {url: 'http://me:hunter2@r'}")
    assert "no user and no password in an address" in found
    assert "hunter2" not in found
    with_key = refused("avro", "registry: {url: http://r, password: hunter2}")
    assert "hunter2" not in with_key
