"""Who is exempt or watched, and until when."""
