"""Dead letters: what could not be read, as people look at it, and sent again once it is mended."""
