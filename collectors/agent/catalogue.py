"""Which collectors there are, and those that the settings of a host ask for."""

import importlib
from typing import cast

from collectors.agent import states
from collectors.agent.source import Collector, Host, Make
from collectors.agent.states import State
from sickbay.config import ConfigError
from sickbay.settings import Config

# name -> function of a Host that makes the collectors which the settings ask for; loaded when an agent starts.
CATALOGUE = {
    "accelerator_amd_smi": "collectors.host.accelerator_amd_smi:collectors",
    "accelerator_bus": "collectors.host.accelerator_bus:collectors",
    "accelerator_exporter": "collectors.host.accelerator_exporter:collectors",
    "accelerator_nvml": "collectors.host.accelerator_nvml:collectors",
    "disk_health": "collectors.host.disk_health:collectors",
    "host_disk": "collectors.host.host_disk:collectors",
    "host_load": "collectors.host.host_load:collectors",
    "host_management": "collectors.host.host_management:collectors",
    "host_management_log": "collectors.host.host_management_log:collectors",
    "host_memory_errors": "collectors.host.host_memory_errors:collectors",
    "host_pcie": "collectors.host.host_pcie:collectors",
    "host_storage": "collectors.host.host_storage:collectors",
    "host_versions": "collectors.host.host_versions:collectors",
    "job_log": "collectors.host.job_log:collectors",
    "job_ras": "collectors.host.job_ras:collectors",
    "job_recorder": "collectors.host.job_recorder:collectors",
    "journal_log": "collectors.host.journal_log:collectors",
    "job_steps": "collectors.host.job_steps:collectors",
    "kernel_log": "collectors.host.kernel_log:collectors",
    "nic_sysfs": "collectors.host.nic_sysfs:collectors",
    "optic_ethtool": "collectors.host.optic_ethtool:collectors",
    "optic_mlxlink": "collectors.host.optic_mlxlink:collectors",
    "second_look": "collectors.agent.second_look:collectors",
    "system_log": "collectors.host.system_log:collectors",
}


def check_names(config: Config) -> None:
    """Raises ConfigError for a collector that there is not."""
    if unknown := set(config.agent.collectors) - set(CATALOGUE):
        raise ConfigError(f"[agent] collectors: there is none called {min(unknown)}; there are {', '.join(CATALOGUE)}")


def collectors_of(host: Host) -> list[Collector]:
    """All collectors that the settings ask for."""
    return sources_of(host)[0]


def sources_of(host: Host) -> tuple[list[Collector], list[State]]:
    """The collectors that the settings ask for, and the sources that they leave out or for which nothing is set."""
    made: list[Collector] = []
    chosen = sorted(host.settings.collectors or CATALOGUE)
    left = [State(name, "off", states.BY_SETTINGS) for name in sorted(CATALOGUE.keys() - set(chosen))]
    for source in chosen:
        module, _, function = CATALOGUE[source].partition(":")
        found = cast(Make, getattr(importlib.import_module(module), function))(host)
        left += [] if found else [State(source, "absent", states.unset(source))]
        for one in found:
            if one.asks_driver and not host.settings.driver_calls:
                left.append(State(one.name, "off", states.NO_CALLS))
            else:
                made.append(one)
    return made, left
