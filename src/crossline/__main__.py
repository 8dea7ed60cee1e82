"""``python -m crossline``: the command line."""

from __future__ import annotations

from crossline.cli.main import main

if __name__ == "__main__":
    main()
