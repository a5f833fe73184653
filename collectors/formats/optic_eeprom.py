"""A module's own memory: SFF-8636 (QSFP+, QSFP28, QSFP56) and CMIS (QSFP-DD, OSFP) pages, as bytes.

Pages lie one behind the other as ethtool dumps them: lower page, page 00h, 01h, 02h, 03h ... (SFF-8636), and for CMIS
lower page, 00h, 01h, 02h, 10h, 11h where the driver gives that many. Bytes beyond a dump are not told.
Sources: SFF-8636 rev 2.10, tables 6-7 to 6-9; OIF CMIS 5.2, tables 8-9, 8-45 and 8-88 to 8-90.
"""

import math

from collectors.formats.optic_readings import Reading

PAGE = 128
SFF_8636 = frozenset({0x0C, 0x0D, 0x11})  # SFF-8024 identifiers
CMIS = frozenset({0x18, 0x19, 0x1E})
MOST_BYTES = 64 << 10
_FLAT = 0x80  # CMIS byte 2: no pages; SFF-8636 has the like in bit 2 of byte 2
_FLAT_8636 = 0x04
_BIAS_FACTOR = {0: 1, 1: 2, 2: 4}  # CMIS page 01h byte 160, bits 4-3


def decode(raw: bytes) -> Reading | None:
    """What the memory tells, None where it is of another kind, or holds nothing yet."""
    if len(raw) < PAGE or len(raw) > MOST_BYTES or not any(raw[1:]):
        return None
    if raw[0] in SFF_8636:
        return _sff_8636(raw)
    return _cmis(raw) if raw[0] in CMIS else None


def _sff_8636(raw: bytes) -> Reading:
    return Reading(
        temperature=_temperature(raw, 22),
        supply=_supply(raw, 26),
        receive=_lanes(raw, 34, 4),
        bias={lane: value * 0.002 for lane, value in _words(raw, 42, 4).items()},
        send=_lanes(raw, 50, 4),
        vendor=_text(raw, 148, 16),
        model=_text(raw, 168, 16),
        serial=_text(raw, 196, 16),
        limits={} if raw[2] & _FLAT_8636 else _limits(raw, 4 * PAGE, receive=48, send=64),
    )


def _cmis(raw: bytes) -> Reading:
    pages = {0x11: 5, 0x02: 3, 0x01: 2} if len(raw) >= 6 * PAGE else {0x02: 3, 0x01: 2} if len(raw) >= 4 * PAGE else {}
    if raw[2] & _FLAT:
        pages = {}
    lanes, advertised = pages.get(0x11, 0) * PAGE, pages.get(0x01, 0) * PAGE
    factor = _BIAS_FACTOR.get(raw[advertised + 32] >> 3 & 3, 1) if advertised else 1
    return Reading(
        temperature=_temperature(raw, 14),
        supply=_supply(raw, 16),
        send=_lanes(raw, lanes + 26, 8) if lanes else {},
        bias={lane: value * 0.002 * factor for lane, value in _words(raw, lanes + 42, 8).items()} if lanes else {},
        receive=_lanes(raw, lanes + 58, 8) if lanes else {},
        vendor=_text(raw, 129, 16),
        model=_text(raw, 148, 16),
        serial=_text(raw, 166, 16),
        limits=_limits(raw, pages[0x02] * PAGE, receive=64, send=48) if 0x02 in pages else {},
    )


def _limits(raw: bytes, page: int, *, receive: int, send: int) -> dict[str, float]:
    """The module's own alarms and warnings; a page that is not there, or all zero, tells none. Places count from the
    page's first byte, where those of the temperature stand; four words each: high and low alarm, high and low
    warning."""
    if len(raw) < page + PAGE or not any(raw[page : page + 8]):
        return {}
    found: dict[str, float | None] = {}
    for at, grade in ((0, "high_alarm"), (2, "low_alarm"), (4, "high_warning"), (6, "low_warning")):
        found[f"temperature_{grade}"] = _temperature(raw, page + at)
        found[f"receive_{grade}"] = _dbm(_word(raw, page + receive + at))
        found[f"send_{grade}"] = _dbm(_word(raw, page + send + at))
    return {name: value for name, value in found.items() if value is not None and math.isfinite(value)}


def _word(raw: bytes, at: int) -> int | None:
    return int.from_bytes(raw[at : at + 2]) if at + 2 <= len(raw) else None


def _words(raw: bytes, at: int, count: int) -> dict[int, int]:
    words = {lane + 1: _word(raw, at + 2 * lane) for lane in range(count)}
    return {lane: word for lane, word in words.items() if word is not None}


def _lanes(raw: bytes, at: int, count: int) -> dict[int, float]:
    """Powers in dBm, minus infinity for no light."""
    powers = {lane: _dbm(word) for lane, word in _words(raw, at, count).items()}
    return {lane: power for lane, power in powers.items() if power is not None}


def _dbm(tenths_of_microwatts: int | None) -> float | None:
    if tenths_of_microwatts is None:
        return None
    return 10 * math.log10(tenths_of_microwatts / 10_000) if tenths_of_microwatts else -math.inf


def _temperature(raw: bytes, at: int) -> float | None:
    """1/256 degree each."""
    return int.from_bytes(raw[at : at + 2], signed=True) / 256 if at + 2 <= len(raw) else None


def _supply(raw: bytes, at: int) -> float | None:
    """100 microvolts each."""
    word = _word(raw, at)
    return None if word is None else word / 10_000


def _text(raw: bytes, at: int, size: int) -> str:
    text = raw[at : at + size].decode("ascii", "replace").strip(" \x00")
    return "".join(mark if mark.isprintable() else "?" for mark in text)
