"""`mlxlink -m -c --json` of one port as a row of the optic table: the error ratio and the module's readings.

Its counters are left out: the files of the port count the same, since another moment.

Rules, each of which has a test:
  no errors   a ratio such as 15E-255 is the tool's way to say that none was seen: 0
  not told    "N/A" and ranges without a value are missing
Source: the open mstflint source (titles, JSON).
"""

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from collectors.formats.optic_findings import limits, numbers
from collectors.formats.optic_readings import Reading, columns
from collectors.formats.text import clean_text

MOST_BYTES = 1 << 20
LEAST_RATIO = 1e-50  # [house] smaller ones are zero: 1e-15 needs hours at any rate there is
_RATIO = re.compile(r"\d{1,4}(?:\.\d{1,4})?[eE][-+]?\d{1,3}|0")
Row = dict[str, float]


def read(raw: bytes) -> tuple[Row, Reading | None]:
    """(columns of the optic table, the module); empty where it is no whole answer."""
    facts = _facts(raw)
    ratio = _ratio(facts.get("Raw Physical BER", ""))
    module = _module(facts)
    optic = {} if module is None else columns(module)
    return optic | ({} if ratio is None else {"errors_before_correction_ratio": ratio}), module


def refusal(raw: bytes) -> str:
    """Why the tool tells nothing, where its answer says so; "" where it does not."""
    try:
        status = msgspec.json.decode(raw[:MOST_BYTES].decode("utf-8", "replace"))["status"]
        return clean_text(str(status["message"]))[:200] if status["code"] != 0 else ""
    except (msgspec.DecodeError, RecursionError, KeyError, TypeError):
        return ""


def _facts(raw: bytes) -> dict[str, str]:
    try:
        output = msgspec.json.decode(raw[:MOST_BYTES].decode("utf-8", "replace"))["result"]["output"]
        sections = [section for section in output.values() if isinstance(section, dict)]
    except (msgspec.DecodeError, RecursionError, KeyError, TypeError, AttributeError):
        return {}
    return {str(key)[:80]: _flat(value) for section in sections for key, value in section.items()}


def _flat(value: Any) -> str:
    """Lanes between commas, in either of the JSON's two spellings."""
    if isinstance(value, dict):
        value = value.get("values", [])
    words = value if isinstance(value, list) else [value]
    return clean_text(",".join(str(word) for word in words[:64])[:300])


def _ratio(text: str) -> float | None:
    if not _RATIO.fullmatch(text.strip()):
        return None
    value = float(text)
    return (value if value >= LEAST_RATIO else 0.0) if value <= 1.0 else None


def _module(facts: Mapping[str, str]) -> Reading | None:
    """The module's readings; None where none is told or where it is copper."""
    cable = f"{facts.get('Cable Type', '')} {facts.get('Cable Technology', '')}".lower()
    if "Temperature [C]" not in facts or "copper" in cable or "passive" in cable:
        return None
    light, heat = limits(facts.get("Rx Power Current [dBm]", "")), limits(facts["Temperature [C]"])
    low = {"receive_low_alarm": light[0]} if light else {}
    high = {"temperature_high_alarm": heat[1]} if heat else {}
    millivolts = numbers(facts.get("Voltage [mV]", "")).get(1)
    return Reading(
        temperature=numbers(facts["Temperature [C]"]).get(1),
        supply=None if millivolts is None else millivolts / 1000,
        receive=numbers(facts.get("Rx Power Current [dBm]", "")),
        send=numbers(facts.get("Tx Power Current [dBm]", "")),
        bias=numbers(facts.get("Bias Current [mA]", "")),
        vendor=facts.get("Vendor Name", "")[:64],
        model=facts.get("Vendor Part Number", "")[:64],
        serial=facts.get("Vendor Serial Number", "")[:64],
        limits=low | high,
    )
