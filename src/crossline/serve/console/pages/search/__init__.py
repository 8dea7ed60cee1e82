"""One search over all that there is."""
