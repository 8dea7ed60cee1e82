"""``console.db``: sessions, tries, log-ins with the provider that are under way, and what each person prefers."""

from __future__ import annotations

from pathlib import Path

from crossline.io.private_database import PrivateDatabase

FILE = "console.db"
_VERSION = 1
# No id of a session, no state of a log-in stands here: only their SHA-256, or what is of no use without it.
_TABLES = (
    """CREATE TABLE sessions (
    digest BLOB PRIMARY KEY, name TEXT NOT NULL, by TEXT NOT NULL CHECK (by IN ('local', 'provider')),
    roles TEXT NOT NULL, begun_ms INTEGER NOT NULL, seen_ms INTEGER NOT NULL) WITHOUT ROWID, STRICT""",
    "CREATE INDEX sessions_by_name ON sessions (name)",
    """CREATE TABLE tries (
    key BLOB PRIMARY KEY, count INTEGER NOT NULL, since_ms INTEGER NOT NULL) WITHOUT ROWID, STRICT""",
    "CREATE INDEX tries_by_time ON tries (since_ms)",
    """CREATE TABLE logins (
    digest BLOB PRIMARY KEY, state TEXT NOT NULL, nonce TEXT NOT NULL, verifier TEXT NOT NULL, next TEXT NOT NULL,
    begun_ms INTEGER NOT NULL) WITHOUT ROWID, STRICT""",
    "CREATE TABLE preferences (name TEXT PRIMARY KEY, said TEXT NOT NULL) WITHOUT ROWID, STRICT",
)


def kept_in(folder: Path) -> PrivateDatabase:
    """The file in ``serve.path``, with its tables."""
    kept = PrivateDatabase(folder / FILE, _VERSION, _TABLES, "the console")
    with kept.writing():
        pass
    return kept
