"""Entries whose packages are not installed say what to install."""

import sys

import pytest

from collectors.cluster.poll import sources
from sickbay.config import ConfigError
from sickbay.settings import Config


def test_a_missing_package_is_told_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in [name for name in sys.modules if name.startswith("collectors.cluster.switch_snmp")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.delitem(sys.modules, "collectors.cluster.snmp_walk", raising=False)
    monkeypatch.setitem(sys.modules, "pysnmp", None)
    monkeypatch.setitem(sys.modules, "pysnmp.hlapi.v1arch.asyncio", None)
    with pytest.raises(ConfigError, match=r"snmp needs pysnmp.*: pip install 'sickbay\[switches\]'"):
        sources(["snmp"], Config())
