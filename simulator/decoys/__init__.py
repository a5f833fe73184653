"""Decoys: what looks alarming and is nothing. Nobody may be taken out of service for one of these.

One file a theme: `users` and their jobs, `pauses` of a whole job, `uneven` work of ranks, `sensing`, people at `work`,
and `surroundings`: the hall, the neighbours, tests on idle hosts. `kit`: what they share.
"""

from collections.abc import Callable

from simulator.decoys import pauses, sensing, surroundings, uneven, users, work
from simulator.faults import telemetry
from simulator.faults.kit import Happening
from simulator.faults.optics import PortClosed
from simulator.faults.pause import Congestion, PartialSweep, PauseFromAfar

DECOYS: dict[str, Callable[..., Happening]] = {
    "scancel_storm": users.CancelStorm,
    "program_error": users.ProgramError,
    "user_exception": users.Mistake,
    "wrong_path": users.WrongPath,
    "device_memory": users.DeviceMemory,
    "own_limit": users.HostMemory,
    "checkpoint_pause": pauses.CheckpointPause,
    "evaluation": pauses.Evaluation,
    "whole_job_slow": pauses.WholeJobSlow,
    "power_policy": pauses.PowerPolicy,
    "stage_imbalance": uneven.StageImbalance,
    "sequence_stragglers": uneven.SequenceStragglers,
    "expert_imbalance": uneven.ExpertImbalance,
    "corrected_errors": sensing.CorrectedErrors,
    "glitch": sensing.Glitch,
    "exporter_gap": sensing.ExporterGap,
    "profiling_blank": sensing.ProfilingBlank,
    "clock_off": telemetry.ClockOff,
    "stale_exporter": telemetry.StaleValues,
    "wrong_unit": telemetry.WrongUnit,
    "half_fabric": telemetry.HalfFabric,
    "poller_down": telemetry.PollerDown,
    "orderly_shutdown": work.OrderlyShutdown,
    "maintenance": work.Maintenance,
    "firmware_rollout": work.FirmwareRollout,
    "switch_reboot": work.SwitchReboot,
    "cable_work": work.CableWork,
    "daemon_restart": work.DaemonRestart,
    "less_coolant": surroundings.LessCoolant,
    "warm_day": surroundings.WarmDay,
    "neighbours": surroundings.Neighbours,
    "burn_in": surroundings.BurnIn,
    "collective_test": surroundings.CollectiveTest,
    "port_closed": PortClosed,
    "pause_from_afar": PauseFromAfar,
    "congestion": Congestion,
    "partial_sweep": PartialSweep,
}

# Of the scheduler, switches, modules, declarations and idle hosts: a demo of hosts and jobs alone does not show these.
OF_THE_SITE = frozenset(
    {
        "orderly_shutdown", "maintenance", "firmware_rollout", "switch_reboot", "cable_work", "daemon_restart",
        "less_coolant", "warm_day", "neighbours", "burn_in", "collective_test", "port_closed", "pause_from_afar",
        "congestion", "partial_sweep", "clock_off", "stale_exporter", "wrong_unit", "half_fabric", "poller_down",
    }
)  # fmt: skip
