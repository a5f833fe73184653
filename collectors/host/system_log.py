"""Logs that daemons of this host write into files of their own: the fabric manager's, a switch tray's, and those set.

They are followed as training logs are, but speak of this host and its hardware.
"""

from collections.abc import Iterator, Sequence

from collectors.agent.source import Host, Seen
from collectors.host.job_log import JobLog
from collectors.lines import Dated
from sickbay.messages import Event, replace

# Where the fabric manager and the subnet manager of switch trays write unless they are told otherwise.
USUAL = ("var/log/fabricmanager.log", "var/log/nvlsm.log")


class SystemLog(JobLog):
    """The collector `system_log`."""

    name = "system_log"

    def __init__(self, host: Host) -> None:
        absent = "none of its logs is there, or was written to of late"
        super().__init__(host, (*USUAL, *host.settings.system_logs), absent)

    def _seen(self, path: str, dated: Sequence[Dated]) -> Iterator[Seen]:
        """Whatever it says of this host; a line that names another host is not believed."""
        for one in dated:
            record, told = one.reading.record, one.reading.host
            if not isinstance(record, Event) or (told and not self._host.is_self(told)):
                continue
            if record.host and not self._host.is_self(record.host):
                record = replace(record, host="")
            yield Seen(record, one.at_ms, path, one.line, host=self._host.name)


def collectors(host: Host) -> Sequence[SystemLog]:
    """One."""
    return (SystemLog(host),)
