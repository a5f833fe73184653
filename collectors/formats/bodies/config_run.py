"""Runs of configuration tools on a host: who touched it when, from what these tools write to its log.

A run of Ansible is many modules, each a line: one change in ten minutes. Sources: Ansible lib/ansible/module_utils
(`Invoked with`), Puppet's and Chef's reports of a run.
"""

import re
from collections.abc import Iterable, Iterator

from collectors.formats.bodies import Sample
from collectors.formats.reading import Line, Record
from sickbay.clock import Clock
from sickbay.components import UNKNOWN, Kind, name
from sickbay.messages import Change

LITERALS = ("Invoked with ", "Applied catalog in ", "Infra Client Run complete", "Chef Client finished")

AGAIN_MS = 600_000
_MAX_HOSTS = 1_024  # whose last run is remembered
_ANSIBLE = re.compile(r"^(?:ansible-(?P<module>[a-z_][\w.]{1,80}) )?Invoked with ")
_OWN = "ansible-"  # how the tool names itself as a writer to syslog
_PUPPET = re.compile(r"^Applied catalog in (?P<took>[\d.]{1,12}) seconds$")
_CHEF = re.compile(r"^(?:\[[^\]]{1,40}\] )?(?:INFO: )?Chef (?:Infra )?Client (?:Run complete in|finished)")


class ConfigRun:
    """A change of a host for each run."""

    def __init__(self) -> None:
        self._told: dict[tuple[str, str], int] = {}

    def read(self, line: Line) -> Iterator[Record]:
        """The tool and, of Ansible, the first module of the run."""
        body = line.body[:400]
        if match := _ANSIBLE.match(body):
            module = match["module"] or (line.origin[len(_OWN) :] if line.origin.startswith(_OWN) else "")
            if module and self._first(line, "ansible"):
                yield _change("ansible", module[:80])
        elif (match := _PUPPET.match(body)) and line.origin in ("", "puppet-agent", "puppet"):
            yield _change("puppet", f"{match['took']} s")
        elif _CHEF.match(body) and self._first(line, "chef"):
            yield _change("chef", "")

    def _first(self, line: Line, tool: str) -> bool:
        """Whether a line is not of the run that was told last."""
        key = (line.host, tool)
        at_ms = line.stamp.ms if line.stamp.clock is not Clock.NONE else 0
        known = self._told.pop(key, None)
        if len(self._told) >= _MAX_HOSTS:
            del self._told[next(iter(self._told))]
        first = known is None or not 0 <= at_ms - known < AGAIN_MS
        self._told[key] = at_ms if first or known is None else known
        return first

    def end(self) -> Iterable[tuple[Record, Line]]:
        """Nothing is held back."""
        return ()


def _change(tool: str, new: str) -> Change:
    return Change(target=name(Kind.HOST, UNKNOWN), what="config run", who=tool, new=new)


GRAMMAR = ConfigRun

SAMPLES = (
    Sample(
        "ansible-ansible.builtin.copy Invoked with src=/var/tmp/ansible/s dest=/etc/modprobe.d/x.conf mode=0644\n"
        "ansible-ansible.legacy.command Invoked with _raw_params=systemctl restart x creates=None",
        (
            {
                "type": "change",
                "target": "host:?",
                "what": "config run",
                "who": "ansible",
                "new": "ansible.builtin.copy",
            },
        ),
    ),
    Sample(
        "Applied catalog in 14.02 seconds",
        ({"type": "change", "target": "host:?", "what": "config run", "who": "puppet", "new": "14.02 s"},),
    ),
    Sample(
        "Chef Infra Client Run complete in 41.5 seconds",
        ({"type": "change", "target": "host:?", "what": "config run", "who": "chef"},),
    ),
)
