"""A fabric manager's REST asked for its resources: the only impure seam of `fabric_manager`. It only gets."""

import base64
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from collectors.cluster.poll import PollFailed
from collectors.http_get import Address, HttpError, address_of, get
from sickbay.addresses import guarded
from sickbay.source_settings import Fabric

MAX_BODY = 128 << 20  # bytes: 60,000 ports of some 1.5 kB each

Get = Callable[[str], bytes]  # what a resource answers; raises PollFailed


@dataclass(frozen=True, slots=True)
class Rest:
    """The only impure seam. `base` and the header follow from what the token file holds."""

    settings: Fabric

    def __call__(self, resource: str) -> bytes:
        """The body. Raises PollFailed."""
        base, header = self.access()
        settings = self.settings
        address = address_of(settings.manager_url.rstrip("/"))
        asked = Address(address.secure, address.host, address.port, f"{address.path.rstrip('/')}{base}/{resource}")
        headers = {"Accept": "application/json"} | ({"Authorization": header} if header else {})
        try:
            return get(asked, settings.timeout_s, MAX_BODY, headers=headers, ca_file=settings.ca_file)
        except (HttpError, ValueError) as error:
            raise PollFailed(f"{settings.manager_url}: {resource}: {error}{_hint(str(error))}") from None

    def access(self) -> tuple[str, str]:
        """(base path, Authorization): a token is for V3, user and password for the first. Raises PollFailed.

        The file is read each time: tokens are changed.
        """
        file = self.settings.manager_token_file
        if not file:
            return "/ufmRest", ""
        try:
            secret = guarded(self.settings.manager_url, Path(file).read_text("utf-8").strip())
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or error
            raise PollFailed(f"[fabric] manager_token_file {file}: {why}") from None
        if ":" in secret:
            return "/ufmRest", "Basic " + base64.b64encode(secret.encode()).decode()
        return "/ufmRestV3", f"Basic {secret}"


def telemetry(settings: Fabric) -> bytes:
    """What the telemetry endpoint tells; it asks for no secret. Raises PollFailed."""
    try:
        return get(address_of(settings.telemetry_url), settings.timeout_s, MAX_BODY, ca_file=settings.ca_file)
    except (HttpError, ValueError) as error:
        raise PollFailed(f"{settings.telemetry_url}: {error}{_hint(str(error))}") from None


def _hint(why: str) -> str:
    if "401" in why or "403" in why:
        return " (does [fabric] manager_token_file hold a token, or user:password, that may read?)"
    return " (does [fabric] ca_file hold the certificate to trust?)" if "certificate" in why.lower() else ""
