"""The first page that a person may see."""
