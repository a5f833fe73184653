"""A host that goes blind as its job stalls (night 8): 9 in 10, however plainly it stands; held once a code says so."""

from diagnosis.engine import diagnose
from remediation.plan import planned
from sickbay.messages import Incident, Verdict
from tests.diagnosis.kit import HOSTS, Row, accelerators, case, event, hosts_up, placement

SICK = "h17"


def stalled(component: str, end_s: int, row: Row) -> Row | None:
    if end_s <= 0:
        return row
    if f":{SICK}/" in component:
        return None
    return row | {"matrix_active_ratio": 0.0, "power_watts": 190.0 + end_s % 7, "clock_megahertz": 1980.0}


def judged(*codes: str) -> Incident:
    told = [event(kind, f"accelerator:{SICK}/0000:03:00", 45.0, code="Xid 119") for kind in codes]
    features = {"accelerator": accelerators(HOSTS, stalled, to_s=90), "host": hosts_up(HOSTS, to_s=90)}
    at = case(told, [placement("4471", HOSTS)], features=features)
    (incident,) = [one for one in planned(diagnose(at), at) if SICK in one.component]
    return incident


def test_blindness_and_the_stall_that_it_is_seen_by_are_one_fact() -> None:
    incident = judged()
    assert (incident.component, incident.fault) == (f"host:{SICK}", "host_blind")
    assert incident.probability <= 0.9
    assert "exclude_for_job" in {step.do for step in incident.plan}
    assert "drain_host" not in {step.do for step in incident.plan}


def test_a_code_makes_it_a_hold() -> None:
    incident = judged("accelerator.firmware_hang")
    assert incident.fault == "accelerator_firmware_hang"
    assert "drain_host" in {step.do for step in incident.plan}


def test_a_host_that_is_shut_down_goes_blind_on_its_way() -> None:
    """Its services end one by one: what watches the accelerators before what tells that the host lives."""
    features = {"accelerator": accelerators(HOSTS, stalled, to_s=90), "host": hosts_up(HOSTS, to_s=90)}
    down = event("host.shutdown_orderly", f"host:{SICK}", -8.0)
    at = case([down], [placement("4471", HOSTS)], features=features)
    (incident,) = [one for one in planned(diagnose(at), at) if SICK in one.component]
    assert incident.verdict is Verdict.MAINTENANCE
    assert not {"drain_host", "stop_job"} & {step.do for step in incident.plan}
