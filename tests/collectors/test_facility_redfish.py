"""Power and cooling by Redfish: against a server with recorded answers over TLS, and the fold over several looks."""

import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from collectors.cluster import facility_redfish, redfish_get
from collectors.cluster.asking import Answers
from collectors.cluster.facility_redfish import State, polled, sources
from collectors.cluster.poll import Polled, PollFailed
from collectors.cluster.redfish_get import Told
from collectors.http_get import HttpError, address_of
from sickbay.components import Kind
from sickbay.config import ConfigError
from sickbay.messages import Event
from sickbay.settings import Config
from sickbay.source_settings import Facility
from tests.services.recorded_https import CUT, HANG, Recorded, recorded_https

ROOT, CDU, PDU = "/redfish/v1", "/redfish/v1/ThermalEquipment/CDUs/1", "/redfish/v1/PowerEquipment/RackPDUs/1"
OK = {"State": "Enabled", "Health": "OK"}
BAD = {"State": "Enabled", "Health": "Critical"}


def link(path: str) -> dict[str, str]:
    return {"@odata.id": path}


def collection(path: str, *members: str) -> dict[str, Any]:
    return {"@odata.id": path, "Members": [link(one) for one in members], "Members@odata.count": len(members)}


def resource(path: str, schema: str, **told: object) -> dict[str, Any]:
    return {"@odata.id": path, "@odata.type": f"#{schema}.v1_1_0.{schema}", "Status": OK, **told}


def site() -> dict[str, Any]:
    """A coolant unit, a power unit and a host's controller behind one address."""
    secondary, leak = f"{CDU}/SecondaryCoolantConnectors", f"{CDU}/LeakDetection"
    cdu = [
        resource(
            CDU, "CoolingUnit", SecondaryCoolantConnectors=link(secondary), Pumps=link(f"{CDU}/Pumps"),
            LeakDetection=link(leak), Reservoirs=link(f"{CDU}/Reservoirs"),
        ),
        resource(
            f"{secondary}/1", "CoolantConnector",
            FlowLitersPerMinute={"Reading": 402.5, "DataSourceUri": f"{ROOT}/Chassis/1/Sensors/Flow"},
            SupplyTemperatureCelsius={"Reading": 29},
        ),
        resource(f"{ROOT}/Chassis/1/Sensors/Flow", "Sensor", Thresholds={"LowerCritical": {"Reading": 300}}),
        resource(f"{CDU}/Pumps/1", "Pump", PumpSpeedPercent={"Reading": 38}),
        resource(leak, "LeakDetection", LeakDetectors=link(f"{leak}/LeakDetectors")),
        resource(f"{leak}/LeakDetectors/Rope", "LeakDetector", DetectorState="OK"),
    ]  # fmt: skip
    pdu = [
        resource(PDU, "PowerDistribution", Metrics=link(f"{PDU}/Metrics"), Branches=link(f"{PDU}/Branches")),
        resource(f"{PDU}/Metrics", "PowerDistributionMetrics", PowerWatts={"Reading": 6438}),
        resource(f"{PDU}/Branches/A", "Circuit", BreakerState="Normal", CurrentAmps={"Reading": 5.19}),
    ]
    host = [
        resource(f"{ROOT}/Systems/1", "ComputerSystem", PowerState="On"),
        resource(f"{ROOT}/Chassis/1", "Chassis", EnvironmentMetrics=link(f"{ROOT}/Chassis/1/EnvironmentMetrics")),
        resource(f"{ROOT}/Chassis/1/EnvironmentMetrics", "EnvironmentMetrics", PowerWatts={"Reading": 9120}),
    ]
    paths = ("ThermalEquipment", "PowerEquipment", "Systems", "Chassis")
    plain = [
        {"@odata.id": f"{ROOT}", **{one: link(f"{ROOT}/{one}") for one in paths}},
        {"@odata.id": f"{ROOT}/ThermalEquipment", "CDUs": link(f"{ROOT}/ThermalEquipment/CDUs")},
        {"@odata.id": f"{ROOT}/PowerEquipment", "RackPDUs": link(f"{ROOT}/PowerEquipment/RackPDUs")},
        collection(f"{ROOT}/ThermalEquipment/CDUs", CDU), collection(f"{ROOT}/PowerEquipment/RackPDUs", PDU),
        collection(secondary, f"{secondary}/1"), collection(f"{CDU}/Pumps", f"{CDU}/Pumps/1"),
        collection(f"{leak}/LeakDetectors", f"{leak}/LeakDetectors/Rope"),
        collection(f"{PDU}/Branches", f"{PDU}/Branches/A"),
        collection(f"{ROOT}/Systems", f"{ROOT}/Systems/1"), collection(f"{ROOT}/Chassis", f"{ROOT}/Chassis/1"),
    ]  # fmt: skip
    return {str(one["@odata.id"]): one for one in (*cdu, *pdu, *host, *plain)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("redfish")


@pytest.fixture
def server(folder: Path) -> Iterator[Recorded]:
    with recorded_https(folder) as told:
        told.answers = site()
        told.authorization = "Basic c2lja2JheTpzZWNyZXQ="  # sickbay:secret
        yield told


def config(server: Recorded, *units: str, timeout_s: float = 5.0) -> Config:
    password = Path(server.ca_file).with_name("password")
    password.write_text("secret\n", "utf-8")
    return Config(
        facility=Facility(
            redfish=tuple(f"{unit}={server.url}" for unit in units), user="sickbay", password_file=str(password),
            ca_file=server.ca_file, timeout_s=timeout_s,
        )
    )  # fmt: skip


def rows(told: Polled[State]) -> dict[str, dict[str, float]]:
    return {
        component: {column: float(values[place]) for column, values in batch.values.items()}
        for batch in told.samples
        for place, component in enumerate(batch.component)
    }


def kinds(told: Polled[State]) -> list[tuple[str, str]]:
    return [(one.message.component, one.message.kind) for one in told.told if isinstance(one.message, Event)]


def test_a_unit_of_each_kind_by_get_alone(server: Recorded) -> None:
    (source,) = sources(config(server, "cdu:c1", "pdu:p1", "host:h1"))
    told = source.poll(source.state, 1000)
    assert rows(told) == {
        "cdu:c1": {
            "up": 1, "flow_litres_per_minute": 402.5, "supply_temperature_celsius": 29, "pump_ratio": 0.38, "leak": 0,
        },
        "pdu:p1": {"up": 1, "power_watts": 6438, "current_amperes": 5.19},
        "host:h1": {"management_up": 1, "powered": 1, "power_watts": 9120},
    }  # fmt: skip
    assert kinds(told) == []
    assert {one.verb for one in server.asked} == {"GET"}
    assert not any("Sessions" in one.path for one in server.asked)
    assert len(server.asked) < 40


def test_the_client_can_send_nothing_but_get() -> None:
    text = Path(redfish_get.__file__).read_text("utf-8") + Path(facility_redfish.__file__).read_text("utf-8")
    assert text.count(".request(") == 1
    assert '.request("GET", ' in text


def test_what_a_unit_says_of_itself_begins_and_ends(server: Recorded) -> None:
    (source,) = sources(config(server, "cdu:c1"))
    state = source.poll(source.state, 1000).state
    server.answers[f"{CDU}/LeakDetection/LeakDetectors/Rope"]["DetectorState"] = "Critical"
    wet = source.poll(state, 2000)
    assert (kinds(wet), rows(wet)["cdu:c1"]["leak"]) == ([("cdu:c1", "cdu.leak")], 1)
    assert wet.told[0].key == "c1"
    assert kinds(source.poll(wet.state, 3000)) == []
    server.answers[f"{CDU}/LeakDetection/LeakDetectors/Rope"]["DetectorState"] = "OK"
    assert kinds(source.poll(wet.state, 4000)) == [("cdu:c1", "cdu.restored")]


def test_what_stood_at_the_first_look_is_told_so(server: Recorded) -> None:
    server.answers[f"{PDU}/Branches/A"]["BreakerState"] = "Tripped"
    (source,) = sources(config(server, "pdu:p1"))
    (told,) = source.poll(source.state, 1000).told
    assert isinstance(told.message, Event)
    assert told.message.attributes["onset"] == "unknown"


@pytest.mark.slow
def test_one_that_hangs_holds_up_no_other(server: Recorded) -> None:
    (source,) = sources(config(server, "cdu:c1", "pdu:p1", timeout_s=1.0))
    state = source.poll(source.state, 1000).state
    server.answers[f"{ROOT}/ThermalEquipment"] = HANG
    told = source.poll(state, 2000)
    assert rows(told) == {"cdu:c1": {"up": 0}, "pdu:p1": {"up": 1, "power_watts": 6438, "current_amperes": 5.19}}
    assert kinds(told) == [("monitor:c1/redfish", "monitor.blind")]
    server.released.set()
    server.answers = site()
    again = source.poll(told.state, 3000)
    while "still hangs" in " ".join(again.state.silent.values()):
        again = source.poll(told.state, 3000)
    assert kinds(again) == [("monitor:c1/redfish", "monitor.notice")]


def test_half_an_answer_is_no_reading_and_ends_nothing(server: Recorded) -> None:
    (source,) = sources(config(server, "cdu:c1"))
    server.answers[f"{CDU}/Pumps/1"]["Status"] = BAD
    first = source.poll(source.state, 1000)
    assert kinds(first) == [("cdu:c1", "cdu.pump_failed")]
    server.answers[f"{CDU}/Pumps"] = (CUT, server.answers[f"{CDU}/Pumps"])
    half = source.poll(first.state, 2000)
    assert rows(half) == {"cdu:c1": {"up": 1}}
    assert kinds(half) == [("monitor:c1/redfish", "monitor.blind")]


@pytest.mark.parametrize(
    ("broken", "says"),
    [
        ({ROOT: 401}, "answered 401"),
        ({ROOT: {}}, "no ThermalEquipment"),  # a changed schema
        ({ROOT: b"<html>"}, "no JSON"),
        ({f"{ROOT}/ThermalEquipment/CDUs": collection("x", CDU, f"{CDU}2")}, "2 units behind this address"),
        ({f"{ROOT}/ThermalEquipment/CDUs": {"Members": [link("https://elsewhere/redfish/v1/x")]}}, "0 units"),
    ],
)
def test_what_cannot_be_used_says_what_to_do(server: Recorded, broken: dict[str, Any], says: str) -> None:
    server.answers |= broken
    (source,) = sources(config(server, "cdu:c1"))
    with pytest.raises(PollFailed, match=says):
        source.poll(source.state, 1000)


def test_a_stranger_is_not_asked(server: Recorded, tmp_path: Path) -> None:
    settings = config(server, "cdu:c1").facility
    (source,) = sources(Config(facility=Facility(redfish=settings.redfish)))  # trusts the system's authorities only
    with pytest.raises(PollFailed, match=r"TLS|certificate"):
        source.poll(source.state, 1000)
    assert server.asked == []


def test_a_path_names_one_of_several(server: Recorded) -> None:
    server.answers[f"{ROOT}/ThermalEquipment/CDUs"] = collection("x", CDU, f"{CDU}2")
    settings = config(server).facility
    (source,) = sources(
        Config(
            facility=Facility(
                redfish=(f"cdu:c1={server.url}{CDU}",), user="sickbay", password_file=settings.password_file,
                ca_file=server.ca_file,
            )
        )
    )  # fmt: skip
    assert rows(source.poll(source.state, 1000))["cdu:c1"]["pump_ratio"] == 0.38


@pytest.mark.parametrize(
    "settings",
    [
        Facility(),
        Facility(redfish=("c1",)),
        Facility(redfish=("rack:r1=https://h",)),
        Facility(redfish=("cdu:=https://h",)),
        Facility(redfish=("cdu:c1=here",)),
        Facility(redfish=("cdu:c1=http://h",), user="u"),
        Facility(redfish=("cdu:c1=https://h", "cdu:c1=https://i")),
        Facility(redfish=("cdu:c1=https://h",), user="u", password_file="/no/such"),
    ],
)
def test_settings_that_cannot_be_used(settings: Facility) -> None:
    with pytest.raises(ConfigError, match="facility"):
        sources(Config(facility=settings))


def test_where_nobody_answers_nobody_is_called_down() -> None:
    silent = {f"cdu:c{number}": "no route" for number in range(1, 6)}
    with pytest.raises(PollFailed, match=r"cdu:c1, cdu:c2, cdu:c3: no route; and 2 more of 5 "):
        polled(State(heard=frozenset({"cdu:c1"})), Answers({}, silent), 1000)


def test_one_never_heard_of_has_no_row() -> None:
    told = Told({PDU: resource(PDU, "PowerDistribution")})
    found = polled(State(), Answers({"pdu:p1": told}, {"cdu:c1": "no route", "cdu:c2": "HttpError: answered 401"}), 1)
    assert rows(found) == {"pdu:p1": {"up": 1}, "cdu:c2": {"up": 1}}


def test_members_on_several_pages_and_links_with_a_slash(server: Recorded) -> None:
    page = f"{CDU}/Pumps?$skip=1"
    more = resource(f"{CDU}/Pumps/2/", "Pump", Status=BAD)
    server.answers[f"{CDU}/Pumps"] = collection(f"{CDU}/Pumps", f"{CDU}/Pumps/1") | {"Members@odata.nextLink": page}
    server.answers[page] = collection(page, f"{CDU}/Pumps/2/")
    server.answers[f"{CDU}/Pumps/2"] = 308  # as some controllers answer where the slash is missing
    server.answers[f"{CDU}/Pumps/2/"] = more
    (source,) = sources(config(server, "cdu:c1"))
    assert kinds(source.poll(State(), 1000)) == [("cdu:c1", "cdu.pump_failed")]


def test_members_of_another_shape_are_none() -> None:
    odds: list[Any] = [5, "abc", {}, None, [None, 3, {"@odata.id": 7}, {"@odata.id": "//elsewhere/redfish/v1"}]]
    for odd in odds:
        answers: dict[str, Any] = {
            ROOT + "/": {"Systems": link(f"{ROOT}/Systems")}, f"{ROOT}/Systems": {"Members": odd}
        }  # fmt: skip
        told = redfish_get.unit(answers.__getitem__, Kind.HOST)
        assert (len(told.resources), told.missing) == (1, "")


@pytest.mark.parametrize("why", ["HttpError: TLS: CERTIFICATE_VERIFY_FAILED", "TypeError: no len()"])
def test_a_certificate_that_ran_out_is_no_silence(why: str) -> None:
    told = Told({ROOT: resource(ROOT, "PowerDistribution")})
    state = State(heard=frozenset({"cdu:c1"}))
    found = polled(state, Answers({"pdu:p1": told}, {"cdu:c1": why}), 1)
    rows = {one: batch.values["up"][0] for batch in found.samples for one in batch.component}
    assert rows == {"cdu:c1": 1.0, "pdu:p1": 1.0}


@pytest.mark.slow
def test_a_head_that_comes_byte_by_byte_ends_in_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ended = threading.Event()

        def trickle() -> None:
            connection, _ = listener.accept()
            with connection, suppress(OSError):
                connection.sendall(b"HTTP/1.1 200 OK\r\nX: ")
                while not ended.wait(0.05):
                    connection.sendall(b"x")

        thread = threading.Thread(target=trickle, daemon=True)
        thread.start()
        address = address_of(f"http://127.0.0.1:{listener.getsockname()[1]}")
        session = redfish_get.Session(address, {}, "", 0.4)
        try:
            with pytest.raises(HttpError, match="no whole answer within"):
                session.get(ROOT)
        finally:
            session.close()
            ended.set()
            thread.join(5)
