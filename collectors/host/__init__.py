"""What an agent reads on its host: one file a source, one line a source in `collectors.agent.catalogue.CATALOGUE`."""
