"""The file source: patterns, file identity, line ends, and the list of chunks."""
