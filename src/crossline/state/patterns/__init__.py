"""The pattern kernel: finds sequences and absences among the records of a key, on the record store of windows.

A pattern is a list of steps, matched in order by records of one key. After each step but the last, one partial match
may wait. A record is offered to the last step first:

- It takes a step if it is in the step's entry, its clock is not before that of the record that took the step before,
  and at most ``within_ms`` after that of the first one (closed, as EQL's maxspan). The match then waits at the next
  step, or is a hit and used up. Where the record does not fit, what waits goes on waiting.
- Of two matches at one place, the one that began later stays, by clock; of two that began at the same time, the one
  that comes. On a log in order it is always the one that comes; a late record does not push out what is younger.
- ``strict``: a record of that entry ends each match that it meets and that it does not carry on.
- ``until``: a record of that entry ends what is under way, after all steps: what it completed is a hit, what it began
  or carried on is gone.
- Both leave alone what began after them, by clock. A late one finds matches that are already further, and ends them all
  the same: in order they would not have come so far.

A match is thus never held up by one that began before it, and what is too old for another step may be there or not:
eviction, and a log without its beginning, change no answer.
"""
