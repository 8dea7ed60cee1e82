"""The console: pages for people, over the same functions as the API."""
