"""Opening the log for a service: it is waited for, as brokers and processors may be started in any order."""

import signal
import threading
from collections.abc import Callable

from sickbay.log import Log, LogBusy
from sickbay.log.opened import open_log
from sickbay.settings import LogSettings
from sickbay.trouble import Trouble

AGAIN_S = 1.0


def awaited_log(settings: LogSettings, say: Callable[[str], None]) -> Log | None:
    """The log, once it answers; None where SIGTERM or SIGINT comes first. Raises LogError where waiting is no help."""
    stop, trouble = threading.Event(), Trouble("waits for the log", say)
    before = {one: signal.signal(one, lambda *_: stop.set()) for one in (signal.SIGTERM, signal.SIGINT)}
    try:
        while not stop.is_set():
            try:
                log = open_log(settings)
                trouble.over()
                return log
            except LogBusy as error:
                trouble.failed(error)
                stop.wait(AGAIN_S)
        return None
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)
