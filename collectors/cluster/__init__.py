"""What is asked from one place for the whole cluster: an entry a kind of source in `collectors.cluster.poll`."""
