"""The values of a window by buckets, while a figure is read: how many each bucket has, and which have any.

Of some 2^18 buckets few have values. So three levels of bits say which: a bit for each bucket, one for each word of
those that is not 0, and one for each word of these. The next bucket with values is found without a walk.

A window of a few items only has them put in order instead: the buckets alone are more than the nearest cache holds.
"""

from __future__ import annotations

from typing import Any

from crossline.state.memory.access import inlined, jit, lowest
from crossline.state.memory.fields import get, load, put
from crossline.state.panes import layout as at
from crossline.state.panes.aggregates.sketches import BUCKETS, BUCKETS_HALF, ITEMS_AT, value_of
from crossline.state.panes.heap import block

WORD_BITS = 5  # bits of a word, as a power of 2
IN_WORD = (1 << WORD_BITS) - 1
WORDS, GROUPS, TOPS = (BUCKETS >> WORD_BITS * level for level in (1, 2, 3))
BUCKET_BYTES = at.A_BUCKET.bytes
FEW_MAX = 32  # items that are put in order
_COUNT_BITS, _COUNTS = 32, 0xFFFFFFFF


@inlined
def count_bucket(h: int, bucket: int, count: int) -> None:
    """Count values of a bucket."""
    place = bucket + BUCKETS_HALF
    before = get(h, at.BUCKETS, place)
    put(h, at.BUCKETS, place, before + count)
    if before == 0:
        word, group, top = place >> WORD_BITS, place >> 2 * WORD_BITS, place >> 3 * WORD_BITS
        put(h, at.BUCKET_WORDS, word, get(h, at.BUCKET_WORDS, word) | (1 << (place & IN_WORD)))
        put(h, at.BUCKET_GROUPS, group, get(h, at.BUCKET_GROUPS, group) | (1 << (word & IN_WORD)))
        put(h, at.BUCKET_TOPS, top, get(h, at.BUCKET_TOPS, top) | (1 << (group & IN_WORD)))


@jit
def count_buckets(h: int, handle: int) -> None:
    """As ``count_bucket``, for all that a sketch has."""
    if handle != 0:
        head = block(h, handle)
        item = head + ITEMS_AT
        for _ in range(load(head, at.SKETCH_ITEMS)):
            count_bucket(h, load(item, at.BUCKET), load(item, at.BUCKET_COUNT))
            item += BUCKET_BYTES


@inlined
def put_few(h: int, n: int, bucket: int, count: int) -> None:
    """Put an item among the ``n`` of FEW, by its bucket."""
    item, k = (bucket << _COUNT_BITS) | count, n
    while k > 0 and get(h, at.FEW, k - 1) > item:
        put(h, at.FEW, k, get(h, at.FEW, k - 1))
        k -= 1
    put(h, at.FEW, k, item)


@jit
def put_few_of(h: int, n: int, handle: int) -> Any:
    """Put all that a sketch has among the ``n`` items of FEW: how many there are then; above FEW_MAX: too many."""
    if handle == 0:
        return n
    head = block(h, handle)
    item, items = head + ITEMS_AT, load(head, at.SKETCH_ITEMS)
    if n + items > FEW_MAX:
        return FEW_MAX + 1
    for _ in range(items):
        put_few(h, n, load(item, at.BUCKET), load(item, at.BUCKET_COUNT))
        n += 1
        item += BUCKET_BYTES
    return n


@jit
def ranked_few(h: int, n: int, rank: int) -> Any:
    """The value of rank ``rank`` of the ``n`` items of FEW."""
    k, before = 0, get(h, at.FEW, 0) & _COUNTS
    while before < rank and k + 1 < n:
        k += 1
        before += get(h, at.FEW, k) & _COUNTS
    return value_of(int(get(h, at.FEW, k) >> _COUNT_BITS))


@jit
def ranked(h: int, rank: int) -> Any:
    """The value of rank ``rank`` (the least: 1) of those that were counted, of which nothing is left then."""
    found, before = 0, 0
    for top in range(TOPS):
        groups = get(h, at.BUCKET_TOPS, top)
        put(h, at.BUCKET_TOPS, top, 0)
        while groups != 0:
            group = (top << WORD_BITS) + lowest(groups)
            groups &= groups - 1
            words = get(h, at.BUCKET_GROUPS, group)
            put(h, at.BUCKET_GROUPS, group, 0)
            while words != 0:
                word = (group << WORD_BITS) + lowest(words)
                words &= words - 1
                places = get(h, at.BUCKET_WORDS, word)
                put(h, at.BUCKET_WORDS, word, 0)
                while places != 0:
                    place = (word << WORD_BITS) + lowest(places)
                    places &= places - 1
                    found = place if before < rank else found
                    before += get(h, at.BUCKETS, place)
                    put(h, at.BUCKETS, place, 0)
    return value_of(int(found) - BUCKETS_HALF)  # in Python, ldexp takes no integer of numpy


@jit
def next_bucket(h: int, place: int) -> Any:
    """The place behind ``place`` (-1: the first) of a bucket in which something was counted, or -1."""
    place += 1  # behind the last of each level stands a word without bits
    word, group, top = place >> WORD_BITS, 0, 0
    places = get(h, at.BUCKET_WORDS, word) >> (place & IN_WORD)
    if places != 0:
        return place + lowest(places)
    word += 1
    group = word >> WORD_BITS
    words = get(h, at.BUCKET_GROUPS, group) >> (word & IN_WORD)
    if words == 0:
        group += 1
        top = group >> WORD_BITS
        groups = get(h, at.BUCKET_TOPS, top) >> (group & IN_WORD)
        while groups == 0:
            top += 1
            if top >= TOPS:
                return -1
            group = top << WORD_BITS
            groups = get(h, at.BUCKET_TOPS, top)
        group += lowest(groups)
        word = group << WORD_BITS
        words = get(h, at.BUCKET_GROUPS, group)
    word += lowest(words)
    return (word << WORD_BITS) + lowest(get(h, at.BUCKET_WORDS, word))


@jit
def taken_count(h: int, place: int) -> Any:
    """How many were counted at a place, where nothing is left then."""
    count, word = get(h, at.BUCKETS, place), place >> WORD_BITS
    put(h, at.BUCKETS, place, 0)
    places = get(h, at.BUCKET_WORDS, word) & ~(1 << (place & IN_WORD))
    put(h, at.BUCKET_WORDS, word, places)
    if places == 0:
        group = word >> WORD_BITS
        words = get(h, at.BUCKET_GROUPS, group) & ~(1 << (word & IN_WORD))
        put(h, at.BUCKET_GROUPS, group, words)
        if words == 0:
            top = group >> WORD_BITS
            put(h, at.BUCKET_TOPS, top, get(h, at.BUCKET_TOPS, top) & ~(1 << (group & IN_WORD)))
    return count
