"""Records as lines, good ones and odd ones, for property tests."""

from __future__ import annotations

import json

from decode_odd import NUMBERS, OTHERS, STRINGS
from hypothesis import strategies as st

from crossline.basics.streams.schema import StreamSpec
from drawing import one_of_these

VALUES = (
    st.sampled_from(NUMBERS + STRINGS + OTHERS) | st.integers(-(10**20), 10**20).map(str) | st.floats().map(json.dumps)
)
SPACES = st.sampled_from(["", "", "", "", " ", "\t", "\r", "  ", "\x0b", "\xa0"])
EXTRA_KEYS = [
    "x",
    "y",
    "amoun",
    "amounts",
    "Amount",
    "a\\u0074",
    "\\u0069d",
    "",
    "é",
    "pla\x00ce",
    "place.lat",
    "\\ud800",
]


@st.composite
def record_text(draw: st.DrawFn, spec: StreamSpec) -> str:
    """A record that is often good, and often good but for one value, with odd keys and white space."""
    good = {
        "id": '"r1"',
        "amount": "12",
        "at": "1767225600000",
        "meta": '{"id":"m","in":1767225600}',
        "score": "1.25",
        "tags": '["a"]',
    }
    top = list(dict.fromkeys(name.split(".")[0] for name in spec.columns))
    members = [(key, good[key]) for key in top if key in good]
    for key in draw(st.lists(st.sampled_from(top + EXTRA_KEYS), max_size=3)):
        value = draw(VALUES)
        places = [at for at, (known, _) in enumerate(members) if known == key]
        if places and draw(st.integers(0, 9)):
            members[places[0]] = (key, value)
        else:
            members.insert(draw(st.integers(0, len(members))), (key, value))
    if draw(st.booleans()):
        members = draw(st.permutations(members))
    gap = SPACES if draw(st.integers(0, 3)) == 0 else st.just("")
    body = ",".join(f'{draw(gap)}"{key}"{draw(gap)}:{draw(gap)}{value}{draw(gap)}' for key, value in members)
    return f"{draw(gap)}{{{body}}}{draw(gap)}"


@st.composite
def line_bytes(draw: st.DrawFn, spec: StreamSpec) -> bytes:
    """A record's line, whole or broken."""
    kind = draw(st.integers(0, 19))
    if kind == 0:
        return draw(VALUES).encode()
    if kind == 1:
        return draw(st.binary(max_size=20))
    line = draw(record_text(spec)).encode("utf-8", "surrogatepass")
    if kind == 2:
        return line + draw(st.sampled_from([b"x", b" {}", b",", line, b"\x00", b"\xef\xbb\xbf"]))
    if kind == 3:
        return draw(one_of_these(b"\xef\xbb\xbf", b"\xff\xfe", b"\x00", b"[", b"1")) + line
    if kind <= 7:
        at = draw(st.integers(0, len(line)))
        cut = draw(st.integers(0, 3))
        piece = draw(
            st.binary(max_size=3)
            | st.sampled_from([b'"', b"\\", b"{", b"}", b"\xc3\xa9", b"\xed\xa0\x80", b"\n", b"1", b"null"])
        )
        return line[:at] + piece + line[at + cut :]
    return line
