"""The servers that `make services` starts: their kinds, their ports, how they end."""

from __future__ import annotations

import os
import secrets
import signal
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from crossline.basics.errors import SourceError, UsageError
from dev.services.supervision import HOST

# The topics of examples/payments-kafka, with their partitions.
TOPICS = {"payments": 2, "payments-alerts": 2, "payments-decisions": 2, "payments-dead": 1}
_PORT_MAX = 65_535
_JSON = "application/vnd.schemaregistry.v1+json"


@dataclass(frozen=True, slots=True)
class Member:
    """A server: ``port`` unless the environment names another, ended by ``how``.

    ``make`` gives it for a folder and a port; what it gives is entered, then ``prepared``. ``address`` is what clients
    are given. ``ports``: how many from the first on it takes. ``log``: the stem of its log, by default the name.
    """

    name: str
    port: int
    how: signal.Signals
    address: str
    make: Callable[[Path, int], AbstractContextManager[Any]]
    prepare: Callable[[Any], None] = lambda _: None
    ports: int = 1
    log: str | None = None

    @property
    def variable(self) -> str:
        """The environment variable that names another port."""
        return f"CROSSLINE_{self.name.upper()}_PORT"

    def port_in(self, environment: Mapping[str, str] = os.environ) -> int:
        """Its port; raises UsageError if the variable is not a port."""
        given = environment.get(self.variable, "")
        if not given:
            return self.port
        if not given.isascii() or not given.isdigit() or not 1 <= int(given) <= _PORT_MAX + 1 - self.ports:
            raise UsageError(f"{self.variable} is {given!r}; expected a port, such as {self.port}")
        return int(given)


def _kafka(folder: Path, port: int) -> AbstractContextManager[Any]:
    from dev.services.broker import LocalBroker  # noqa: PLC0415 - each member loads what it needs, and no other

    return LocalBroker(folder, port=port, heap_mb=512, alone=True)


def _topics(broker: Any) -> None:
    there = broker.admin().list_topics(timeout=60).topics
    for name, partitions in TOPICS.items():
        if name not in there:
            broker.create_topic(name, partitions)


def _registry(folder: Path, port: int) -> AbstractContextManager[Any]:
    from dev.services.registry import LocalRegistry  # noqa: PLC0415 - as above

    return LocalRegistry(folder, port=port, alone=True)


def _compatible(registry: Any) -> None:
    """Reject a schema that cannot read existing records, as other registries do by default."""
    address = urlsplit(registry.url)
    connection = HTTPConnection(HOST, address.port, timeout=60)
    try:
        connection.request("PUT", f"{address.path}/config", '{"compatibility": "BACKWARD"}', {"Content-Type": _JSON})
        answer = connection.getresponse()
        reply = answer.read()
    except (OSError, HTTPException) as error:
        raise SourceError(f"the registry at {registry.url} does not answer: {error}") from error
    finally:
        connection.close()
    if answer.status != HTTPStatus.OK:
        raise SourceError(f"the registry at {registry.url} answers {answer.status} to its settings: {reply!r}")


def _redis(folder: Path, port: int) -> AbstractContextManager[Any]:
    from dev.services.redis import LocalRedis  # noqa: PLC0415 - as above

    return LocalRedis(folder=folder, port=port, alone=True)


def _postgres(folder: Path, port: int) -> AbstractContextManager[Any]:
    from dev.services.postgres import LocalPostgres  # noqa: PLC0415 - as above

    return LocalPostgres(folder, port=port, alone=True)


def _iceberg(folder: Path, port: int) -> AbstractContextManager[Any]:
    from dev.services.iceberg import LocalIceberg  # noqa: PLC0415 - as above

    return LocalIceberg(folder, port=port, alone=True)


def _store(folder: Path, port: int) -> AbstractContextManager[Any]:
    from dev.services.s3 import LocalS3  # noqa: PLC0415 - as above

    secret = folder / "secret-key"
    if not secret.is_file():
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        _write_secret(secret, secrets.token_hex(16))
    return LocalS3(port=port, secret_key=secret.read_text(encoding="ascii"), folder=folder, alone=True)


def _environment_file(server: Any) -> None:
    """The shell commands that set the environment for clients of the store."""
    lines = "".join(f"export {name}={value}\n" for name, value in server.environment.items())
    _write_secret(server.folder / "environment", lines)


def _write_secret(path: Path, text: str) -> None:
    partial = path.with_name(f"{path.name}.new")
    partial.unlink(missing_ok=True)
    with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
        file.write(text)
    partial.replace(path)


# No default ports, so that they do not conflict with existing servers; below the range of ephemeral ports.
#
MEMBERS = (
    Member("kafka", 19092, signal.SIGTERM, f"{HOST}:{{port}}", _kafka, _topics, ports=2, log="broker"),
    Member("registry", 18081, signal.SIGTERM, f"http://{HOST}:{{port}}/apis/ccompat/v7", _registry, _compatible),
    Member("redis", 16379, signal.SIGTERM, f"{HOST}:{{port}}", _redis),
    Member("postgres", 15432, signal.SIGINT, f"postgresql://crossline@{HOST}:{{port}}/crossline", _postgres),
    Member("iceberg", 18181, signal.SIGTERM, f"http://{HOST}:{{port}}", _iceberg),
    Member("store", 19000, signal.SIGTERM, f"http://{HOST}:{{port}}", _store, _environment_file, log="s3"),
)
