"""Composition root: what joins collectors, streams, diagnosis, remediation and dashboards into runs.

A folder a kind of run; each says in its `__init__` which module does what.

- `answering`: `sickbay diagnose`. `demonstrating`: `sickbay demo` and the simulated site.
- `running`: services and their stages (`sickbay process`, `up`, `poll`, `doctor`), of which `diagnosing` is the live
  diagnosis, `archiving` the archive, `alerting` lag, standstill and alerts, `listening` what others send (`relay`).
- `replaying`: `sickbay replay`. `remediating`: `sickbay remediate`. `asking`: what people ask and declare.
"""
