"""``python -m crossline.serve.replica``: a follower (see ``follower``)."""

from crossline.serve.replica.follower import main

main()
