"""`make services` for Redis and PostgreSQL: separate processes, which other processes can list and end."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Self

import psycopg
import pytest
import redis
from dev.services import group
from dev.services.group import ServerGroup, services_folder
from dev.services.members import MEMBERS, Member
from dev.services.supervision import HOST, Home, end, free_ports, is_free, running

from crossline.basics.errors import PermanentError, UsageError
from crossline.runtime.machine.temporary_folders import own_folder_for

pytestmark = pytest.mark.xdist_group("services")
ROOT = Path(__file__).parents[2]
NAMES = ("redis", "postgres")


class Services:
    """The command, over a folder and ports of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.redis_port, self.postgres_port = free_ports(2)

    @property
    def environment(self) -> Mapping[str, str]:
        ports = {"CROSSLINE_REDIS_PORT": str(self.redis_port), "CROSSLINE_POSTGRES_PORT": str(self.postgres_port)}
        return {**os.environ, **ports}

    @property
    def group(self) -> ServerGroup:
        return ServerGroup(self.folder, self.environment)

    def run(self, *arguments: str) -> tuple[int, list[str]]:
        """Its exit code, and the lines that it printed."""
        program = f"import sys; import dev.services.__main__ as services; from pathlib import Path; services.services_folder = services.usual_folder = lambda: Path({str(self.folder)!r}); sys.exit(services.main(sys.argv[1:]))"  # noqa: E501 - the checkout's own folder stays as it is
        done = subprocess.run(
            [sys.executable, "-c", program, *arguments],
            cwd=ROOT,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, (done.stdout + done.stderr).splitlines()

    def pids(self) -> list[int | None]:
        return [running(self.folder / name) for name in NAMES]

    def client(self) -> redis.Redis:
        return redis.Redis(HOST, self.redis_port, decode_responses=True)

    def connect(self) -> psycopg.Connection[tuple[object, ...]]:
        password = (self.folder / "postgres" / "password").read_text()
        where = f"postgresql://crossline@{HOST}:{self.postgres_port}/crossline"
        return psycopg.connect(where, password=password, autocommit=True)


@pytest.fixture
def services() -> Iterator[Services]:
    """In a folder that user ``nobody`` cannot enter, as PostgreSQL must under root."""
    with own_folder_for("test") as folder:
        folder.chmod(0o711)
        given = Services(folder / "services")
        try:
            yield given
        finally:
            for name in NAMES:
                end(given.folder / name, signal.SIGKILL, 60)


def test_a_life(services: Services) -> None:
    code, body = services.run("status", *NAMES)
    assert (code, [line.split()[:4] for line in body]) == (1, [[name, "does", "not", "run"] for name in NAMES])
    assert not services.folder.exists()
    code, body = services.run("start", *NAMES)
    assert code == 0, body
    assert f"{HOST}:{services.redis_port}" in "".join(body)
    first = services.pids()
    assert None not in first
    with services.client() as client, services.connect() as connection:  # who started them has ended
        client.set("kept", "1")
        connection.execute("CREATE TABLE kept AS SELECT 1 AS one")
    code, body = services.run("start", *NAMES)
    assert (code, [line.endswith("runs already") for line in body]) == (0, [True, True, False])
    assert services.run("status", *NAMES)[0] == 0
    assert services.pids() == first
    code, body = services.run("clear")
    assert (code, "still run" in body[0]) == (1, True)

    # A server falls: the next start has it back, and leaves the other as it is.
    assert first[0] is not None
    end(services.folder / "redis", signal.SIGKILL, 60)
    assert services.run("status", *NAMES)[0] == 1
    assert services.run("start", *NAMES)[0] == 0
    assert services.pids()[1] == first[1]
    assert services.pids()[0] not in {None, first[0]}

    code, body = services.run("stop", *NAMES)
    assert (code, sorted(body)) == (0, ["postgres  stopped", "redis     stopped"])
    assert services.pids() == [None, None]
    assert [is_free(port) for port in (services.redis_port, services.postgres_port)] == [True, True]
    assert sorted(services.run("stop", *NAMES)[1]) == ["postgres  did not run", "redis     did not run"]
    assert services.run("start", *NAMES)[0] == 0
    with services.client() as client, services.connect() as connection:
        assert client.get("kept") == "1"
        assert connection.execute("SELECT one FROM kept").fetchone() == (1,)
    assert services.run("stop")[0] == 0
    assert services.run("clear") == (0, [f"removed {services.folder}"])
    assert not services.folder.exists()


def test_what_is_half_started_is_ended(services: Services) -> None:
    (services.folder / "postgres" / "data").mkdir(parents=True)
    (services.folder / group.MARKER).touch()
    (services.folder / "postgres" / "data" / "PG_VERSION").write_text("9\n")
    code, found = services.run("start", *NAMES)
    assert (code, "is of PostgreSQL 9" in "".join(found)) == (1, True)
    assert services.pids() == [None, None]
    # One whose start was cut off before it was known to answer: it is ended, and started anew.
    assert services.run("start", "redis")[0] == 0
    cut_off = running(services.folder / "redis")
    (services.folder / "redis" / "ready").unlink()
    assert [(each.pid, each.address) for each in services.group.states(["redis"])] == [(cut_off, None)]
    assert services.run("start", "redis")[0] == 0
    assert running(services.folder / "redis") not in {None, cut_off}


def test_ports_that_are_taken_are_reported_all_at_once(services: Services) -> None:
    with socket.socket() as one, socket.socket() as other:
        for each, port in ((one, services.redis_port), (other, services.postgres_port)):
            each.bind((HOST, port))
            each.listen()
        with pytest.raises(UsageError) as caught:
            services.group.start(NAMES, lambda *_: None)
    assert str(caught.value) == (
        f"these ports of {HOST} are taken by other programs; end those, or:\n"
        f"  {services.redis_port}, the port of redis: name another with CROSSLINE_REDIS_PORT\n"
        f"  {services.postgres_port}, the port of postgres: name another with CROSSLINE_POSTGRES_PORT"
    )
    services.postgres_port = services.redis_port
    with pytest.raises(UsageError, match=r"two services have the same port \d+: redis, postgres"):
        services.group.start(NAMES, lambda *_: None)


@pytest.mark.parametrize("given", ["x", "0", "65536", "-1", "19092 ", "\uff11"])
def test_what_is_no_port_is_reported(given: str) -> None:
    (redis_member,) = (each for each in MEMBERS if each.name == "redis")
    with pytest.raises(UsageError, match=r"CROSSLINE_REDIS_PORT is '.*'; expected a port, such as 16379"):
        redis_member.port_in({"CROSSLINE_REDIS_PORT": given})


def test_ports_of_members_do_not_meet() -> None:
    taken = [each.port_in({}) + n for each in MEMBERS for n in range(each.ports)]
    assert len(set(taken)) == len(taken)


def test_one_at_a_time_and_only_in_its_own_folder(tmp_path: Path) -> None:
    group = ServerGroup(tmp_path / "services", {}, [])
    group.start([], lambda *_: None)
    with (
        group._locked(),
        pytest.raises(PermanentError, match=r"another start or stop is at work in .*: wait for it, and try again"),
    ):
        group.start([], lambda *_: None)
    (tmp_path / "mine").write_text("not a server's")
    with pytest.raises(UsageError, match="is not empty, and no services made it"):
        ServerGroup(tmp_path, {}, []).start([], lambda *_: None)
    assert not ServerGroup(tmp_path, {}, []).clear()
    with pytest.raises(UsageError, match="there is no service 'kafak'; there are kafka, registry, "):
        ServerGroup(tmp_path, {}).chosen(["kafak"])


def test_a_failure_ends_what_others_still_start(tmp_path: Path) -> None:
    """Each waits for the other: if one fails, the other, which would wait for long, is ended."""
    begun = threading.Event()

    class Waits:
        def __init__(self, folder: Path, _: int) -> None:
            self.folder = folder

        def __enter__(self) -> Self:
            home = Home.open("waits", self.folder, alone=True)
            process = home.start(["sleep", "600"], self.folder / "log")
            begun.set()
            assert process.wait(60) == -signal.SIGTERM
            raise PermanentError("it was ended")

        def __exit__(self, *_: object) -> None:
            """Nothing is left."""

    class Fails(Waits):
        def __enter__(self) -> Self:
            assert begun.wait(60)
            raise PermanentError("it cannot be")

    ports = free_ports(2)
    members = [
        Member(name, port, signal.SIGTERM, "", made)
        for name, port, made in zip(("waits", "fails"), ports, (Waits, Fails), strict=True)
    ]
    with pytest.raises(PermanentError, match="it cannot be"):
        ServerGroup(tmp_path / "services", {}, members).start([], lambda *_: None)
    assert running(tmp_path / "services" / "waits") is None


def test_where_the_data_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usual = tmp_path / ".cache" / "services"
    monkeypatch.setattr(group, "can_enter", lambda *_: True)
    assert services_folder({}, tmp_path) == usual
    chosen = tmp_path / "chosen"
    assert services_folder({"CROSSLINE_SERVICES": str(chosen)}, tmp_path) == chosen
    assert usual.readlink() == chosen
    assert services_folder({}, tmp_path) == chosen, "stop finds what start chose"
    usual.unlink()
    usual.mkdir()
    with pytest.raises(UsageError, match=f"data of services lies in {usual} already"):
        services_folder({"CROSSLINE_SERVICES": str(chosen)}, tmp_path)
    usual.rmdir()
    monkeypatch.setattr(group, "identity", lambda: "nobody")
    monkeypatch.setattr(group, "can_enter", lambda *_: False)
    elsewhere = services_folder({}, tmp_path)
    assert elsewhere.parent.parts == ("/", "var", "tmp")
    assert usual.readlink() == elsewhere
