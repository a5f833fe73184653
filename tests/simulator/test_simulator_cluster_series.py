"""Series of each maker's exporter: the collectors read them back as what was written."""

import json

import numpy as np
import pytest

from collectors.formats import prometheus_range
from collectors.formats.reading import Tally
from sickbay.components import kind_of
from sickbay.schema import Samples
from simulator.output.prometheus import Recorder
from simulator.output.vendor_series import series
from simulator.parts.models import models
from simulator.scenario import scenario

OTHERS = sorted(key for key, one in models().items() if one.maker != "nvidia")


def recorded(model: str) -> tuple[dict[str, list[Samples]], dict[str, Samples]]:
    """What the collectors read of one second by metric, and what the host told in it."""
    made = scenario(seed=2, hosts=2, models=[model], timeout_s=60)
    recorder = Recorder(made.cluster, step_s=1)
    second = next(made.seconds(until_s=1))
    recorder.add(second)
    told = {}
    for metric, answer in recorder.answers():
        found = [one.record for one in prometheus_range.read([answer], Tally(), f"{metric}.json")]
        told[metric] = [one for one in found if isinstance(one, Samples) and one.table == "accelerator"]
    own = {one.table: one for one in second.samples[made.cluster.hosts[0]]}
    return told, own


@pytest.mark.parametrize("model", OTHERS)
def test_what_a_makers_exporter_tells_is_read_back(model: str) -> None:
    told, own = recorded(model)
    accelerator = own["accelerator"]
    for metric in series(models()[model].maker):
        if metric.column not in accelerator.values:
            continue
        read = [value for one in told[metric.name] for value in one.values[metric.column]]
        assert len(read) == 2 * len(accelerator.component), metric
        assert np.isclose(accelerator.values[metric.column][0], read, rtol=1e-6).any(), metric
        assert {kind_of(name) for one in told[metric.name] for name in one.component} == {"accelerator"}


def test_a_series_of_another_maker_is_not_written() -> None:
    told, _ = recorded("mi300x")
    assert not [metric for metric in told if metric.startswith("DCGM")]
    assert json.dumps(sorted(told)).count("gpu_") >= 5
