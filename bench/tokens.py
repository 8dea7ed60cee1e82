"""What tokens cost to make: ``python -m bench.tokens [--records N] [--persons N]``.

JSON records with two sensitive fields, in batches of 5,000: decoded without sensitive fields, then with keys and tokens
that are new, then with those that are known. Processor time; the table has one line each.
"""

from __future__ import annotations

import argparse
import os
import secrets
import tempfile
import time

import numpy as np

from crossline.basics.streams.inputs import as_came
from crossline.basics.streams.schema import StreamSpec, load_streams
from crossline.ingest.decode import decode_lines
from crossline.io.tokens.opening import decoder_of

STREAM = """
schema_version: 1
streams:
  s:
    id: id
    event_time: {field: at, unit: ms}
    fields: {id: string, at: integer, account_id: string, email: string}
    sensitive: {account_id: {}, email: {person: account_id}}
"""
BATCH = 5_000


def batches(records: int, persons: int) -> list[bytes]:
    """Lines of records of as many persons, in scattered order."""
    drawn = np.random.default_rng(1).integers(0, persons, records).tolist()
    line = '{"id":"r%d","at":1700000000000,"account_id":"a%d","email":"person%d@example.com"}\n'
    lines = [line % (number, person, person) for number, person in enumerate(drawn)]
    return ["".join(lines[start : start + BATCH]).encode() for start in range(0, records, BATCH)]


def spent_us(spec: StreamSpec, parts: list[bytes], records: int) -> float:
    """Microseconds of processor time a record."""
    layout, began_s = decoder_of("s", spec), time.process_time()
    for part in parts:
        fields = decode_lines(layout, part, "s", 0).records.fields
        if len(fields["account_id"]) != len(fields["email"]):
            raise SystemExit("columns of unequal length")
    return (time.process_time() - began_s) * 1e6 / records


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--persons", type=int, default=100_000)
    options = parser.parse_args()
    os.environ["CROSSLINE_TOKEN_KEY"] = secrets.token_hex(32)
    parts = batches(options.records, options.persons)
    with tempfile.TemporaryDirectory() as folder:
        spec = load_streams(STREAM, f"{folder}/stream.yaml")["s"]
        plain = as_came(spec)
        spent_us(plain, parts[:1], BATCH)  # compiles
        for name, each in (("without sensitive fields", plain), ("first pass", spec), ("second pass", spec)):
            print(f"{name:<25} {spent_us(each, parts, options.records):6.2f} µs a record")


if __name__ == "__main__":
    main()
