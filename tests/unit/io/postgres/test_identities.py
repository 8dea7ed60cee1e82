"""Identities of delivered items: what is stored under one must be found under it by every later version."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from crossline.io.postgres.delivered import identity, identity_start

TEXT = st.text(st.characters())  # half surrogate pairs among them
NAMES = st.lists(TEXT | st.none() | st.integers(), min_size=1, max_size=6)


@given(TEXT, TEXT, NAMES)
def test_an_identity_is_a_digest_of_a_json_list(pipeline: str, table: str, name: list[Any]) -> None:
    text = json.dumps([pipeline, table, *name])
    expected = hashlib.blake2b(text.encode(), digest_size=16).digest()
    assert identity(identity_start(pipeline, table), name) == expected
