"""Addresses of HTTP services as people write them: perhaps with a user in them, perhaps on this machine."""

import base64
import urllib.request
from ipaddress import ip_address
from urllib.parse import SplitResult, unquote, urlsplit


def base_of(parts: SplitResult) -> str:
    """The address without user and password, fit to be shown, and without a slash at its end."""
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path.rstrip('/')}"


def basic(parts: SplitResult) -> str:
    """The value of an Authorization header for the user in the address, empty where there is none.

    Raises ValueError where it may not go there (`guarded`).
    """
    if not parts.username:
        return ""
    pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return guarded(base_of(parts), f"Basic {base64.b64encode(pair.encode()).decode()}")


def guarded(url: str, secret: str) -> str:
    """The password or token, if it may go to that address: encrypted, or to this machine itself. Raises ValueError."""
    parts = urlsplit(url)
    if secret and parts.scheme != "https" and not is_loopback(parts.hostname or ""):
        raise ValueError(f"a password or token goes over https only, not to {base_of(parts)}")
    return secret


def opener(parts: SplitResult, *handlers: urllib.request.BaseHandler) -> urllib.request.OpenerDirector:
    """What opens it: through the proxies of the environment, unless it is on this machine."""
    own = [urllib.request.ProxyHandler({})] if is_loopback(parts.hostname or "") else []
    return urllib.request.build_opener(*handlers, *own)


def is_loopback(host: str) -> bool:
    """Whether a host's name or address is this machine's own."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
