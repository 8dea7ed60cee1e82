"""Programs that build, check and document crossline; not part of the wheel."""
