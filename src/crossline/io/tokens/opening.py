"""From a stream's declaration to what makes its tokens; one store of each kind and place in a process."""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Mapping
from pathlib import Path

from crossline.basics.errors import PermanentError, UsageError
from crossline.basics.streams.schema import StreamSpec
from crossline.basics.streams.sensitive import TokenSettings
from crossline.ingest.decode.layout import RecordLayout, make_layout
from crossline.ingest.tokens.tokeniser import TokenField, Tokeniser, token_fields
from crossline.io.tokens.master_key import read_master_key
from crossline.io.tokens.sqlite_store import SqliteTokenStore
from crossline.io.tokens.token_store import TokenStore

_lock = threading.Lock()
_stores: dict[str, TokenStore] = {}
_tokenisers: dict[tuple[str, tuple[TokenField, ...]], Tokeniser] = {}


def decoder_of(stream: str, spec: StreamSpec) -> RecordLayout:
    """How records of a stream are decoded, with what makes the tokens of its sensitive fields.

    Raises PermanentError where there is no master key.
    """
    return make_layout(stream, spec, tokeniser_of(spec))


def tokeniser_of(spec: StreamSpec) -> Tokeniser | None:
    """What makes the tokens of a stream; None where it has no sensitive field.

    Raises PermanentError where there is no master key.
    """
    if not spec.sensitive:
        return None
    if spec.tokens is None:
        raise PermanentError("a stream with sensitive fields: found no token store; expected tokens in its stream file")
    store = store_of(spec.tokens)
    key = (_place(spec.tokens), tuple(token_fields(spec).values()))
    with _lock:
        if key not in _tokenisers:
            _tokenisers[key] = Tokeniser(spec, store)
        return _tokenisers[key]


def check_stores(streams: Mapping[str, StreamSpec], *, one_machine: bool = True) -> None:
    """See, before anything is judged, that the keys of sensitive fields can be had.

    ``one_machine``: all that decodes runs here. Raises UsageError where it does not and the keys are in a file,
    PermanentError where there is no master key, StateError where it is another one, RetryableError where the
    store does not answer.
    """
    for spec in streams.values():
        if spec.sensitive and spec.tokens is not None and spec.tokens.kind == "sqlite" and not one_machine:
            raise UsageError(
                f"tokens: found a file, {spec.tokens.path}, and executors on other machines, each of which would make "
                "other keys; expected tokens: {kind: postgres, dsn_env: …}"
            )
        if tokeniser_of(spec) is not None and spec.tokens is not None:
            store_of(spec.tokens).generation()


def store_of(settings: TokenSettings) -> TokenStore:
    """The store that the settings name, the same one each time.

    Raises PermanentError where there is no master key.
    """
    place = _place(settings)
    with _lock:
        if place not in _stores:
            _stores[place] = _opened(settings)
        return _stores[place]


def stores_anew(streams: Mapping[str, StreamSpec]) -> list[TokenStore]:
    """The stores of streams with sensitive fields, each once, with the master keys as they are given now.

    Raises PermanentError where there is no master key.
    """
    close_stores()
    with _lock:
        _stores.clear()
        _tokenisers.clear()
    found = [store_of(each.tokens) for each in streams.values() if each.sensitive and each.tokens is not None]
    return list(dict.fromkeys(found))


def _place(settings: TokenSettings) -> str:
    """What distinguishes a store."""
    return settings.model_dump_json(exclude={"lists"})


@atexit.register
def close_stores() -> None:
    """End the connections of this process; what is used again opens its own."""
    with _lock:
        for each in _stores.values():
            each.close()


def _opened(settings: TokenSettings) -> TokenStore:
    master = read_master_key(settings)
    if settings.kind == "sqlite":
        return SqliteTokenStore(Path(settings.path).absolute(), master)
    from crossline.io.postgres.client import address_of  # noqa: PLC0415 - the client is an extra
    from crossline.io.tokens.postgres_store import PostgresTokenStore  # noqa: PLC0415 - the client is an extra
    from crossline.settings.postgres import DatabaseSettings  # noqa: PLC0415

    database = DatabaseSettings(dsn_env=settings.dsn_env, schema=settings.schema_name)
    return PostgresTokenStore(address_of(database, os.environ), master)
