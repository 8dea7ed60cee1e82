"""Messages that topics get once, in transactions."""
