"""`sickbay relay`, and what `sickbay up` listens to.

`listener` (the stage), `listen_server`, `listen_sockets`, `tokens`, `intake` (a request to an answer), `hooks`
(changes, work), `handing` (agents' records), `sink` (the log; packs).
"""
