"""Judging again what a record out of order may change: a kernel around the kernels of windows and of patterns.

It keeps the records themselves, with all that judging them asks for, in a table (``table``). Of each key that a batch
brings records of, it works out which rows are to be judged, one after the other, before and after each record that is
out of order (``replays``), and has the inner kernel judge them on a store made for the purpose (``kernel``). What is
told of it is worked out from the hits (``evaluate/alerts/corrections.py``).

So what stands is a function of the records that are held, by their order of time, and of no hit that was told before.
"""
