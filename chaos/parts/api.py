"""The decision API as a part of the drill: ``crossline serve`` under a supervisor, and a client of it."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path

import httpx
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from chaos.parts.supervised import Supervised
from chaos.pipeline import PUBLIC_KEY, SERVED, SIGNING_KEY
from crossline.serve.assembly import OUTBOX
from crossline.serve.ledger.schema import LEDGER_FILE

ROOT = Path(__file__).parents[2]
NOTES, CALLER_LOG = "asks.jsonl", "asker.log"
ASKS_PER_S = 20.0
READY_S_MAX = 2.0  # of one look
ASKING_S_MAX = 240.0  # to its end: all open requests are sent again
OUTBOX_S_MAX = 60.0
REVISED_S = 5.0  # between the last batch and the revisions of answers that it has


@dataclass(slots=True)
class Api:
    """``served``: the server, at ``url``; ``through``: the address for callers, behind the proxy.

    ``per_s``, ``open_max``: see ``Plan``.
    """

    served: Supervised
    url: str
    through: str
    seed: int
    accounts: int
    per_s: float = ASKS_PER_S
    open_max: int = sys.maxsize
    wrong: list[str] = field(default_factory=list)
    _asker: subprocess.Popen[bytes] | None = None

    @classmethod
    def of(cls, root: Path, pipeline: Path, ports: tuple[int, int], seed: int, accounts: int) -> Api:
        """That of the pipeline in ``root``. ``ports``: its own, and the proxy's."""
        served = Supervised(root, pipeline, command="serve", log="serve.log")
        return cls(served, f"http://127.0.0.1:{ports[0]}", f"http://127.0.0.1:{ports[1]}", seed, accounts)

    @property
    def notes(self) -> Path:
        """The client's log of requests and answers."""
        return self.served.root / NOTES

    @property
    def ledger(self) -> Path:
        """The ledger of the API."""
        return self.served.root / SERVED / LEDGER_FILE

    def start(self) -> None:
        """Serve; there must be a pipeline."""
        self.served.start()

    def ask(self) -> None:
        """Start the client."""
        settings = {"url": self.through, "notes": str(self.notes), "seed": self.seed}
        settings |= {"accounts": self.accounts, "per_s": self.per_s, "open_max": self.open_max}
        with (self.served.root / CALLER_LOG).open("ab") as log:
            self._asker = subprocess.Popen(
                [sys.executable, "-m", "chaos.api_load.caller", json.dumps(settings)],
                cwd=ROOT,
                env={**os.environ},
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
            )

    def ready(self) -> bool:
        """Whether a replica answers, and is not behind."""
        try:
            return httpx.get(f"{self.url}/readyz", timeout=READY_S_MAX, trust_env=False).status_code == httpx.codes.OK
        except httpx.HTTPError:
            return False

    def clock(self, seconds: float, by_ms: int) -> None:
        """Make the event times of the requests wrong."""
        if self._asker is not None and self._asker.stdin is not None:
            with suppress(BrokenPipeError):
                self._asker.stdin.write(json.dumps({"clock_ms": by_ms, "seconds": seconds}).encode() + b"\n")
                self._asker.stdin.flush()

    def stop_asking(self) -> None:
        """Send no new requests. Wait for the answers to all open ones, and until their records are in the stream."""
        asker = self._asker
        if asker is None:
            return
        self._asker = None
        if asker.stdin is not None:
            asker.stdin.close()
        try:
            if code := asker.wait(ASKING_S_MAX):
                self.wrong.append(f"the caller of the API ended with {code}: {self._log_tail()}")
        except subprocess.TimeoutExpired:
            asker.kill()
            asker.wait()
            self.wrong.append(f"the caller of the API did not come to its end within {ASKING_S_MAX:.0f} s")
        ends_s = time.monotonic() + OUTBOX_S_MAX
        while (waiting := self._waiting()) and time.monotonic() < ends_s:
            time.sleep(0.1)
        if waiting:
            self.wrong.append(
                f"{waiting} answered records are in the outbox after {OUTBOX_S_MAX:.0f} s, not in the topic"
            )

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        """As an operator does."""
        began_s = time.monotonic()
        if code := self.served.stop(how):
            took_s = time.monotonic() - began_s
            self.wrong.append(f"the API ended with {code} when it was asked to stop, after {took_s:.0f} s")

    def kill(self) -> None:
        """Kill all processes, whatever went wrong."""
        if self._asker is not None:
            self._asker.kill()
            self._asker.wait()
        self.served.stop(signal.SIGKILL)

    def _waiting(self) -> int:
        with suppress(sqlite3.Error), closing(sqlite3.connect(self.served.root / SERVED / OUTBOX)) as outbox:
            return int(outbox.execute("SELECT count(*) FROM outbox").fetchone()[0])
        return -1

    def _log_tail(self) -> str:
        return (self.served.root / CALLER_LOG).read_text(errors="replace")[-1000:]


def write_keys(root: Path) -> None:
    """Write the keys that sign and verify receipts."""
    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    (root / SIGNING_KEY).touch(0o600)
    (root / SIGNING_KEY).write_bytes(private)
    (root / PUBLIC_KEY).write_bytes(public)
