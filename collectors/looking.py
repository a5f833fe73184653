"""What a polled source reads of this machine only once it asks: files, programs; looked at before, for `doctor`."""

import os
import shutil
from collections.abc import Callable, Mapping

from sickbay.config import ConfigError
from sickbay.settings import Config


def looked(name: str, config: Config) -> None:
    """Whether an entry of the pollers' catalogue finds here what it will need. Raises ConfigError: what is missing."""
    look = _LOOKS.get(name)
    if look is not None:
        look(config)


def _inventory(config: Config) -> None:
    from collectors.cluster.inventory import of_file

    if problems := [why for path in config.inventory.files if (why := of_file(path).problem)]:
        raise ConfigError("; ".join(problems)[:500])


def _infiniband(config: Config) -> None:
    from collectors.cluster.fabric_tools import ALLOWED

    if not config.fabric.device:
        return
    path = config.fabric.bin or os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])
    if missing := [tool for tool in ALLOWED if shutil.which(tool, path=path) is None]:
        text = f"[fabric] device: {', '.join(missing)}: no such program"
        raise ConfigError(f"{text}: install the subnet's tools, or name their folder in bin")


def _kubernetes(config: Config) -> None:
    from collectors.cluster.kubernetes_api import Api, Trouble

    settings = config.kubernetes
    api = Api(settings.kubeconfig, settings.context, settings.timeout_s)
    try:
        api.load()
    except Trouble as error:
        raise ConfigError(str(error)) from None
    finally:
        api.close()


_LOOKS: Mapping[str, Callable[[Config], None]] = {
    "inventory": _inventory,
    "infiniband": _infiniband,
    "kubernetes": _kubernetes,
}
