"""Files of erasures beside the pipeline file: receipts, and what an erasure that is not finished must know.

``erasures/NAME.jsonl`` has a receipt a line; each names the digest of the one before. ``erasures/NAME.pending`` exists
from the first change to the receipt. It has the values, the ids of the records that were found, and the secret of the
pseudonyms: a further run needs them, since the places that the ids came from may be erased already.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from crossline.basics.errors import StateError
from crossline.erasure.subject import Key, Subject
from crossline.io.files.sync import sync_path

FOLDER = "erasures"
BEGINNING = "0" * 64
SALT_BYTES = 16
_SCRYPT: Mapping[str, Any] = {"n": 1 << 14, "r": 8, "p": 1, "dklen": 16}


@dataclass(frozen=True, slots=True)
class Journal:
    """The files of a pipeline's erasures in ``folder``."""

    folder: Path
    pipeline: str

    @property
    def receipts(self) -> Path:
        """The receipts, one a line."""
        return self.folder / f"{self.pipeline}.jsonl"

    @property
    def pending(self) -> Path:
        """What an erasure that is not finished must know; readable by its owner alone."""
        return self.folder / f"{self.pipeline}.pending"

    def begin(self, subject: Subject) -> None:
        """Note what a further run needs, before anything is changed."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        body = {
            "keys": [[key.field, key.value] for key in subject.keys],
            "salt": subject.salt.hex(),
            "ids": {stream: sorted(ids) for stream, ids in subject.ids.items()},
        }
        draft = self.pending.with_name(f".{self.pending.name}.tmp")
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(orjson.dumps(body))
            file.flush()
            os.fsync(file.fileno())
        draft.replace(self.pending)
        sync_path(self.folder)

    def unfinished(self) -> Subject | None:
        """The subject of an erasure that was not finished; None: there is none.

        Raises:
            StateError: The file is damaged.
        """
        try:
            body = orjson.loads(self.pending.read_bytes())
            keys = tuple(Key(name, value) for name, value in body["keys"])
            return Subject(keys, bytes.fromhex(body["salt"]), {name: set(ids) for name, ids in body["ids"].items()})
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise StateError(
                f"{self.pending} is damaged ({error}); it is of an erasure that was not finished: delete it, and run "
                "that erasure again by its keys"
            ) from None

    def end(self, receipt: Mapping[str, Any], *, finished: bool) -> dict[str, Any]:
        """Append a receipt, with the digest of the one before and its own.

        Args:
            receipt: The receipt.
            finished: Whether nothing is left: then what was pending is forgotten.

        Returns:
            The receipt as it was appended.
        """
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        whole = {**receipt, "previous": self._last_digest()}
        whole["digest"] = digest_of(whole)
        with self.receipts.open("ab") as file:
            file.write(orjson.dumps(whole) + b"\n")
            file.flush()
            os.fsync(file.fileno())
        if finished:
            self.pending.unlink(missing_ok=True)
        sync_path(self.folder)
        return whole

    def _last_digest(self) -> str:
        if not self.receipts.exists():
            return BEGINNING
        lines = self.receipts.read_bytes().split(b"\n")
        if lines[-1]:  # a kill cut it off
            os.truncate(self.receipts, sum(len(line) + 1 for line in lines[:-1]))
        last = next((line for line in reversed(lines[:-1]) if line), None)
        return BEGINNING if last is None else str(orjson.loads(last)["digest"])


def digest_of(receipt: Mapping[str, Any]) -> str:
    """SHA-256, in hex, of a receipt of erasure as JSON with sorted keys, without ``digest``."""
    fields = {name: value for name, value in receipt.items() if name != "digest"}
    return hashlib.sha256(orjson.dumps(fields, option=orjson.OPT_SORT_KEYS)).hexdigest()


def key_digest(key: Key, salt: bytes) -> str:
    """What a receipt has in the place of a value: who knows the value can check it, and guessing is slow.

    Args:
        key: The key.
        salt: Random bytes, which stand in the receipt.

    Returns:
        128 bits of scrypt, in hex.
    """
    return hashlib.scrypt(f"{key.field}={key.value}".encode(), salt=salt, **_SCRYPT).hex()
