"""How rules do: what was counted of them, what was predicted, what they cost, and whether stream and API agree."""
