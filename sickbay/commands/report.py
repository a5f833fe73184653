"""`sickbay report ID`: one incident's post-mortem from the log."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from sickbay.commands.output import UNDELIVERED, complain, deliver, unwritable, usage, write_json
from sickbay.commands.people import shared_log
from sickbay.commands.settings import ConfigFile, settings_of
from sickbay.config import ConfigError
from sickbay.settings import Security

if TYPE_CHECKING:
    from sickbay.admission import Admission

NEEDS = ("jinja2", "altair", "vl_convert")


def report(
    incident: Annotated[str, Parameter(help="The incident's id, or its first characters.")],
    /,
    *,
    config: ConfigFile = None,
    html: Annotated[Path | None, Parameter(help="Write an HTML page to this file.")] = None,
    json: Annotated[bool, Parameter(help="JSON on standard output.", negative="")] = False,
    lang: Annotated[Literal["en", "zh"] | None, Parameter(help="Language (default: that of the settings).")] = None,
) -> int:
    """Tell the story of one incident: what was wrong, what happened when, what was done, what it took.

    Exit status: 0 told, 2 bad usage or no such incident, 4 the log could not be read or the page not be written.
    """
    settings = settings_of(config)
    if problem := unwritable("--html", html, NEEDS) if html else "":
        return usage("report", problem)
    from sickbay.app.asking.report import as_json, print_story, write_page
    from sickbay.app.asking.story import NoSuchIncident, story

    language = lang or settings.report.lang
    log = shared_log(settings.log)
    try:
        told = story(log.reader(), incident, _admitted(settings.security))
    except NoSuchIncident as error:
        return usage("report", str(error))
    finally:
        log.close()
    if json:
        write_json(as_json(told, language))
    else:
        deliver(lambda: print_story(told, language))
    if html:
        try:
            write_page(html, told, language)
        except OSError as error:
            complain(f"sickbay report: --html {html}: {error.strerror or error}")
            return UNDELIVERED
        complain(f"report: {html}")
    return 0


def _admitted(security: Security) -> "Admission":
    """As the stages do; who may not read the cluster's key reads without looking at signatures."""
    from sickbay.admission import Admission, admission

    try:
        return admission(security)
    except ConfigError:
        return Admission()
