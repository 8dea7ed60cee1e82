"""Systems that tests and demonstrations start on this machine."""
