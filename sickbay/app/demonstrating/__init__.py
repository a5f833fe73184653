"""`sickbay demo`: a simulated cluster through the real parts.

`demo` (the run), `agents` (all agents of the cluster, in memory), `demo_report`; `simulated_site`: the site that
`sickbay up --simulate` watches.

`simulate` (a cluster of any size, as fast as it goes), `simulated_night` (what happens in it), `simulated_part` (what
the agents of some of its hosts tell), `simulated_sinks` (where that goes).
"""
