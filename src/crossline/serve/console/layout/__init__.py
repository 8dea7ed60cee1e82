"""What all pages have in common: the frame around a page, and its parts as macros."""
