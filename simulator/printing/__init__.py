"""What the programs of a cluster print, in their own wording; `envelopes` are the ways in which a line is kept."""
