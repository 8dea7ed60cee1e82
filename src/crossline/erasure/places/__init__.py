"""The places where a key or a record id may be; one module each."""
