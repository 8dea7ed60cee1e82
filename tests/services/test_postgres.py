"""The local PostgreSQL: checks passwords, keeps its data over a crash, ends with its owner."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from dev.services import postgres as module
from dev.services.postgres import LocalPostgres
from dev.services.postgres_binaries import find_binaries

from crossline.basics.errors import PermanentError
from crossline.runtime.machine.temporary_folders import own_folder_for

pytestmark = pytest.mark.xdist_group("postgres")
WAIT_S = 60.0
_OWNER = """
import sys
from dev.services.postgres import LocalPostgres
with LocalPostgres(brief=True) as server:
    print(server.pid, server.folder, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """One that others may pass through: pytest closes its own."""
    with own_folder_for("test") as folder:
        folder.chmod(0o711)
        yield folder


def test_it_listens_on_loopback_and_asks_for_the_password(postgres_server: LocalPostgres) -> None:
    with postgres_server.connect() as connection:
        shown = connection.execute(
            "SELECT current_setting('listen_addresses'), current_setting('port')::int"
        ).fetchone()
    assert shown == ("127.0.0.1", postgres_server.port)
    assert postgres_server.password_file.stat().st_mode & 0o077 == 0
    assert postgres_server.password not in postgres_server.url
    for password in ("", "wrong"):
        with pytest.raises(psycopg.OperationalError, match="password"):
            psycopg.connect(postgres_server.url, password=password)


def test_it_does_not_run_as_root(postgres_server: LocalPostgres) -> None:
    if not Path("/proc").is_dir():
        pytest.skip("no /proc")
    assert Path(f"/proc/{postgres_server.pid}").stat().st_uid != 0


def test_a_folder_of_one_s_own_stays_and_what_was_committed_is_in_it(open_folder: Path) -> None:
    folder = open_folder / "pg"
    with LocalPostgres(folder, brief=True) as server:
        password, port = server.password, server.port
        with server.connect() as connection:
            connection.execute("CREATE TABLE kept AS SELECT 1 AS one")
        server.kill()
        assert server.pid is None
        server.start()
        with server.connect() as connection:
            connection.execute("INSERT INTO kept VALUES (2)")
    with LocalPostgres(folder, port=port, brief=True) as server:
        assert (server.password, server.port) == (password, port)
        with server.connect() as connection:
            assert connection.execute("SELECT one FROM kept ORDER BY one").fetchall() == [(1,), (2,)]
    (folder / "data" / "PG_VERSION").write_text("9\n")
    with pytest.raises(PermanentError, match=r"is of PostgreSQL 9, the programs are of \d+; move the folder away"):
        LocalPostgres(folder).__enter__()


def test_a_folder_closed_to_user_nobody_is_reported(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("not as root: PostgreSQL runs as we do")
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    with pytest.raises(PermanentError, match=f"nobody cannot enter {closed / 'pg'}: name a folder elsewhere"):
        LocalPostgres(closed / "pg").__enter__()


def test_programs_closed_to_user_nobody_are_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a checkout below the home of root."""
    if os.geteuid() != 0:
        pytest.skip("not as root: PostgreSQL runs as we do")
    entered = module.can_enter
    monkeypatch.setattr(module, "can_enter", lambda who, path: "site-packages" not in str(path) and entered(who, path))
    if "site-packages" not in str(find_binaries().folder):
        pytest.skip("the programs are the system's")
    with LocalPostgres(brief=True) as server, server.connect() as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
        assert str(server.folder) in str(Path(f"/proc/{server.pid}/exe").readlink())


def test_the_server_goes_with_its_owner() -> None:
    with subprocess.Popen([sys.executable, "-c", _OWNER], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as owner:
        assert owner.stdout is not None
        pid, folder = owner.stdout.readline().decode().split()
        os.kill(int(pid), 0)
        owner.send_signal(signal.SIGKILL)  # nothing that the owner could do about it itself
        owner.stdout.read()
    _await(lambda: not Path(f"/proc/{pid}").exists() and not Path(folder).exists())


def _await(condition: Callable[[], bool]) -> None:
    """Neither process is our child: there is no event to wait for, so look until the time is up."""
    deadline_s = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline_s
        time.sleep(0.02)


def test_outside_of_with_there_is_no_server() -> None:
    with pytest.raises(PermanentError, match="use it as `with LocalPostgres\\(\\) as server:`"):
        _ = LocalPostgres().folder
