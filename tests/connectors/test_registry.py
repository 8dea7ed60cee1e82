"""Schemas of a registry over HTTP: cached, awaited, invalid."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from crossline.basics.errors import PermanentError, SourceError
from crossline.ingest.avro.schema import Node
from crossline.io.objects.file_stores import file_store
from crossline.io.registry import schema_store as stores
from crossline.io.registry.avro_decoder import AvroDecoder
from crossline.io.registry.client import RegistryClient, UnknownSchemaError
from crossline.io.registry.schema_store import SchemaStore
from crossline.settings.registry import RegistrySettings

from .registry_fake import FakeRegistry, fake_registry
from .trickling import trickling

AMOUNT = {"type": "record", "name": "Amount", "fields": [{"name": "amount", "type": "long"}]}
NO_SUCH = "found schema {}, which the registry does not know"


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    with fake_registry() as fake:
        yield fake


@pytest.fixture(params=["a folder", "a store"])
def store(request: pytest.FixtureRequest, registry: FakeRegistry, tmp_path: Path) -> SchemaStore:
    """What is kept lies in a folder, or where tasks of other machines reach it by its URI."""
    folder = tmp_path / "schemas"
    place = str(folder) if request.param == "a folder" else folder.as_uri()
    return SchemaStore.of(RegistrySettings(url=registry.url), place, {})


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "RETRY_S", (0.0, 0.0))
    monkeypatch.setattr(stores, "PAUSE_S", 0.001)
    monkeypatch.setattr(stores, "PAUSE_S_MAX", 0.001)
    forgotten()


def forgotten() -> None:
    """As a process that has just started."""
    stores._known.clear()
    stores._unknown.clear()


def test_a_schema_is_asked_for_once_for_ever(registry: FakeRegistry, store: SchemaStore) -> None:
    registry.add(7, AMOUNT)
    found = store.schemas([7, 7])
    assert isinstance(found[7], Node)
    assert store.schemas([7])[7] is found[7]
    assert registry.asked == ["/schemas/ids/7"]
    registry.down()
    forgotten()
    again = store.schemas([7])[7]
    assert isinstance(again, Node)
    assert [name for name, _ in again.fields] == ["amount"]


@pytest.mark.parametrize("head", [b"HTTP/1.1 200 OK\r\nX-Slow: ", b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n{"])
def test_an_endless_answer_does_not_block_the_next_address(registry: FakeRegistry, head: bytes) -> None:
    registry.add(7, AMOUNT)
    with trickling(head) as slow:
        there = RegistryClient((f"http://127.0.0.1:{slow.port}", registry.url), answer_s_max=1.0)
        assert json.loads(there.schema(7).texts[0]) == AMOUNT
        assert slow.asked.is_set()
        with pytest.raises(SourceError, match="does not answer: it took too long"):
            RegistryClient((f"http://127.0.0.1:{slow.port}",), answer_s_max=0.2).schema(7)


def test_a_damaged_note_is_asked_for_again(registry: FakeRegistry, store: SchemaStore) -> None:
    registry.add(7, AMOUNT)
    store.schemas([7])
    forgotten()
    file_store(store.folder).put("7.json", b'{"texts": ')
    assert isinstance(store.schemas([7])[7], Node)


@pytest.mark.parametrize(
    "fault",
    [
        None,
        (500, b"oops"),
        (503, b'{"error_code": 50003, "message": "forwarding to the leader failed"}'),
        (404, b"<html>default backend</html>"),
        (404, b'{"error_code": 404, "message": "HTTP 404 Not Found"}'),
        (302, b""),
        (200, b"<html>log in</html>"),
        (200, b"[1]"),
        (200, b'{"schema": 5, "references": 7}'),
        (429, b""),
    ],
)
def test_a_registry_that_is_away_holds_the_batch(
    registry: FakeRegistry, store: SchemaStore, fault: tuple[int, bytes] | None
) -> None:
    registry.add(7, AMOUNT)
    registry.faults = [fault, fault]
    with capture_logs() as logged:
        assert isinstance(store.schemas([7])[7], Node)
    assert [each["event"] for each in logged] == ["the registry is away; holding the batch"] * 2
    assert all(each["schema"] == 7 and each["error"] for each in logged)
    assert registry.url in logged[0]["error"] or "cannot be read" in logged[0]["error"]


def test_a_registry_that_is_down_is_waited_for(registry: FakeRegistry, store: SchemaStore) -> None:
    registry.add(7, AMOUNT)
    registry.down()
    found: list[Any] = []
    with capture_logs() as logged:
        waiting = threading.Thread(target=lambda: found.append(store.schemas([7])))
        waiting.start()
        while not logged:
            waiting.join(0.001)
        assert not found
        registry.up()
        waiting.join(60)
    assert isinstance(found[0][7], Node)
    assert "Connection refused" in logged[0]["error"]


def test_who_is_in_a_hurry_is_reported_at_once(registry: FakeRegistry, store: SchemaStore) -> None:
    registry.down()
    with pytest.raises(SourceError, match="does not answer: Connection refused"):
        store.hurried().schemas([7])
    with pytest.raises(SourceError, match="does not answer"):
        store.hurried().looked_up(7)
    assert store.kept(7) is None


def test_the_next_of_several_is_asked(registry: FakeRegistry, tmp_path: Path) -> None:
    with fake_registry() as other:
        url = f"{other.url}/, {registry.url}"
        other.down()
        registry.add(7, AMOUNT)
        store = SchemaStore.of(RegistrySettings(url=url), str(tmp_path), {})
        assert isinstance(store.schemas([7])[7], Node)


def test_an_unknown_number_is_asked_for_again_before_it_is_believed(registry: FakeRegistry, store: SchemaStore) -> None:
    found = store.schemas([9, -4, 0])
    assert found == {number: NO_SUCH.format(number) for number in (9, -4, 0)}
    assert registry.asked == ["/schemas/ids/9"] * 3
    unknown = (404, b'{"error_code": 40403, "message": "not yet"}')
    registry.add(8, AMOUNT)
    registry.faults = [unknown]
    assert isinstance(store.schemas([8])[8], Node)


def test_an_unknown_number_stays_unknown_in_its_batch_alone(registry: FakeRegistry, store: SchemaStore) -> None:
    """A batch that is run again, by whichever process, is the same batch."""
    assert store.schemas([9], batch_id=3) == {9: NO_SUCH.format(9)}
    registry.add(9, AMOUNT)
    forgotten()
    assert store.schemas([9], batch_id=3) == {9: NO_SUCH.format(9)}
    assert isinstance(store.schemas([9], batch_id=4)[9], Node)
    store.schemas([1_000], batch_id=50)
    assert file_store(store.folder).folders("not-known") == ["50"]


def test_a_crowd_of_unknown_numbers_is_asked_for_once(registry: FakeRegistry, store: SchemaStore) -> None:
    store.schemas(range(1, 101))
    assert len(registry.asked) == 100
    del registry.asked[:]
    store.schemas([1, 2], batch_id=1)
    assert registry.asked == ["/schemas/ids/1", "/schemas/ids/2"]


def test_a_reader_needs_only_the_cached_schemas(registry: FakeRegistry, store: SchemaStore) -> None:
    registry.add(7, AMOUNT)
    registry.add(8, AMOUNT)
    store.schemas([7])
    gone: list[str] = []
    look = AvroDecoder(store, gone)
    assert look(b"\0\0\0\0\x08\x02") == {"amount": 1}
    registry.down()
    assert look(b"\0\0\0\0\x07\x04") == {"amount": 2}
    assert [look(each) for each in (b"", b"{}", b"\0\0\0\0\x09\x04", b"\0\0\0\0\x0a\x04")] == [None] * 4
    assert len(gone) == 1
    assert "records of schema 9 could not be read: the registry" in gone[0]


def test_schemas_that_are_none_of_avro_are_refused_for_good(registry: FakeRegistry, store: SchemaStore) -> None:
    registry.add(1, "syntax", schemaType="PROTOBUF")
    registry.add(2, {"type": "nope"})
    registry.add(3, AMOUNT, references=[{"name": "Place", "subject": "place", "version": 1}])
    expected = {
        1: "schema 1 of the registry is one of PROTOBUF, expected one of Avro",
        2: "schema 2 cannot be read: it names the type nope, which is not in it",
        3: "schema 3 refers to schemas that the registry has not",
    }
    assert store.schemas([1, 2, 3]) == expected
    registry.down()
    forgotten()
    assert store.schemas([1, 2, 3]) == expected


def test_what_a_schema_refers_to_comes_first(registry: FakeRegistry, store: SchemaStore) -> None:
    colour = {"type": "enum", "name": "Colour", "symbols": ["RED"]}
    place = {"type": "record", "name": "Place", "fields": [{"name": "colour", "type": "Colour"}]}
    whole = {
        "type": "record",
        "name": "Whole",
        "fields": [{"name": "p", "type": "Place"}, {"name": "c", "type": "Colour"}],
    }
    to_colour = {"name": "Colour", "subject": "a/colour", "version": 2}
    to_place = {"name": "Place", "subject": "place", "version": 1}
    registry.versions["a%2Fcolour", 2] = {"schema": json.dumps(colour)}
    registry.versions["place", 1] = {"schema": json.dumps(place), "references": [to_colour]}
    registry.add(5, whole, references=[to_place, to_colour])
    found = store.schemas([5])[5]
    assert isinstance(found, Node)
    assert [inner.kind for _, inner in found.fields] == ["record", "enum"]


def test_who_asks_gives_name_and_password(registry: FakeRegistry, tmp_path: Path) -> None:
    registry.login = ("reader", "s3cret")
    registry.add(7, AMOUNT)
    settings = RegistrySettings(url=registry.url, username="reader", password_env="PASSWORD")
    store = SchemaStore.of(settings, str(tmp_path), {"PASSWORD": "s3cret"})
    assert isinstance(store.schemas([7])[7], Node)
    assert "s3cret" not in repr(store)
    with pytest.raises(PermanentError, match=r"ca_file nowhere.pem of the registry: found no such file"):
        SchemaStore.of(RegistrySettings(url=registry.url, ca_file="nowhere.pem"), str(tmp_path), {})
    wrong = SchemaStore.of(settings, str(tmp_path / "other"), {"PASSWORD": "wrong"})
    with pytest.raises(PermanentError, match=r"answers 401 to GET /schemas/ids/7: who are you.*see `username`"):
        wrong.schemas([7])
    with pytest.raises(PermanentError, match="environment variable PASSWORD"):
        SchemaStore.of(settings, str(tmp_path), {})


def test_a_schema_is_registered(registry: FakeRegistry) -> None:
    address = RegistryClient((registry.url,))
    number = address.register("payments-value", json.dumps(AMOUNT))
    assert json.loads(address.schema(number).texts[0]) == AMOUNT
    registry.faults = [(409, b'{"error_code": 409, "message": "incompatible"}')]
    with pytest.raises(PermanentError, match=r"answers 409 .* incompatible"):
        address.register("payments-value", "{}")
    with pytest.raises(UnknownSchemaError):
        address.schema(99)
