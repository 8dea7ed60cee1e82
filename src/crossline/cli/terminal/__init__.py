"""What commands print: tables for people, sentences beside them, and JSON lines for programs."""
