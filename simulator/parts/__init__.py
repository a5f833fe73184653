"""What a cluster is made of, and what its sensors read: `cluster`, `cables`, `facility`, `physics`."""
