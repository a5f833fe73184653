"""A simulated site in real time, which real agents watch: `site`, `exporter`, `site_jobs`, `trainer`, `node_test`."""
