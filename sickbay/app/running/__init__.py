"""What every running process is made of.

`service` (a thread a stage), `opening` (the log), `watched` (its calls, timed; less what the process was `starving`),
`exposition` (`/metrics`, `/ready`), `setting_checks` (`sickbay doctor`).

`sickbay process`: `stages` (their names; the ticker), `live` (windows; all in one thread), with `side_reader`
(placements and edges for them) and `frame_layouts`, which all readers of frames share. `sickbay up`: `up`.
`sickbay poll`: `poller`.
"""
