"""What runs on a cluster: `run` (a synchronous job, second by second)."""
