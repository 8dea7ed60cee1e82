"""``check(state)``: what must hold of matches under way between any two calls, found out from memory alone."""

from __future__ import annotations

from crossline.state.memory import layout as at
from crossline.state.patterns.program import entries_of
from crossline.state.patterns.store import PatternSpaceState


def check(state: PatternSpaceState) -> None:
    """Every match has as many steps as its place says, in time and of its key; every row is in one match, or free."""
    memory, words = state._memory, state._memory.words
    by, prior, began = (memory.field(at.MATCH_STEPS, field).tolist() for field in (at.BY, at.PRIOR, at.BEGAN))
    clocks, slots = memory.clocks().tolist(), memory.field(at.RECORDS, at.SLOT).tolist()
    met: list[int] = []
    place = 0
    for line in state.plan.lines:
        for steps in range(1, len(entries_of(line))):
            waiting = memory.field(at.SLOTS, int(words[at.WAITING_AT]) + 4 * place).tolist()
            place += 1
            for slot, last in enumerate(waiting):
                if last < 0:
                    continue
                chain = [last]
                while prior[chain[0]] >= 0:
                    chain.insert(0, prior[chain[0]])
                met += chain
                records = [by[taken] for taken in chain]
                assert len(chain) == steps
                assert {began[taken] for taken in chain} == {records[0]}
                assert {slots[record] for record in records} == {slot}
                times = [clocks[record] for record in records]
                assert times == sorted(times)
                assert times[-1] - times[0] <= line.within_ms
    assert place == words[at.MATCH_STATES]
    free = int(words[at.FREE_MATCH_STEP])
    while free >= 0:
        met.append(free)
        free = prior[free]
    assert sorted(met) == list(range(int(words[at.N_MATCH_STEPS])))
    tails = memory.field(at.SLOTS, at.TAIL).tolist()
    assert words[at.N_VACANT] == tails.count(-1)
    first = int(words[at.FIRST_RECORD])
    for slot, tail in enumerate(tails):
        mine = [clock for clock, of in zip(clocks[first:], slots[first:], strict=True) if of == slot]
        # Of a key whose last by clock was dropped there may be earlier ones that came later.
        assert tail < 0 or (tail >= first and clocks[tail] == max(mine))
