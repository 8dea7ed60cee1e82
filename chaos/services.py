"""The services of a drill, with a proxy before each: what the pipeline connects to can be cut while it lives."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Protocol

from chaos.pipeline import ALERTS, DEAD, PARTITIONS, TOPIC, Addresses
from chaos.proxy import Loop, Proxy
from crossline.services.broker import LocalBroker
from crossline.services.postgres import LocalPostgres
from crossline.services.redis import LocalRedis

HOST = "127.0.0.1"


class Service(Protocol):
    """What can be killed and started again on the same address."""

    @property
    def pid(self) -> int | None:
        """Its first process."""

    def start(self) -> None:
        """Start it, and wait until it answers."""

    def kill(self) -> Any:
        """End it at once."""


class ProxiedBroker(LocalBroker):
    """A broker with a second listener, whose advertised address is that of ``proxy``.

    Clients are told by a broker where its partitions are: a proxy that is not advertised would be left at once.
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
class Receiver:
    """Takes the posts of a webhook. ``ids``: by message how often it was answered with 200."""

    ids: dict[str, int] = field(default_factory=dict)
    port: int = 0
    answers: threading.Event = field(default_factory=threading.Event)
    ending: threading.Event = field(default_factory=threading.Event)
    busy: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://{HOST}:{self.port}/alerts"

    def took(self, name: str) -> None:
        """A message was answered."""
        with self._lock:
            self.ids[name] = self.ids.get(name, 0) + 1


@contextmanager
def receiving() -> Iterator[Receiver]:
    """A receiver, for as long as the context lasts."""
    receiver = Receiver()
    receiver.answers.set()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            while not receiver.answers.wait(0.1):
                if receiver.ending.is_set():
                    return
            if not receiver.busy:
                receiver.took(self.headers["Idempotency-Key"])
            self.send_response(503 if receiver.busy else 200)
            self.send_header("Content-Length", "0")
            with suppress(OSError):  # who asked has gone
                self.end_headers()

        def log_message(self, *_: object) -> None:
            """Nothing is said of each."""

    class Server(ThreadingHTTPServer):
        def handle_error(self, *_: object) -> None:
            """Connections that end in the midst are what is drilled."""

    server = Server((HOST, 0), Handler)
    server.daemon_threads = True
    receiver.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, args=(0.1,), name="webhook", daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        receiver.ending.set()
        server.shutdown()
        server.server_close()
        thread.join()


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
    broker: LocalBroker | None = None, redis: LocalRedis | None = None, *, with_postgres: bool = True
) -> Iterator[Services]:
    """The services; those that are given are used as they are, and a broker that is given has no proxy before it."""
    with ExitStack() as stack:
        loop = stack.enter_context(Loop())
        proxies = {name: stack.enter_context(Proxy(loop)) for name in ("redis", "postgres", "webhook")}
        if broker is None:
            proxies["broker"] = stack.enter_context(Proxy(loop))
            own = stack.enter_context(ProxiedBroker(proxies["broker"]))
            broker, seen = own, own.proxied
        else:
            seen = broker.brokers
        redis = redis or stack.enter_context(LocalRedis())
        postgres = stack.enter_context(LocalPostgres(brief=True)) if with_postgres else None
        receiver = stack.enter_context(receiving())
        proxies["redis"].target, proxies["webhook"].target = redis.port, receiver.port
        for topic, count in ((TOPIC, PARTITIONS), (ALERTS, PARTITIONS), (DEAD, 1)):
            broker.create_topic(topic, count)
        running: dict[str, Service] = {"broker": broker, "redis": redis}
        stored = None
        if postgres is not None:
            running["postgres"] = postgres
            proxies["postgres"].target = postgres.port
            stored = {"host": HOST, "port": proxies["postgres"].port, "user": postgres.user}
            stored |= {"dbname": postgres.dbname, "password_file": str(postgres.password_file)}
        told = {"host": HOST, "port": proxies["redis"].port}
        addresses = Addresses(seen, told, stored, f"http://{HOST}:{proxies['webhook'].port}/alerts")
        yield Services(broker.brokers, addresses, receiver, proxies, running, redis, postgres)


def _free_port() -> int:
    with socket.socket() as free:
        free.bind((HOST, 0))
        return int(free.getsockname()[1])
