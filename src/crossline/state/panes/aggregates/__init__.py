"""What is made of panes and records: running aggregates, sketches, squares, and the figures that are read of them."""
