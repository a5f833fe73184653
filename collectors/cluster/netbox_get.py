"""NetBox's objects, page by page, each whole or not at all. GET only, and from the configured address only."""

import time
from typing import Any
from urllib.parse import urlsplit

import msgspec

from collectors.cluster.poll import PollFailed
from collectors.http_get import Address, HttpError, address_of, get

# What `formats.netbox` reads of it. `connected`: interfaces and power ports at whose other end something hangs.
QUESTIONS = (
    "devices/?limit=1000",
    "racks/?limit=1000",
    "interfaces/?connected=true&limit=1000",
    "power-ports/?connected=true&limit=1000",
    "power-feeds/?limit=1000",
)
MAX_PAGE = 64 << 20  # bytes: 1,000 devices are some 3 MB
MAX_OBJECTS = 2_000_000
PATIENCE = 20  # times the limit of one answer that all pages may take


def authorization(token: str) -> str:
    """The header's value: tokens of NetBox 4.5 begin with nbt_ (Bearer), older ones are 40 digits (Token)."""
    if " " in token:  # written out
        return token
    return f"Bearer {token}" if token.startswith("nbt_") else f"Token {token}"


def objects(url: str, token: str, ca_file: str, timeout_s: float) -> list[dict[str, Any]]:
    """All objects of all questions. Raises PollFailed that says what to do."""
    headers = {"Accept": "application/json"} | ({"Authorization": authorization(token)} if token else {})
    base = address_of(url)
    deadline = time.monotonic() + PATIENCE * timeout_s
    found: list[dict[str, Any]] = []
    for question in QUESTIONS:
        path = f"{base.path.rstrip('/')}/api/dcim/{question}"
        try:
            found += _pages(base._replace(path=path), headers, ca_file, timeout_s, deadline)
        except (HttpError, ValueError) as error:
            hint = "; may the token see it? ([inventory] token_file)" if "answered 40" in str(error) else ""
            raise PollFailed(f"[inventory] netbox_url: {question.partition('/')[0]}: {error}{hint}") from None
    return found


def _pages(
    place: Address, headers: dict[str, str], ca_file: str, timeout_s: float, deadline: float
) -> list[dict[str, Any]]:
    """The objects of one question. What `next` names is asked of the same server, whatever host stands in it."""
    found: list[dict[str, Any]] = []
    asked: set[str] = set()
    prefix = place.path.partition("?")[0]
    while True:
        asked.add(place.path)
        if time.monotonic() > deadline or len(found) > MAX_OBJECTS:
            raise HttpError(f"too long an answer: {len(found)} objects so far")
        page = _page(get(place, timeout_s, MAX_PAGE, headers=headers, ca_file=ca_file))
        found += [one for one in page["results"] if isinstance(one, dict)]
        if not page.get("next"):
            break
        pieces = urlsplit(str(page["next"]))
        place = place._replace(path=f"{pieces.path}?{pieces.query}")
        if pieces.path != prefix or place.path in asked:
            raise HttpError(f"a next page that leads elsewhere: {str(page['next'])[:100]}")
    if isinstance(count := page.get("count"), int) and count != len(found):
        raise HttpError(
            f"{len(found)} objects where {count} were promised: it was changed meanwhile, asked again later"
        )
    return found


def _page(body: bytes) -> dict[str, Any]:
    try:
        page = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        raise HttpError("the answer is no JSON: does the address lead to NetBox?") from None
    if not isinstance(page, dict) or not isinstance(page.get("results"), list):
        raise HttpError("the answer has no `results`: its schema is not the one that is read")
    return page
