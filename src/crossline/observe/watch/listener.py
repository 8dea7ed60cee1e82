"""A small HTTP server: a few paths, each answered by a function."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from socketserver import ThreadingTCPServer
from typing import Any, ClassVar

from crossline.basics.errors import UsageError
from crossline.logs import get_logger
from crossline.settings.watch import Address

REQUEST_S_MAX = 10.0  # that a client may take to say what it wants and to take the answer, all in all
CLIENTS_MAX = 64  # at once: each has a thread and a file of this process

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class HttpPage:
    """What is sent; ``status`` is HTTP's."""

    body: bytes
    form: str
    status: int = HTTPStatus.OK


# Of a path: what its page is, by the forms that the client accepts.
Pages = Mapping[str, Callable[[str], HttpPage]]


def _of_watch(place: Address, reason: str) -> UsageError:
    return UsageError(
        f"watch: cannot listen at {place}: {reason}; end what listens there, or name another place "
        "(watch.listen of the pipeline file)"
    )


class HttpListener:
    """Serves ``pages`` at ``place`` from threads of its own, until ``close``.

    Raises what ``refused`` makes of the place and a reason (a UsageError) where it is in use, or none of this machine.
    """

    def __init__(self, place: Address, pages: Pages, refused: Callable[[Address, str], Exception] = _of_watch) -> None:
        try:
            self._server = _server(place, pages)
        except (OSError, OverflowError) as error:
            reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
            raise refused(place, reason) from None
        host, port = self._server.server_address[:2]
        self.place = Address(str(host), int(port))
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), name="watch", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop listening, and abandon requests in progress."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _server(place: Address, pages: Pages) -> ThreadingTCPServer:
    class Handler(_Handler):
        known = pages

    class Server(ThreadingTCPServer):
        address_family = socket.AF_INET6 if ":" in place.host else socket.AF_INET
        allow_reuse_address = True  # sockets of the run before, in TIME_WAIT
        daemon_threads = True
        block_on_close = False
        request_queue_size = CLIENTS_MAX
        free = threading.BoundedSemaphore(CLIENTS_MAX)

        def process_request(self, request: Any, client_address: Any) -> None:
            """Serve it in a thread; close the connection beyond the limit."""
            if not self.free.acquire(blocking=False):
                self.shutdown_request(request)
                return
            super().process_request(request, client_address)

        def process_request_thread(self, request: Any, client_address: Any) -> None:
            """Also closes slow connections, which send a byte now and then."""
            ending = threading.Timer(REQUEST_S_MAX, _hang_up, (request,))
            ending.daemon = True
            ending.start()
            try:
                super().process_request_thread(request, client_address)
            finally:
                ending.cancel()
                self.free.release()

        def handle_error(self, request: Any, client_address: Any) -> None:
            """Ignore clients that close the connection, or time out."""

    return Server((place.host, place.port), Handler)


def _hang_up(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    known: ClassVar[Pages] = {}
    timeout = REQUEST_S_MAX
    server_version = "crossline"
    sys_version = ""

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        page = self.known.get(path)
        if page is None:
            names = ", ".join(self.known)
            self._send(
                HttpPage(f"found no {path[:200]!r}; expected {names}\n".encode(), "text/plain", HTTPStatus.NOT_FOUND)
            )
            return
        try:
            answer = page(self.headers.get("Accept", ""))
        except Exception:
            log.exception("a page of the watch could not be made", path=path)
            answer = HttpPage(b"it could not be made: see the log\n", "text/plain", HTTPStatus.INTERNAL_SERVER_ERROR)
        self._send(answer)

    do_HEAD = do_GET  # noqa: N815 - the library's name

    def _send(self, page: HttpPage) -> None:
        self.send_response(page.status)
        self.send_header("Content-Type", page.form)
        self.send_header("Content-Length", str(len(page.body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(page.body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the library's
        """Probes come every few seconds."""
