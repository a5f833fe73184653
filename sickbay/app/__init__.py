"""Composition root: what joins collectors, streams, diagnosis and dashboards into one run."""
