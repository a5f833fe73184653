"""`sickbay demo`: a simulated cluster through the real parts.

`demo` (the run), `agents` (all agents of the cluster, in memory), `demo_report`; `simulated_site`: the site that
`sickbay up --simulate` watches.
"""
