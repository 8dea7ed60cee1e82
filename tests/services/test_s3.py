"""The local object store: durable objects, signed requests, loopback only."""

from __future__ import annotations

import socket
import uuid
from pathlib import Path

import pyarrow.fs as pafs
import pytest
from dev.services.s3 import REGION, LocalS3

from crossline.basics.errors import PermanentError


def test_outside_of_with_there_is_no_server() -> None:
    with pytest.raises(PermanentError, match="use it as `with LocalS3\\(\\) as server:`"):
        _ = LocalS3().folder


def client(server: LocalS3, secret_key: str) -> pafs.S3FileSystem:
    keys = {"access_key": server.access_key, "secret_key": secret_key}
    where = {"endpoint_override": server.endpoint, "region": REGION}
    return pafs.S3FileSystem(**keys, **where, allow_delayed_open=True)


def test_objects_stay_over_a_crash_and_a_wrong_secret_is_refused(
    s3_server: LocalS3, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)
    mine = client(s3_server, s3_server.secret_key)
    place = f"{s3_server.bucket}/of-this-test/one"
    with mine.open_output_stream(place) as out:
        out.write(b"what was uploaded")
    cut_off = s3_server.data / s3_server.bucket / "of-this-test" / f"one-{uuid.uuid4()}"
    cut_off.write_bytes(b"half")

    s3_server.kill()
    with socket.socket() as asking:
        assert asking.connect_ex((s3_server.host, s3_server.port)) != 0
    s3_server.start()

    assert mine.open_input_file(place).read() == b"what was uploaded"
    found = mine.get_file_info(pafs.FileSelector(f"{s3_server.bucket}/of-this-test"))
    assert [each.base_name for each in found] == ["one"]
    with pytest.raises(OSError, match="ACCESS_DENIED"):
        client(s3_server, "another").get_file_info(place)


def test_it_listens_on_this_machine_alone(s3_server: LocalS3) -> None:
    port = f":{s3_server.port:04X}"
    listening = [
        line.split()[1]
        for table in ("/proc/net/tcp", "/proc/net/tcp6")
        for line in Path(table).read_text(encoding="ascii").splitlines()
        if line.split()[1].endswith(port) and line.split()[3] == "0A"
    ]
    assert listening
    assert all(each.removesuffix(port).endswith("0100007F") for each in listening)
