"""What an agent saw when it looked again at the source of a hard event: one event and a second look are hard evidence.

A look that finds the fault standing is a source of its own. One that finds the device well speaks against the event: a
replayed line, a transient, another device's. Of a port it says nothing: a link that is up again has flapped.
"""

from collections.abc import Iterable

from diagnosis.case import Case
from diagnosis.evidence import GOOD, bucket_of, cites, identity
from sickbay.components import Kind, host_of
from sickbay.messages import Event, Evidence, Severity
from sickbay.vocabulary import event_kinds

NAME, VERSION = "looked_again", "1"

KIND = "monitor.reread"
STANDS = {"yes": GOOD, "no": -GOOD}
OF = frozenset({Kind.ACCELERATOR, Kind.NIC, Kind.PCIE})


def claims(case: Case) -> Iterable[Evidence]:
    """One claim per look that could tell."""
    for event in case.events:
        if event.kind == KIND and (fault := _fault(event)):
            yield _claim(event, fault)


def _fault(event: Event) -> str:
    """The class that the event looked after is evidence for; empty where the look says nothing of it."""
    about, kind = event.attributes.get("about", ""), event_kinds().get(event.attributes.get("of", ""))
    sort, _, rest = about.partition(":")
    own = sort in OF and bool(rest) and host_of(about) == host_of(event.component)
    return kind.fault if own and kind is not None and event.attributes.get("confirmed") in STANDS else ""


def _claim(event: Event, fault: str) -> Evidence:
    about, stands = event.attributes["about"], event.attributes["confirmed"]
    return Evidence(
        id=identity(NAME, VERSION, about, fault, f"{stands}|{bucket_of(event.at_ms)}"),
        detector=NAME,
        version=VERSION,
        component=about,
        fault=fault,
        llr=STANDS[stands],
        onset_from_ms=event.at_ms,
        onset_to_ms=event.at_ms,
        end_ms=event.at_ms,
        source_group=f"{about}|looked_again",
        severity=Severity.ERROR,
        says="looked_again_stands" if stands == "yes" else "looked_again_well",
        facts={"saw": event.message.partition(": ")[2] or event.message, "code": event.attributes.get("code", "")},
        cites=cites([event]),
    )
