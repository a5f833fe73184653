"""Sentences: what happened, how sure, why; what speaks against it. Data in sentences.toml, in English and Chinese.

Facts are other people's text: they fill placeholders and are never read as templates. Surfaces escape them.
"""

import tomllib
from functools import cache
from importlib import resources
from string import Formatter

from sickbay.components import Name, called
from sickbay.messages import Evidence, Incident, Verdict, replace
from sickbay.vocabulary import faults

LANGUAGES = ("en", "zh")
MAX_FACT = 200  # characters of one fact in a sentence


@cache
def sentences() -> dict[str, dict[str, str]]:
    """All templates: key, language, text."""
    return tomllib.loads(resources.files("diagnosis").joinpath("sentences.toml").read_text(encoding="utf-8"))


def say(key: str, facts: dict[str, str], lang: str = "en") -> str:
    """A template filled with facts; a fact that is missing shows as `?`."""
    template = sentences().get(key, {}).get(lang)
    if template is None:
        return key
    words = []
    for text, field, _, _ in Formatter().parse(template):
        words.append(text)
        if field is not None:
            words.append(called(facts.get(field, "?"))[:MAX_FACT])
    return "".join(words)


def says(evidence: Evidence, lang: str = "en", subject: Name = "") -> str:
    """One line for a claim; `subject` is the component that the reader already has in mind: it becomes "it"."""
    own = {
        "component": evidence.component,
        "count": str(evidence.count),
        "repeated": say("repeated", {"count": str(evidence.count)}, lang) if evidence.count > 1 else "",
    }
    facts = own | evidence.facts
    if subject:
        pronoun = say("it", {}, lang)
        facts = {key: pronoun if value == subject else value for key, value in facts.items()}
    line = say(evidence.says, facts, lang)
    if subject and lang == "zh":
        line = line.replace(f"{say('it', {}, lang)} ", say("it", {}, lang))
    notes = [say(f"note_{word}", evidence.facts, lang) for word in NOTES if evidence.facts.get(word)]
    return " ".join([line, *notes]) if lang == "en" else "".join([line, *notes])


NOTES = (
    "victim_of", "caused_by", "cleared_by_boot", "cleared_by_recovery", "last_value", "window", "watchdog_spoke",
    "watchdog_silent",
)  # fmt: skip


def what(fault: str, component: Name, lang: str = "en") -> str:
    """The fault's own sentence about a component."""
    row = faults()[fault]
    return (row.zh if lang == "zh" else row.en).replace("{component}", called(component))


def summary(incident: Incident, lang: str = "en") -> str:
    """What happened, how sure it is, why, and what would settle it, in one line."""
    reasons = [one for one in incident.evidence if one.component == incident.component] or list(incident.evidence)
    best = max(
        reasons,
        key=lambda one: (one.fault == incident.fault, one.llr, -(one.onset_from_ms or 0), one.id),
        default=None,
    )
    facts = {
        "what": what(incident.fault, incident.component, lang),
        "percent": str(round(incident.probability * 100)),
        "why": _as_clause(says(best, lang, incident.component)) if best else "?",
        "test": say(f"test_{incident.test}", {}, lang) if incident.test else "",
        "count": str(len(incident.dependants)),
    }
    parts = [say(f"summary_{incident.verdict}", facts, lang)]
    if incident.verdict is Verdict.UNKNOWN and incident.test:
        parts.append(say("summary_test", facts, lang))
    if incident.dependants and incident.verdict in (Verdict.SHARED, Verdict.COMPONENT):
        parts.append(say("summary_innocent", facts, lang))
    return (" " if lang == "en" else "").join(parts)


def _as_clause(line: str) -> str:
    return line.rstrip(" .。")


def explained(incident: Incident, lang: str = "en") -> Incident:
    """The incident with its summary in one language."""
    told: Incident = replace(incident, summary=summary(incident, lang)[:4000])
    return told
