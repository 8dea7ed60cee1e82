"""A piece of work: which one it is, where its time goes, how much was done."""
