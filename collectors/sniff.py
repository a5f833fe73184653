"""Picks the format of an input by its content: every format says how sure it is, the surest wins."""

from collections.abc import Callable, Iterator
from importlib import import_module
from typing import NamedTuple

from collectors.formats import DOCUMENTS, LOG
from collectors.formats.reading import Reading

LEAST = 0.3  # below this nothing recognises the input: it is listed as not understood

Read = Callable[..., Iterator[Reading]]  # (chunks, tally, name)


class Sniffed(NamedTuple):
    """The format of an input: `kind` "unknown" and no reader where none is sure enough."""

    kind: str
    confidence: float
    read: Read | None


def formats() -> dict[str, str]:
    """All formats by kind, the log reader last: at equal confidence a document wins."""
    return {**DOCUMENTS, "log": LOG}


def sniff(head: bytes, name: str) -> Sniffed:
    """The surest format for an input called `name` that starts with `head`."""
    best = Sniffed("unknown", 0.0, None)
    for kind, module_name in formats().items():
        module = import_module(module_name)
        confidence = module.confidence(head, name)
        if confidence > best.confidence:
            best = Sniffed(kind, confidence, module.read)
    return best if best.confidence >= LEAST else Sniffed("unknown", best.confidence, None)
