"""A real PostgreSQL on this machine for tests, measurements and demonstrations, on loopback."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Self

import psycopg

from crossline.basics.errors import PermanentError, SinkError
from dev.services.postgres_binaries import Binaries, Identity, can_enter, environment, find_binaries, identity, run_as
from dev.services.server import Server
from dev.services.supervision import HOST, Home, end_in_order, free_ports

USER = DATABASE = "crossline"
_START_S_MAX = 60.0
_STOP_S_MAX = 20.0
_LOOK_S = 0.02
_LOG_TAIL = 15
_AS_ANOTHER = "import os, sys; os.setgroups([]); os.setgid(int(sys.argv[1])); os.setuid(int(sys.argv[2])); os.execv(sys.argv[3], sys.argv[3:])"  # noqa: E501 - a program
# Settings for tests only: their data need not survive a crash of the machine.
_BRIEF = {"fsync": "off", "full_page_writes": "off", "shared_buffers": "32MB"}
_STILL = "pre-existing shared memory block"


class LocalPostgres(Server):
    """A server as a context manager: ready inside, gone after, its data with it unless ``folder`` names a place for it.

    ``host``, ``port``, ``user``, ``dbname`` and ``password_file`` are what a sink is given; ``url`` has all but the
    password, which is drawn anew for each folder. The server dies with this process, also when that is killed, unless
    it is ``alone`` (see Home). ``kill`` and ``start`` play a crash: what was committed, and the address, stay.
    ``brief``: nothing has to outlive a crash of the machine, and little memory is taken. As root it runs as ``nobody``.
    Raises PermanentError without programs of PostgreSQL, or where the folder cannot be used; SinkError where the server
    does not come up.
    """

    host, user, dbname = HOST, USER, DATABASE

    log_name = "postgres.log"

    def __init__(self, folder: Path | None = None, *, port: int = 0, brief: bool = False, alone: bool = False) -> None:
        super().__init__(folder.absolute() if folder is not None else None, alone=alone)
        self._wanted_port = port
        self._settings = _BRIEF if brief else {}
        self._who: Identity | None = None
        self._binaries: Binaries | None = None
        self.port = port

    def __enter__(self) -> Self:
        self._binaries, self._who = find_binaries(), identity()
        if self._kept is not None:
            self._kept.mkdir(parents=True, exist_ok=True, mode=0o711)
        self._home = Home.open("postgres", self._kept, alone=self._alone)
        try:
            self._make_ready()
            self._come_up(self._begin, "could not bind", fixed=bool(self._wanted_port))
            self._make_database()
        except BaseException:
            self.close()
            raise
        return self

    def _begin(self) -> None:
        if not self._wanted_port:
            (self.port,) = free_ports()
        self.start()

    @property
    def password_file(self) -> Path:
        """Only the password."""
        return self.folder / "password"

    @property
    def password(self) -> str:
        """The password."""
        return self.password_file.read_text(encoding="ascii").strip()

    @property
    def url(self) -> str:
        """The address, without the password."""
        return f"postgresql://{USER}@{HOST}:{self.port}/{DATABASE}"

    def connect(self, dbname: str = DATABASE) -> psycopg.Connection[tuple[object, ...]]:
        """A connection of its owner, which commits each statement."""
        return psycopg.connect(
            host=HOST,
            port=self.port,
            user=USER,
            dbname=dbname,
            password=self.password,
            connect_timeout=10,
            autocommit=True,
        )

    def start(self) -> None:
        """Start the server on its data and address, and wait until it answers."""
        deadline_s = time.monotonic() + _START_S_MAX
        while True:
            log_bytes = self.log_file.stat().st_size if self.log_file.exists() else 0
            self._launch()
            if self._answers(deadline_s):
                return
            code = self.kill()
            # The processes of a killed server take a moment to notice its end.
            if _STILL not in self._log(log_bytes) or time.monotonic() > deadline_s:
                raise SinkError(self._failure(f"PostgreSQL did not come up on port {self.port} (exit code {code})"))
            time.sleep(_LOOK_S)

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stop the server like an operator: open transactions are rolled back, committed ones are on disk."""
        process, self._process = self._process, None
        if process is not None:
            end_in_order(process, how, _STOP_S_MAX)

    def close(self) -> None:
        """Stop the server, and remove its data unless it was given a folder."""
        self.stop(signal.SIGINT if self._kept is not None else signal.SIGQUIT)
        self._remove()

    def _make_ready(self) -> None:
        """Prepare the folder, its permissions, and a new cluster if there is none."""
        if self._who is not None:
            if self._kept is None:
                self.folder.chmod(0o711)
            if not can_enter(self._who, self.folder):
                raise PermanentError(
                    f"PostgreSQL runs as nobody where we are root, and nobody cannot enter {self.folder}: "
                    "name a folder elsewhere, or let others pass through those above it (chmod o+x)"
                )
            if not can_enter(self._who, self._programs.folder):
                self._binaries = self._programs.moved_to(self.folder)
        data = self.folder / "data"
        if not (data / "PG_VERSION").exists():
            self._initialise(data)
        version = int((data / "PG_VERSION").read_text())
        if version != self._programs.version:
            raise PermanentError(
                f"the data in {data} is of PostgreSQL {version}, the programs are of {self._programs.version}; "
                "move the folder away, or bring it over with pg_upgrade"
            )

    def _initialise(self, data: Path) -> None:
        # Created in another folder first: if this is interrupted, the next start begins again.
        made = data.with_name("data.new")
        shutil.rmtree(made, ignore_errors=True)
        self.password_file.unlink(missing_ok=True)
        descriptor = os.open(self.password_file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(secrets.token_urlsafe(24))
        made.mkdir(mode=0o700)
        if self._who is not None:
            for path in (self.password_file, made):
                os.chown(path, self._who.user, self._who.group)
        options = [
            "-U",
            USER,
            "-A",
            "scram-sha-256",
            f"--pwfile={self.password_file}",
            "--no-sync",
            "--no-instructions",
        ]
        form = ["-E", "UTF8", "--locale=C"]
        done = run_as(self._who, [str(self._programs.folder / "initdb"), "-D", str(made), *options, *form])
        if done.returncode:
            raise PermanentError(f"PostgreSQL's data could not be made in {data}:\n{done.stdout.strip()}")
        made.rename(data)

    def _make_database(self) -> None:
        with self.connect("postgres") as connection:
            found = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", (DATABASE,)).fetchone()
            if found is None:
                connection.execute(f"CREATE DATABASE {DATABASE}")

    @property
    def _programs(self) -> Binaries:
        if self._binaries is None:
            raise PermanentError("the server is not open: use it as `with LocalPostgres() as server:`")
        return self._binaries

    def _launch(self) -> None:
        settings = {"listen_addresses": HOST, "port": self.port, "unix_socket_directories": "", **self._settings}
        server = [str(self._programs.folder / "postgres"), "-D", str(self.folder / "data")]
        server += [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        if self._who is not None:
            another = [sys.executable, "-I", "-S", "-c", _AS_ANOTHER, str(self._who.group), str(self._who.user)]
            server = [*another, *server]
        # It is not killed when this process ends, since it would leave shared memory behind.
        self._process = self._opened.start(server, self.log_file, by="QUIT", cwd=Path("/"), environment=environment())

    def _answers(self, deadline_s: float) -> bool:
        """Wait until it accepts connections; False if it ends, or the time is over."""
        process = self._process
        while process is not None and process.poll() is None and time.monotonic() < deadline_s:
            with suppress(psycopg.OperationalError):
                self.connect("postgres").close()
                return True
            time.sleep(_LOOK_S)
        return False

    def _log(self, after: int = 0) -> str:
        return self.log_file.read_bytes()[after:].decode(errors="replace")

    def _failure(self, what: str) -> str:
        lines = self._log().splitlines()[-_LOG_TAIL:]
        return "\n".join([f"{what}; the end of its log:", *(f"  {line}" for line in lines)])
