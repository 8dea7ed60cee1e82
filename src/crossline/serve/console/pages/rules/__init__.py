"""Which rules there are, what each means, and what another text of it would do."""
