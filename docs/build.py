"""Writes docs/reference.md from the code: commands, settings, formats, kinds, faults, topics, ...

`python docs/build.py` writes it; tests/test_docs.py fails where the file and the code differ.
"""

import inspect
import re
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, get_args, get_type_hints

TARGET = Path(__file__).with_name("reference.md")


def table(head: tuple[str, ...], rows: Iterable[tuple[object, ...]]) -> Iterator[str]:
    """A Markdown table."""
    yield "| " + " | ".join(head) + " |"
    yield "|" + " --- |" * len(head)
    for row in rows:
        yield "| " + " | ".join(str(cell).replace("|", "\\|").replace("\n", " ") for cell in row) + " |"
    yield ""


def first_sentence(module: Any) -> str:
    """The first line of a docstring."""
    return (inspect.getdoc(module) or "").split("\n", 1)[0]


def commands() -> Iterator[str]:
    """Every command with its options."""
    from sickbay.cli import COMMANDS

    yield "## Commands\n"
    for name, (where, text) in sorted(COMMANDS.items()):
        module, _, attribute = where.partition(":")
        function = getattr(import_module(module), attribute)
        yield f"### `sickbay {name}`\n\n{text}\n"
        yield from table(("parameter", "default", "meaning"), parameters(function))


def parameters(function: Any) -> Iterator[tuple[object, ...]]:
    """One row per parameter: its option, its default, its help."""
    hints = get_type_hints(function, include_extras=True)
    for name, parameter in inspect.signature(function).parameters.items():
        extra = next((one for one in get_args(hints[name])[1:] if hasattr(one, "help")), None)
        told = (extra.name or ()) if extra else ()
        option = told[0] if told else f"--{name.replace('_', '-')}"
        shown = (
            f"`{name.upper()}…`"
            if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.VAR_POSITIONAL)
            else f"`{option}`"
        )
        default = "" if parameter.default in (None, False, parameter.empty, "") else f"`{parameter.default}`"
        yield shown, default, extra.help if extra else ""


STATUSES = (
    ("2", "bad usage, or no readable input"),
    ("4", "an error of Sickbay itself, or the answer could not be written"),
    ("1", "incidents"),
    ("3", "some or all input was not understood"),
    ("0", "nothing wrong"),
)


def answer() -> Iterator[str]:
    """The JSON contract and the exit statuses."""
    from sickbay import answer as contract
    from sickbay.messages import PlanStep, Suspect

    yield "## Answer of `diagnose --json`\n"
    yield "Every key is always there; times are RFC 3339 UTC with milliseconds or null.\n"
    rows = (contract.Answer, contract.InputRow, contract.ComponentRow, contract.TopologyRow, contract.EventRow)
    for struct in (*rows, contract.IncidentRow, contract.EvidenceRow, contract.AffectedRow, Suspect, PlanStep):
        yield f"### {struct.__name__}\n\n{first_sentence(struct)}\n"
        hints = struct.__annotations__
        yield from table(("key", "type"), ((f"`{key}`", f"`{_type(hints[key])}`") for key in struct.__struct_fields__))
    yield "Exit status, the first that applies:\n"
    yield from table(("status", "meaning"), STATUSES)


def _type(hint: object) -> str:
    plain = str(hint) if get_args(hint) else getattr(hint, "__name__", str(hint))
    return re.sub(r"\b[a-z]+\.(?:\w+\.)*", "", plain)


def formats() -> Iterator[str]:
    """Documents and line grammars."""
    from collectors.formats.bodies import CATALOGUE
    from collectors.inputs.sniff import formats as documents

    yield "## Formats\n\nDocuments, recognised by content:\n"
    yield from table(("kind", "what it is"), ((k, first_sentence(import_module(m))) for k, m in documents().items()))
    yield "Grammars of log lines, in any envelope:\n"
    yield from table(("grammar", "whose lines"), ((k, first_sentence(import_module(m))) for k, m in CATALOGUE.items()))


def vocabulary() -> Iterator[str]:
    """Fault classes and event kinds."""
    from sickbay.vocabulary import event_kinds, faults

    yield "## Fault classes\n"
    rows = ((f.name, f.component, f.role, f.action, f.test, f.en) for f in faults().values())
    yield from table(("fault", "component", "role", "usual action", "test that settles it", "sentence"), rows)
    yield "## Event kinds\n"
    kinds = ((k.name, k.component, k.severity, k.blame, k.fault or "none by itself") for k in event_kinds().values())
    yield from table(("kind", "component", "severity", "blame", "evidence for"), kinds)


def telemetry() -> Iterator[str]:
    """Tables and columns."""
    from sickbay.schema import WINDOWED

    yield "## Telemetry\n\nMissing is NaN in a gauge and -1 in a counter, never 0.\n"
    for name, found in WINDOWED.items():
        yield f"### `{name}`\n"
        rows = ((c.name, c.type, c.unit, c.meaning, "yes" if c.peer else "") for c in found.columns)
        yield from table(("column", "type", "unit", "meaning", "compared between peers"), rows)


def vendors() -> Iterator[str]:
    """Where each column of the accelerators comes from, vendor by vendor."""
    from collectors.formats.vendors import columns, makers

    yield "## Accelerator columns by vendor\n"
    yield "Series of the vendors' exporters. Width and generation of the host link come from the bus itself where no"
    yield "exporter tells them (collector `host_pcie`); faults come from kernel and device logs as well.\n"
    told = dict(columns())
    for name, vendor in makers().items():
        known = f"Known by bus id {', '.join(vendor.pci)}. " if vendor.pci else ""
        read = "; ".join(f"`{key}`: {one.source}" for key, one in vendor.exporters.items())
        yield f"### {vendor.name}\n\n{known}Read: {read}.\n"
        for what, why in vendor.unread.items():
            yield f"Not read: {what}: {why}.\n"
        yield from table(("column", "series, or why there is none"), ((k, by[name]) for k, by in told.items()))


def topics() -> Iterator[str]:
    """The topics of the log."""
    from sickbay.topics import TOPICS

    fields = [name for name in TOPICS[next(iter(TOPICS))].__dataclass_fields__ if name != "name"]
    yield "## Topics\n"
    yield from table(
        ("topic", *fields), ((name, *(getattr(topic, field) for field in fields)) for name, topic in TOPICS.items())
    )


def detectors() -> Iterator[str]:
    """Detectors and the sentences' languages."""
    from diagnosis.detectors import CATALOGUE

    yield "## Detectors\n"
    yield from table(("detector", "finds"), ((k, first_sentence(import_module(m))) for k, m in CATALOGUE.items()))


def settings() -> Iterator[str]:
    """Every setting."""
    from sickbay.config import settings as rows

    yield "## Settings\n\nOne TOML file, `sickbay.toml`; each setting has a default, an unknown one is refused.\n"
    section = ""
    for row in rows():
        if row.section != section:
            section = row.section
            yield f"### `[{section}]`\n"
            same = ((f"`{one.key}`", f"`{one.default!r}`", one.right) for one in rows() if one.section == row.section)
            yield from table(("setting", "default", "must be"), same)


def live() -> Iterator[str]:
    """What the agent collects, what is polled, what stages there are."""
    from collectors.agent.catalogue import CATALOGUE as collectors
    from collectors.cluster.poll import CATALOGUE as pollers
    from sickbay.app.running.stages import STAGES

    def where(place: str) -> str:
        return first_sentence(import_module(place.partition(":")[0]))

    yield "## Collectors of the agent\n"
    yield from table(("collector", "what it reads"), ((name, where(place)) for name, place in collectors.items()))
    yield "## Sources that are polled\n"
    yield from table(("source", "what it reads"), ((name, where(place)) for name, place in pollers.items()))
    yield "## Stages of `sickbay process`\n"
    made = {name: getattr(make, "where", "") or make for name, make in STAGES.items()}
    rows = ((k, where(m) if isinstance(m, str) else first_sentence(m)) for k, m in made.items())
    yield from table(("stage", "what it does"), rows)


def remediation() -> Iterator[str]:
    """Verbs of plans, states of the ledger, stages of the policy."""
    from remediation.policy import STAGES
    from remediation.verbs import verbs
    from sickbay.actions import ActionState

    yield "## Verbs of a plan\n"
    rows = ((v.name, v.phase, ", ".join(v.target), v.undo, v.read_back, v.least_p, v.en) for v in verbs().values())
    yield from table(("verb", "phase", "for", "undo", "read back", "least P", "meaning"), rows)
    yield "## Stages of the policy, in order\n"
    yield from table(
        ("stage", "what it does"), ((s.__module__.rpartition(".")[2], first_sentence(s)) for s in STAGES)
    )  # fmt: skip
    yield "## States of an action in the ledger\n"
    yield ", ".join(f"`{state}`" for state in ActionState) + "; see `sickbay/actions.py`.\n"


def own_metrics() -> Iterator[str]:
    """The metrics that Sickbay gives of itself."""
    from sickbay.selfmetrics import METRICS

    yield "## Own metrics\n"
    yield from table(
        ("metric", "type", "labels", "meaning"), ((m.name, m.type, ", ".join(m.labels), m.help) for m in METRICS)
    )


def build() -> str:
    """The whole reference."""
    parts = (
        commands, settings, answer, live, formats, vocabulary, telemetry, vendors, topics, detectors, remediation,
        own_metrics,
    )  # fmt: skip
    lines = ["# Reference\n", "Generated by `make docs`; do not edit.\n", *(line for part in parts for line in part())]
    return "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    TARGET.write_text(build(), encoding="utf-8")
    print(TARGET)
