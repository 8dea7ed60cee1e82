"""Who may ask the API for what: keys, tokens, roles, limits, and the log of what was written."""
