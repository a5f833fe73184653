"""The log: queue, history and state of all stages. Protocols here, one module per engine."""
