"""The services of a drill, each behind a proxy, so that a connection can be cut while the service runs."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from dev.services.broker import LocalBroker
from dev.services.postgres import LocalPostgres
from dev.services.redis import LocalRedis
from dev.services.registry import PATH, LocalRegistry
from dev.services.s3 import REGION, LocalS3

from chaos.load.formats import Avro, Format, Json
from chaos.parts.proxy import Loop, Proxy
from chaos.parts.receiver import Receiver, receiving
from chaos.pipeline import ALERTS, DEAD, DECISIONS, PARTITIONS, TOPIC, Addresses

HOST = "127.0.0.1"
PREFIX = "drill"  # of the checkpoint on the object store


class Service(Protocol):
    """A server that can be killed and started again at the same address."""

    @property
    def pid(self) -> int | None:
        """Its first process."""

    def start(self) -> None:
        """Start it, and wait until it answers."""

    def kill(self) -> Any:
        """End it at once."""


class ProxiedBroker(LocalBroker):
    """A broker with a second listener, whose advertised address is that of ``proxy``.

    A broker sends its clients the addresses of its partitions. Clients would leave a proxy at once if it were not
    advertised.
    """

    def __init__(self, proxy: Proxy) -> None:
        super().__init__(brief=True)
        self._proxy = proxy

    @property
    def proxied(self) -> str:
        """The address for clients behind the proxy."""
        return f"{HOST}:{self._proxy.port}"

    def _choose_ports(self) -> None:
        super()._choose_ports()
        inner = _free_port()
        self._proxy.target = inner
        path = self.folder / "server.properties"
        changed = []
        for line in path.read_text().splitlines():
            name, _, value = line.partition("=")
            if name == "listeners":
                value += f",PROXIED://{HOST}:{inner}"
            elif name == "advertised.listeners":
                value += f",PROXIED://{self.proxied}"
            elif name == "listener.security.protocol.map":
                value += ",PROXIED:PLAINTEXT"
            changed.append(f"{name}={value}" if value else line)
        path.write_text("\n".join(changed) + "\n")


@dataclass(slots=True)
class Services:
    """All that the pipeline connects to. ``brokers`` is the direct address, for who sends and who counts."""

    brokers: str
    addresses: Addresses
    receiver: Receiver
    proxies: Mapping[str, Proxy]
    running: Mapping[str, Service]
    redis: LocalRedis
    postgres: LocalPostgres | None
    format: Format
    store: LocalS3 | None = None

    @property
    def environment(self) -> Mapping[str, str]:
        """The environment variables of the pipeline."""
        known = self.store.environment if self.store is not None else {}
        return {name: value for name, value in known.items() if name != "AWS_ENDPOINT_URL"}  # that is past the proxy

    @property
    def stored(self) -> Path | None:
        """Where the object store has the checkpoint."""
        return self.store.data / self.store.bucket / PREFIX if self.store is not None else None

    def freeze(self, name: str) -> None:
        """SIGSTOP to all processes of a service."""
        _signal(self.running[name], signal.SIGSTOP)

    def thaw(self, name: str) -> None:
        """SIGCONT to them."""
        _signal(self.running[name], signal.SIGCONT)


def _signal(service: Service, which: signal.Signals) -> None:
    if service.pid is not None:
        with suppress(ProcessLookupError):
            os.killpg(service.pid, which)


@contextmanager
def serving(
    broker: LocalBroker | None = None,
    redis: LocalRedis | None = None,
    *,
    with_postgres: bool = True,
    with_registry: bool = True,
    with_store: bool = True,
    with_api: bool = False,
) -> Iterator[Services]:
    """The services; those that are given are used as they are, and a broker that is given has no proxy before it.

    ``with_api``: there is a port, and a proxy before it, for the decision API, which others start. Raises ValueError
    where it could not be: it puts JSON into topics, and follows a checkpoint in a folder.
    """
    if with_api and (with_registry or with_store):
        raise ValueError("found an API with a registry or a store; expected records of JSON, and a folder")
    with ExitStack() as stack:
        loop = stack.enter_context(Loop())
        names = ["redis", "webhook"] + ["broker"] * (broker is None)
        names += ["postgres"] * with_postgres + ["registry"] * with_registry + ["store"] * with_store
        names += ["api"] * with_api
        proxies = {name: stack.enter_context(Proxy(loop)) for name in names}
        if broker is None:
            own = stack.enter_context(ProxiedBroker(proxies["broker"]))
            broker, seen = own, own.proxied
        else:
            seen = broker.brokers
        redis = redis or stack.enter_context(LocalRedis())
        receiver = stack.enter_context(receiving())
        for topic, count in ((TOPIC, PARTITIONS), (ALERTS, PARTITIONS), (DEAD, 1), (DECISIONS, PARTITIONS)):
            broker.create_topic(topic, count)
        running: dict[str, Service] = {"broker": broker, "redis": redis}
        ports = {"redis": redis.port, "webhook": receiver.port}
        postgres = stack.enter_context(LocalPostgres(brief=True)) if with_postgres else None
        registry = stack.enter_context(LocalRegistry()) if with_registry else None
        store = stack.enter_context(LocalS3()) if with_store else None
        for name, one in (("postgres", postgres), ("registry", registry), ("store", store)):
            if one is not None:
                running[name], ports[name] = one, one.port
        for name, port in ports.items():
            proxies[name].target = port
        addresses = _addresses(seen, {name: proxies[name].port for name in ports}, postgres, store)
        if with_api:
            proxies["api"].target = api_port = _free_port()
            addresses = replace(addresses, api=f"{HOST}:{api_port}")
        form: Format = Json() if registry is None else Avro(registry.url)
        form.evolve()()
        yield Services(broker.brokers, addresses, receiver, proxies, running, redis, postgres, form, store)


def _addresses(
    brokers: str, ports: Mapping[str, int], postgres: LocalPostgres | None, store: LocalS3 | None
) -> Addresses:
    """Where the pipeline finds all that has a proxy."""
    stored = uri = None
    if postgres is not None:
        stored = {"host": HOST, "port": ports["postgres"], "user": postgres.user}
        stored |= {"dbname": postgres.dbname, "password_file": str(postgres.password_file)}
    if store is not None:
        uri = f"s3://{store.bucket}/{PREFIX}?endpoint=http://{HOST}:{ports['store']}&region={REGION}"
    return Addresses(
        brokers,
        redis={"host": HOST, "port": ports["redis"]},
        postgres=stored,
        webhook=f"http://{HOST}:{ports['webhook']}/alerts",
        registry=f"http://{HOST}:{ports['registry']}{PATH}" if "registry" in ports else None,
        store=uri,
    )


def _free_port() -> int:
    with socket.socket() as free:
        free.bind((HOST, 0))
        return int(free.getsockname()[1])
