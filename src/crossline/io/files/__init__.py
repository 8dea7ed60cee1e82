"""Files as a source: which there are, which is which, where their lines end, and the list of chunks."""
