"""The load: payments at a rate, in a format, and the log of them."""
