"""One deadline for a whole answer, of threads, of lines, and of HTTP over them."""

from __future__ import annotations

import socket
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from tests.connectors.trickling import trickling

from crossline.io.net.deadline import Deadline, DeadlineCutter, NoAnswerError, SerialCalls, within
from crossline.io.net.deadline_sockets import open_socket
from crossline.io.net.http import ConnectionClosedError, HttpAddress, UnreachableError

WAIT_S = 120.0
HEAD = b"HTTP/1.1 200 OK\r\nX-Slow: "
TLS = Path(__file__).parents[3] / "connectors" / "tls"


def _server_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(TLS / "broker.pem")
    return context


def test_what_comes_in_time_is_given_and_raised_as_it_is() -> None:
    assert within(Deadline(WAIT_S), lambda: 7) == 7

    def fail() -> None:
        raise FileNotFoundError("f")

    with pytest.raises(FileNotFoundError, match="f"):
        within(Deadline(WAIT_S), fail)


def test_what_does_not_come_is_given_up() -> None:
    never = threading.Event()
    with pytest.raises(NoAnswerError, match=r"no whole answer in 0\.05 s"):
        within(Deadline(0.05), never.wait)
    stop = threading.Event()
    stop.set()
    with pytest.raises(NoAnswerError, match="stopped before the answer was there"):
        within(Deadline(3_600, stop), never.wait)
    never.set()


def test_a_new_question_has_the_whole_time() -> None:
    deadline = Deadline(0.0)
    assert deadline.left_s() == 0
    deadline.seconds = WAIT_S
    deadline.begin()
    assert 0 < deadline.left_s() <= WAIT_S


def test_no_write_that_was_given_up_stands_in_the_place_of_a_later_one() -> None:
    turns, gate, stands = SerialCalls(), threading.Event(), list[str]()

    def write(text: str) -> None:
        if text == "first":
            gate.wait(WAIT_S)
        stands.append(text)

    with pytest.raises(NoAnswerError):
        turns.within(Deadline(0.05), lambda: write("first"))
    with pytest.raises(NoAnswerError):
        turns.within(Deadline(0.05), lambda: write("second"))
    assert stands == []
    gate.set()
    turns.within(Deadline(WAIT_S), lambda: write("third"))
    assert stands == ["first", "third"], "the second was never begun"


def test_a_client_with_sockets_of_its_own_is_cut_off() -> None:
    ours, theirs = socket.socketpair()
    with theirs, ours, DeadlineCutter(Deadline(0.05), lambda: ours.shutdown(socket.SHUT_RDWR)) as cutting:
        assert ours.recv(1) == b""
    assert cutting.over
    with DeadlineCutter(Deadline(WAIT_S), pytest.fail) as cutting:
        pass
    assert not cutting.over


@pytest.mark.parametrize("tls", [False, True])
def test_a_trickle_is_no_answer(tls: bool) -> None:
    with trickling(HEAD, _server_context() if tls else None) as slow:
        address = HttpAddress(f"{'https' if tls else 'http'}://localhost:{slow.port}", str(TLS / "ca.pem"))
        with pytest.raises(NoAnswerError, match=r"no whole answer in 1 s"):
            address.request("GET", "/", Deadline(1.0))
        assert slow.asked.is_set()


class _Plain(BaseHTTPRequestHandler):
    """Answers with what it was posted, in two chunks; connections stay."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        half = len(raw) // 2
        for part in (raw[:half], raw[half:], b""):
            self.wfile.write(f"{len(part):x}\r\n".encode() + part + b"\r\n")

    def log_message(self, *_: object) -> None: ...


@pytest.mark.parametrize("tls", [False, True])
def test_an_answer_is_whole_and_its_connection_serves_again(tls: bool) -> None:
    ports = set[int]()

    class Seen(_Plain):
        def handle(self) -> None:
            ports.add(self.client_address[1])
            super().handle()

    server = ThreadingHTTPServer(("127.0.0.1", 0), Seen)
    server.daemon_threads = True
    if tls:
        server.socket = _server_context().wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    address = HttpAddress(f"{'https' if tls else 'http'}://localhost:{server.server_port}", str(TLS / "ca.pem"))
    for size in (2, 3_000_000, 70_000):
        sent = bytes(range(256)) * (size // 256 + 1)
        reply = address.request("POST", "/", Deadline(WAIT_S), body=sent, bytes_max=4 << 20)
        assert (reply.status, reply.whole) == (200, True)
        assert reply.body == sent
    part = address.request("POST", "/", Deadline(WAIT_S), body=bytes(100), bytes_max=99)
    assert (part.body, part.whole) == (bytes(99), False)
    assert len(ports) == 1
    address.close()
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_missing_tls_greeting_is_unreachable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = HttpAddress(f"https://127.0.0.1:{silent.getsockname()[1]}")
        with pytest.raises(UnreachableError):
            address.request("GET", "/", Deadline(0.3))


def test_a_stop_ends_what_is_waited_for() -> None:
    stop, raised = threading.Event(), list[BaseException]()
    with trickling(HEAD) as slow:

        def ask() -> None:
            try:
                HttpAddress(f"http://127.0.0.1:{slow.port}").request("GET", "/", Deadline(3_600, stop))
            except NoAnswerError as error:
                raised.append(error)

        thread = threading.Thread(target=ask, daemon=True)
        thread.start()
        assert slow.asked.wait(WAIT_S)
        stop.set()
        thread.join(WAIT_S)
    assert "stopped" in str(raised[0])


def test_no_peer_and_a_closed_connection_are_reported_differently() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

        def hang_up() -> None:
            line, _ = server.accept()
            line.recv(1)
            line.close()

        thread = threading.Thread(target=hang_up, daemon=True)
        thread.start()
        with pytest.raises(ConnectionClosedError):
            HttpAddress(f"http://127.0.0.1:{port}").request("GET", "/", Deadline(WAIT_S))
        thread.join()
    with pytest.raises(UnreachableError):
        HttpAddress(f"http://127.0.0.1:{port}").request("GET", "/", Deadline(WAIT_S))


def test_a_name_that_is_not_found_in_time_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    never = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: never.wait())
    with pytest.raises(NoAnswerError):
        open_socket("registry.example", 80, Deadline(0.05))
    never.set()


def test_what_is_sent_is_bounded_too() -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        line = open_socket("127.0.0.1", deaf.getsockname()[1], Deadline(0.3))
        with line, pytest.raises(NoAnswerError):
            line.sendall(bytes(64 << 20))
