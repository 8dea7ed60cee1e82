"""Rules and versions next to each other: which says no more than another, and who has which keys."""
