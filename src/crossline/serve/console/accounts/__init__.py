"""Who logs in: local users, sessions, tries, the provider, and what each person prefers."""
