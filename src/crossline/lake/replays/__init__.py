"""How the slices of a replay are cut further."""
