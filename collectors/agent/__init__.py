"""The agent of one host: what it collects becomes messages and frames, lies in a spool, and goes to the log."""
