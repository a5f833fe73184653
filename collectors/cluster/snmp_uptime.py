"""Whether a device started anew, or only its agent: what its clocks say, which count from different moments.

sysUpTime counts from the start of the agent and goes round after 497 days; snmpEngineTime too, for 68 years, beside
a count of starts; hrSystemUptime counts from the start of the system. Where only the agent's clocks are told, a
restart of the system shows in the counters of its ports, which start from zero; an agent's leaves them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

ROUND_MS = 42_949_672_960  # 2^32 hundredths of a second
SLACK_MS = 60_000  # that clocks of one device may differ between two looks
COLD = 0.5  # of the ports that counted, this share fell back: they count anew


@dataclass(frozen=True, slots=True)
class Clocks:
    """What a device said at one look; None where it tells it not."""

    at_ms: int
    agent_ms: int | None = None
    system_ms: int | None = None
    starts: int | None = None  # snmpEngineBoots
    octets: Mapping[str, float] = field(default_factory=dict)  # port -> received


def restarted(before: Clocks | None, now: Clocks) -> str:
    """`system`, `agent`, or "" where nothing started since the look before."""
    if before is None:
        return ""
    passed_ms = now.at_ms - before.at_ms
    if _anew(before.system_ms, now.system_ms, passed_ms):
        return "system"
    counted = before.starts is not None and now.starts is not None and now.starts > before.starts
    if not counted and not _anew(before.agent_ms, now.agent_ms, passed_ms):
        return ""
    if before.system_ms is not None and now.system_ms is not None:
        return "agent"
    return "system" if _cold(before.octets, now.octets) else "agent"


def _anew(before_ms: int | None, now_ms: int | None, passed_ms: int) -> bool:
    if before_ms is None or now_ms is None or now_ms + SLACK_MS >= before_ms + passed_ms:
        return False
    return abs(before_ms + passed_ms - ROUND_MS - now_ms) > SLACK_MS


def _cold(before: Mapping[str, float], now: Mapping[str, float]) -> bool:
    both = [port for port in before.keys() & now.keys() if before[port] > 0]
    return bool(both) and sum(now[port] < before[port] for port in both) >= COLD * len(both)
