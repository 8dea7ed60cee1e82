"""The contract of file stores: local disk, object store, stores that rename."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyarrow import fs as pafs

from crossline.basics.errors import StateError, StoppedError, UsageError
from crossline.basics.texts.uris import check_uri
from crossline.io.objects import file_stores
from crossline.io.objects.file_stores import (
    FileStore,
    LocalFiles,
    ObjectFiles,
    StoreUnavailableError,
    file_store,
    retry_until_available,
    store_error_of,
)
from crossline.io.objects.location import StoreLocation, location_of, under

from .trickling import trickling

if TYPE_CHECKING:
    from dev.services.s3 import LocalS3


DEEP = os.environ.get("CROSSLINE_DEEP") == "1"
HDFS_DEEP = "a Hadoop of 40 MB is fetched and started; CROSSLINE_DEEP=1 runs it"


@pytest.fixture(
    params=["disk", "renamed", "s3", pytest.param("hdfs", marks=pytest.mark.skipif(not DEEP, reason=HDFS_DEEP))]
)
def store(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FileStore:
    if request.param == "disk":
        return LocalFiles(tmp_path / "store")
    if request.param == "renamed":
        return ObjectFiles(StoreLocation(pafs.LocalFileSystem(), str(tmp_path / "store"), whole=False), "renamed")
    if request.param == "hdfs":
        return file_store(f"{request.getfixturevalue('name_node')}/contract-{tmp_path.name}")
    server: LocalS3 = request.getfixturevalue("s3_server")
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    return file_store(f"s3://{server.bucket}/contract-{tmp_path.name}")


def test_what_is_put_is_there_whole_and_is_replaced_whole(store: FileStore) -> None:
    assert store.names() == store.folders() == store.names("a") == []
    store.put("a/one", b"1")
    store.put("a/two", b"")
    store.put("a/b/three", bytes(9_000_000))  # more than one request, where those have a size
    store.put("a/one", b"another")
    assert store.get("a/one") == b"another"
    assert store.get("a/two") == b""
    assert store.get("a/b/three") == bytes(9_000_000)
    assert store.names("a") == ["one", "two"]
    assert store.names() == []
    assert store.folders("a") == ["b"]
    assert store.folders() == ["a"]
    assert store.below("a") == ["b/three", "one", "two"]
    assert store.below("never") == []


def test_what_is_deleted_is_gone_and_what_is_not_there_is_reported(store: FileStore) -> None:
    for name in ("a/one", "a/b/two", "a/b/c/three", "ab"):
        store.put(name, name.encode())
    store.delete("a/one")
    store.delete("a/one")
    store.delete("never/there")
    store.clear("a/b")
    store.clear("never/there")
    assert store.names("a") == store.names("a/b") == store.names("a/b/c") == []
    assert store.names() == ["ab"]
    with pytest.raises(FileNotFoundError):
        store.get("a/one")
    with pytest.raises(FileNotFoundError):
        store.get("never/there")


def test_files_are_listed_with_when_they_were_put(store: FileStore) -> None:
    store.put("a/one", b"1")
    store.put("a/two", b"2")
    (one_ms, two_ms) = store.listed("a").values()
    assert 0 <= two_ms - one_ms < 600_000
    assert one_ms > 1_600_000_000_000


def test_many_at_once_each_see_a_file_whole(store: FileStore) -> None:
    bodies = [bytes([number]) * 20_000 for number in range(4)]
    store.put("one", bodies[0])
    seen: list[bytes] = []

    def work(body: bytes) -> None:
        for _ in range(5):
            retry_until_available(lambda: store.put("one", body))
            seen.append(retry_until_available(lambda: store.get("one")))

    threads = [threading.Thread(target=work, args=(body,)) for body in bodies]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen) == 20
    assert set(seen) <= set(bodies)
    assert store.names() == ["one"]


def test_a_refusal_is_for_good_and_a_silence_is_not(s3_server: LocalS3, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {**s3_server.environment, "AWS_SECRET_ACCESS_KEY": "another"}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(StateError, match=r"the store refuses: .*check that it is there") as refused:
        file_store(f"s3://{s3_server.bucket}/refused").put("one", b"")
    assert "another" not in str(refused.value)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", s3_server.secret_key)
    with pytest.raises(StateError, match="NO_SUCH_BUCKET"):
        file_store("s3://no-such-bucket/p").put("one", b"")
    unreachable = f"s3://{s3_server.bucket}/silent?endpoint=http://127.0.0.1:1"
    with pytest.raises(StoreUnavailableError, match="NETWORK_CONNECTION"):
        file_store(unreachable).put("one", b"")


def test_who_waits_for_a_store_can_be_stopped_and_goes_on_once_it_is_back() -> None:
    stop, tries = threading.Event(), iter([StoreUnavailableError("away"), StoreUnavailableError("away"), None])

    def call() -> str:
        if (error := next(tries)) is not None:
            raise error
        return "back"

    assert retry_until_available(call, stop) == "back"
    stop.set()
    with pytest.raises(StoppedError, match="stopped while a store was away"):
        retry_until_available(lambda: (_ for _ in ()).throw(StoreUnavailableError("away")), stop)
    with pytest.raises(StoreUnavailableError):
        retry_until_available(lambda: (_ for _ in ()).throw(StoreUnavailableError("away")), within_s=0)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("AWS Error SLOW_DOWN during PutObject operation", StoreUnavailableError),
        ("AWS Error UNKNOWN (HTTP status 503) during PutObject operation", StoreUnavailableError),
        ("AWS Error NETWORK_CONNECTION during HeadObject operation: curlCode: 28", StoreUnavailableError),
        ("AWS Error ACCESS_DENIED during HeadObject operation: No response body.", StateError),
        ("AWS Error UNKNOWN (HTTP status 400) during PutObject operation", StateError),
    ],
)
def test_failures_are_reported_apart(text: str, kind: type[Exception]) -> None:
    assert type(store_error_of(OSError(text), "here")) is kind


def test_places_below_a_root() -> None:
    assert under("/a/b/", "state", "pasts") == "/a/b/state/pasts"
    assert under("s3://bucket/p?endpoint=http://e:1", "state") == "s3://bucket/p/state?endpoint=http://e:1"


@pytest.mark.parametrize(
    ("uri", "found"),
    [
        ("s3://user:secret@bucket/p", "a secret"),
        ("s3://bucket/p?endpoint=http://user:secret@host", "a secret"),
        ("gs://bucket/p", "a URI of scheme gs"),
        ("s3://bucket", "without a path of its own"),
        ("s3://bucket/p?secret_key=a", "the setting secret_key in a URI"),
        ("s3://bucket/../p", "a URI with # or .."),
    ],
)
def test_uris_that_lead_nowhere(uri: str, found: str) -> None:
    wrong = check_uri(uri)
    assert wrong is not None
    assert found in wrong[0]
    assert "secret@" not in str(wrong)


@pytest.mark.parametrize("uri", ["s3://bucket/p", "s3a://b/p/q?endpoint=http://e:1&region=r", "hdfs://n:8020/p"])
def test_uris_of_places(uri: str) -> None:
    assert check_uri(uri) is None


def test_an_unknown_uri_is_reported_without_repeating_it() -> None:
    with pytest.raises(UsageError, match="a place with a URI of gopher:// cannot be reached") as raised:
        location_of("gopher://user:secret@host/p")
    assert "secret" not in str(raised.value)


def test_a_store_whose_answer_never_ends_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_stores, "ANSWER_S_MAX", 0.5)
    with trickling(b"HTTP/1.1 200 OK\r\nX-Slow: ") as slow:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{slow.port}")
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "k")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s")
        store = file_store(f"s3://bucket/slow-{slow.port}")
        for ask in (lambda: store.get("a"), lambda: store.put("a", b"1"), store.names):
            with pytest.raises(StoreUnavailableError, match=r"no whole answer in 0\.5 s"):
                ask()
