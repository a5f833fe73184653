"""25,600 links: read from lists, planned as an import, looked up. 100,000 take four times as long."""

import pytest

from collectors.formats import inventory
from collectors.formats.reading import Tally
from sickbay.app.asking.topology_import import Known, plan
from sickbay.app.asking.topology_shown import summary
from sickbay.edges import key_of
from sickbay.messages import Edge, Relation
from sickbay.topology import Topology

HOSTS, DEVICES, PER_LEAF = 3_200, 8, 32


def cables() -> list[Edge]:
    rows = (
        f"h{host},n{device},leaf{host // PER_LEAF}-{device},{host % PER_LEAF}\n"
        for host in range(HOSTS)
        for device in range(DEVICES)
    )
    tally = Tally()
    text = "host,port,switch,switch_port\n" + "".join(rows)
    found = [one.record for one in inventory.read([text.encode()], tally, "cables.csv")]
    assert tally.unparsed == 0
    return [one for one in found if isinstance(one, Edge)]


@pytest.mark.slow
def test_many_links() -> None:
    written = cables()
    leaves = dict.fromkeys(one.parent.partition(":")[2].rpartition("/")[0] for one in written)
    owned = [
        Edge(child=f"port:{leaf}/{n}", parent=f"switch:{leaf}", relation=Relation.PART_OF, source="gnmi")
        for leaf in leaves
        for n in range(PER_LEAF)
    ]
    swapped = {"port:h7/n0": "port:leaf0-1/7", "port:h7/n1": "port:leaf0-0/7"}
    seen = [
        Edge(child=one.child, parent=swapped.get(one.child, one.parent), relation=one.relation, source="lldp")
        for one in written
    ]
    told = [*written, *owned, *seen]
    changes = plan(Known({}, {}), Known({(one.source, key_of(one)): one for one in told}, {}), 5)
    assert len(changes.new) == len(told)
    assert len(changes.conflicts) == 4  # each end of the two cables that lists have elsewhere
    found = summary(Topology(told), told, None)
    assert (found.links, found.rails, found.odd_ports) == (HOSTS * DEVICES, DEVICES, ("port:h7/n0", "port:h7/n1"))
