"""A process that answers ids from its ledger, and can be killed at any step; see ``test_kills``.

Commands, one a line: ``claim ID``, ``answer ID WORD``, ``entered ID WORD`` (answer, and stop before it is committed).
What it says of each is a line of JSON.
"""

from __future__ import annotations

import os
import signal
import sys

import orjson

from crossline.serve.ledger import sqlite
from crossline.serve.ledger.sqlite import SqliteLedger

from .ledgerkit import asked, entry


def say(**fields: object) -> None:
    sys.stdout.write(orjson.dumps(fields).decode() + "\n")
    sys.stdout.flush()


def main(path: str) -> None:
    ledger = SqliteLedger(path)
    say(replica=ledger.replica)
    for line in sys.stdin:
        what, record_id, *word = line.split()
        if what == "claim":
            (claimed,) = ledger.claim([asked(record_id)])
            say(outcome=claimed.outcome, body=(claimed.body or b"").decode(), again=claimed.again)
            continue
        if what == "entered":
            # All is written, and the transaction is not at its end.
            sqlite.add_count = lambda *_: os.kill(os.getpid(), signal.SIGKILL)  # type: ignore[attr-defined]
        (kept,) = ledger.answer([entry(record_id, decision=word[0])])
        say(body=kept.body.decode() if kept else "", first=bool(kept and kept.first))


if __name__ == "__main__":
    main(sys.argv[1])
