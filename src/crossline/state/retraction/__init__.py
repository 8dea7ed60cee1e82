"""Judging again what a record out of order may change: a kernel around the kernels of windows and of patterns.

An example. A rule alerts at each payment with which the average amount of the card's last 10 s is 100 or more. Five
payments come; ``p3`` comes last, though it happened third:

    clock, s        1 ────── 5 ────── 8 ─────────────── 14 ───── 16
    record          p1       p2       (p3)              p4       p5
    amount          90       130      17                150      190

    before p3 came: what was emitted as the records came, in order
    average         90       110 !                      140 !    170 !      alerts at p2, p4, p5

    p3 comes: what is judged again, from p3 on, on p1 and p2, of which nothing changes
    without p3      -        -                          140 !    170 !      variant 0
    with p3         -        -        79                99       119 !      variant 1, caused by p3

    emitted         -        -        -            retracted    amended     corrections of the alerts at p4 and p5

The window of ``p4`` is (4 s, 14 s]: it had p2 and p4, and has p3 besides now. The alert at p2 stands: nothing before a
late record depends on it.

The steps, each a module:

1. ``intake``: rows of a batch enter the ``table`` of all records. It finds duplicates, retractions, and the changes of
   each key in the order of arrival.
2. ``replays``: of a key where something is out of order, the *variants*: the rows from the first change on, without any
   change, with the first one, with the second besides, and so on. Variant n is judged on the rows before its first one
   that windows reach back to. Where all is in order there is one variant, of the new rows. So it is where no record of
   the batch can change a verdict of the key (``constant_verdicts``, by ``figure_bounds`` and ``formula_bounds``).
   Of lines near their thresholds ``arrival_kernel`` tells what each record changes (``moving_lines``), and
   ``verdict_changes`` lists it as two variants of the rows that differ.
3. ``replay_kernel``: all variants of all keys are loaded into a store made for the purpose, each under a key of its
   own, and judged by the inner kernel in one call.
4. The difference between the hits of two successive variants is the effect of the record between them. It is emitted as
   alerts and corrections (``evaluate/alerts/corrections.py``). For each row the table keeps the result of its last
   replay.

So the hits in force are a function of the stored records in the order of their clocks, and of no emitted hit. They do
not depend on batch boundaries. ``layout`` declares the columns of the table.
"""
