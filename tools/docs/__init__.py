"""The site: generators of reference pages, and the hook by which MkDocs reads them."""
