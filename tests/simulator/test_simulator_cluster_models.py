"""Accelerator models: levels as factors, and columns that a maker's exporter does not tell."""

import numpy as np
import pytest

from collectors.formats.vendors import makers
from sickbay.schema import TABLES
from simulator.parts.cluster import Cluster, build
from simulator.parts.models import columns_of, models
from simulator.parts.physics import Conditions, Sensors, calm
from simulator.workload.run import Mode


def working(cluster: Cluster) -> Conditions:
    """All cards in a step."""
    now = calm(cluster)
    now.mode[:] = Mode.STEP
    return now


def read(cluster: Cluster, table: str = "accelerator") -> dict[str, np.ndarray]:
    """A second of all cards at work."""
    sensors = Sensors(cluster, seed=1, boot_s=0.0)
    return sensors.accelerators(working(cluster)) if table == "accelerator" else sensors.ports(working(cluster))


@pytest.mark.parametrize("key", sorted(models()))
def test_every_model_is_of_a_known_maker_and_of_known_columns(key: str) -> None:
    own = models()[key]
    assert own.maker in makers()
    assert own.bus_ids[0] in {*makers()[own.maker].pci, ""}
    assert own.source
    columns = {*TABLES["accelerator"].names, *TABLES["port"].names}
    assert {*own.factors, *own.values, *own.assumed} <= columns
    assert set(own.assumed) <= {*own.factors, *own.values}
    assert own.domain % own.cards == 0


@pytest.mark.parametrize("key", sorted(set(models()) - {"gb200"}))
def test_a_card_tells_what_its_makers_exporter_has_and_nothing_else(key: str) -> None:
    told = read(build(hosts=1, models=[key]))
    missing = {column for column, values in told.items() if np.isnan(values).all()}
    assert missing == set(told) - columns_of(models()[key].maker)
    assert "health" not in columns_of(models()[key].maker) or (told["health"] == 1).all()


def test_levels_are_those_of_the_model() -> None:
    usual, half = read(build(hosts=2)), read(build(hosts=2, models=["a100"]))
    assert half["power_watts"] == pytest.approx(0.57 * usual["power_watts"])
    assert set(half["bus_generation"]) == {4.0}
    assert half["power_limit_watts"] == pytest.approx(np.full(16, 400.0), abs=0.1)
    assert read(build(hosts=2, models=["a100"]), "port")["speed_gigabits_per_second"].max() == 200


def test_a_mixed_cluster_reads_each_card_by_its_own_model() -> None:
    cluster = build(hosts=4, models={"h100": 2, "ascend_910b": 2})
    mixed, usual = read(cluster), read(build(hosts=4))
    assert np.array_equal(mixed["power_watts"][:16], usual["power_watts"][:16])
    assert mixed["power_watts"][16:] == pytest.approx(0.5 * usual["power_watts"][16:])
    assert np.isnan(mixed["compute_active_ratio"]).tolist() == [False] * 16 + [True] * 16
    assert np.isnan(mixed["health"]).tolist() == [True] * 16 + [False] * 16


def test_h100s_read_what_they_read_without_a_model() -> None:
    named, usual = read(build(hosts=2, models=["h100"])), read(build(hosts=2))
    assert all(np.array_equal(named[column], usual[column]) for column in usual)


def test_an_effect_gives_no_series_to_a_card_whose_exporter_has_none() -> None:
    cluster = build(hosts=1, models=["kunlun_p800"])
    now = working(cluster)
    now.overlay.put("accelerator", "last_error_code", 3, 79.0)
    now.overlay.put("accelerator", "temperature_celsius", 3, 99.0)
    told = Sensors(cluster, seed=1, boot_s=0.0).accelerators(now)
    assert np.isnan(told["last_error_code"]).all()
    assert told["temperature_celsius"][3] == 99.0
