"""Frames of pollers: a sender's own rows only, layouts before them, and nothing that could not be admitted."""

import numpy as np

from collectors.cluster.poll_frames import Framer
from sickbay import wire
from sickbay.layouts import Schemas, decoded
from sickbay.schema import Samples
from sickbay.topics import SCHEMAS, TELEMETRY


def test_each_sender_gets_a_frame_of_its_own() -> None:
    framer = Framer()
    ports = Samples(
        "port",
        ["port:leaf1/e1", "port:leaf2/e1", "port:leaf1/e2"],
        np.array([1000, 1000, 2000]),
        {"up": np.array([1.0, 0.0, np.nan])},
    )
    units = Samples("cdu", ["cdu:c1"], np.array([1000]), {"leak": np.array([0.0])})
    sent = list(framer.framed([ports, units], 3000))
    schemas = Schemas()
    for one in sent:
        if one.topic == SCHEMAS:
            schemas.learn(decoded(one.payload))
    frames = {one.key: wire.decode(one.payload, schemas) for one in sent if one.topic == TELEMETRY}
    assert set(frames) == {b"leaf1", b"leaf2", b"c1"}
    (table,) = frames[b"leaf1"].tables
    assert table.names == ("port:leaf1/e1", "port:leaf1/e2")
    again = list(framer.framed([units], 4000))
    assert [one.topic for one in again] == [TELEMETRY]
    assert wire.decode(again[0].payload, schemas).sequence == 2
