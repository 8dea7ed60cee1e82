"""``serve.tls``: the API over TLS, asked by the client; plain HTTP and wrong certificates get nothing."""

from __future__ import annotations

import asyncio
import datetime as dt
import ipaddress
import socket
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import httpx
import orjson
import pytest
import uvloop
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from crossline.basics.errors import UsageError
from crossline.client import AsyncClient, Client
from crossline.serve.access.guard import guarded
from crossline.serve.access.keyfile import KeyFile
from crossline.serve.app.hot import HotRoutes
from crossline.serve.app.server import listening, serve
from crossline.serve.start_check import check_files
from crossline.settings.process.serve import ServeSettings, TlsSettings
from crossline.settings.watch import Address

from ..decisions.fakes import Harness, payment  # noqa: TID252 - the fakes of the parts beside

SECONDS = 30.0


def certificate(folder: Path, name: str, address: str = "127.0.0.1") -> TlsSettings:
    """A certificate that is its own authority, for an address, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    who = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now, day = dt.datetime.now(dt.UTC), dt.timedelta(days=1)
    made = (
        x509.CertificateBuilder()
        .subject_name(who)
        .issuer_name(who)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - day)
        .not_valid_after(now + day)
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    cert_file, key_file = folder / f"{name}.pem", folder / f"{name}.key.pem"
    cert_file.write_bytes(made.public_bytes(Encoding.PEM))
    key_file.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return TlsSettings(cert_file=str(cert_file), key_file=str(key_file))


@dataclass
class Served:
    """The API of a test. ``key``: of one who may decide."""

    place: Address
    key: str
    tls: TlsSettings

    @property
    def url(self) -> str:
        return f"https://{self.place}"


def with_api(folder: Path, tls: TlsSettings, work: Callable[[Served], Awaitable[None]]) -> None:
    """As ``crossline serve`` has it: uvloop, access, hot routes, one listener."""

    async def run() -> None:
        harness = Harness()
        settings = ServeSettings(tls=tls, keys=str(folder / "keys.db"))
        key = KeyFile(folder / "keys.db").create("shop", ["decide:payments"], now_ms=0, expires_ms=None)[0]
        app = HotRoutes(harness.decisions, "peek", 30_000, Starlette(routes=[Route("/healthz", _well)]))
        bound, place = listening(Address("127.0.0.1", 0))
        stop, up = asyncio.Event(), asyncio.Event()
        serving = asyncio.create_task(serve(guarded(app, settings), bound, settings, stop, up.set))
        await up.wait()
        try:
            await work(Served(place, key, tls))
        finally:
            stop.set()
            await serving
            await harness.decisions.close()

    uvloop.run(run())


async def _well(_: object) -> PlainTextResponse:
    return PlainTextResponse("well")


def test_the_client_decides_over_tls(tmp_path: Path) -> None:
    async def work(served: Served) -> None:
        async with AsyncClient(served.url, key=served.key, timeout=SECONDS, ca_file=served.tls.cert_file) as client:
            assert (await client.decide("payments", payment("t1"))).answered == "peek"

        def beside() -> str:
            with Client(served.url, key=served.key, timeout=SECONDS, ca_file=Path(served.tls.cert_file)) as client:
                return client.decide("payments", payment("t2")).answered

        assert await asyncio.to_thread(beside) == "peek"
        context = ssl.create_default_context(cafile=served.tls.cert_file)
        async with httpx.AsyncClient(verify=context) as plain:
            reply = await plain.get(f"{served.url}/healthz")
        assert reply.headers["strict-transport-security"] == "max-age=31536000"

    with_api(tmp_path, certificate(tmp_path, "api"), work)


def test_a_server_that_cannot_be_known_gets_no_payment(tmp_path: Path) -> None:
    """Of another authority, or for another address: neither key nor record is sent; the client's fallback decides."""

    async def work(served: Served) -> None:
        other = certificate(tmp_path, "other")
        for trusted in (None, other.cert_file):
            async with AsyncClient(served.url, key=served.key, timeout=1.0, ca_file=trusted, fallback="block") as asks:
                found = await asks.decide("payments", payment("t1"))
            assert (found.answered, found.decision) == ("unreachable", "block")
            assert "CERTIFICATE_VERIFY_FAILED" in found.degraded[0].why

    with_api(tmp_path, certificate(tmp_path, "api"), work)

    async def elsewhere(served: Served) -> None:
        async with AsyncClient(served.url, key=served.key, timeout=1.0, ca_file=served.tls.cert_file) as client:
            found = await client.decide("payments", payment("t1"))
        assert found.answered == "unreachable"
        assert "127.0.0.1" in found.degraded[0].why

    (tmp_path / "elsewhere").mkdir()
    with_api(tmp_path / "elsewhere", certificate(tmp_path, "elsewhere", "127.0.0.2"), elsewhere)


def test_plain_http_gets_no_answer(tmp_path: Path) -> None:
    def asked(place: Address) -> bytes:
        found = b""
        with socket.create_connection((place.host, place.port), SECONDS) as client:
            client.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            try:
                while part := client.recv(4_096):
                    found += part
            except ConnectionResetError:
                pass
        return found

    async def work(served: Served) -> None:
        shown = await asyncio.to_thread(asked, served.place)
        assert b"HTTP/" not in shown
        assert b"well" not in shown
        # Whoever spoke it is gone; others are answered.
        async with AsyncClient(served.url, key=served.key, timeout=SECONDS, ca_file=served.tls.cert_file) as client:
            assert (await client.decide("payments", payment("t1"))).answered == "peek"

    with_api(tmp_path, certificate(tmp_path, "api"), work)


def test_a_key_of_another_certificate_is_refused_at_the_start(tmp_path: Path) -> None:
    one, other = certificate(tmp_path, "one"), certificate(tmp_path, "other")
    mixed = TlsSettings(cert_file=one.cert_file, key_file=other.key_file)
    with pytest.raises(UsageError, match="no certificate with its key"):
        check_files(ServeSettings(tls=mixed, path=str(tmp_path)))
    check_files(ServeSettings(tls=one, path=str(tmp_path)))


def test_a_file_of_no_certificates_is_reported_by_the_client(tmp_path: Path) -> None:
    (tmp_path / "none.pem").write_bytes(orjson.dumps({}))
    for path in (tmp_path / "none.pem", tmp_path / "nothing.pem"):
        with pytest.raises(ValueError, match=r"ca_file: .*expected certificates in PEM form"):
            Client("https://127.0.0.1:1", ca_file=path)
