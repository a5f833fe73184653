"""The stage that listens: what others send over HTTPS goes into the log. A relay is the same, and packs frames.

There is no way without TLS and tokens: what enters is bound to the hosts that its token may tell of.
"""

import socket

from sickbay.app.listening.intake import Intake
from sickbay.app.listening.listen_server import Door, Server
from sickbay.app.listening.listen_sockets import Certificate
from sickbay.app.listening.sink import Direct, Packing
from sickbay.app.listening.tokens import Tokens
from sickbay.app.running.service import Context, Make, Stage
from sickbay.config import ConfigError
from sickbay.settings import Config
from sickbay.source_settings import Listen


def stage(*, packs: bool = False) -> Make:
    """Makes the stage. `packs`: frames of many hosts become one record."""

    def made(context: Context) -> Stage:
        return Listener(context, packs=packs)

    return made


class Listener:
    """A listener at work."""

    def __init__(self, context: Context, *, packs: bool = False) -> None:
        settings = context.config.listen
        checked(context.config)
        self._sink: Direct | Packing = Direct(context.log.appender(), context.metrics)
        try:
            tokens = Tokens(settings, context.say)
            if packs:
                self._sink = Packing(self._sink, settings.pod or socket.gethostname())
            self._server = Server(
                settings, Door(settings, tokens, Intake(context, self._sink), context.clock), context.say
            )
        except BaseException:
            self._sink.close()
            raise
        self.address, self._now_ms = self._server.address, context.clock()
        context.say(f"listens at https://{self.address}")

    @property
    def waiting(self) -> str:
        """Why what comes is not stored, or nothing can come; empty where all is well."""
        return self._sink.trouble or self._server.certificate.trouble(self._now_ms)

    def step(self, now_ms: int) -> bool:
        """Looks whether the server is there, and its certificate the newest. Raises RuntimeError where it has ended."""
        if not self._server.alive:
            raise RuntimeError(f"the server has ended: {self._server.failed or 'nobody knows why'}")
        self._now_ms = now_ms
        self._server.certificate.look(now_ms)
        return False

    def close(self) -> None:
        """Answer what has come; then let go of the log."""
        self._server.close()
        self._sink.close()


def checked(config: Config) -> Listen:
    """The settings, if something can listen with them and the files that they name. Raises ConfigError that says what
    is missing or wrong."""
    settings = config.listen
    for key in ("address", "certificate_file", "private_key_file", "tokens_file"):
        if not getattr(settings, key):
            raise ConfigError(f"[listen] {key} is empty: a listener needs an address, TLS and tokens")
    if config.security.require_signed and not config.security.key_file:
        raise ConfigError("[security] require_signed without key_file: nothing that comes in here could be signed")
    Certificate(settings, lambda text: None)
    Tokens(settings, lambda text: None)
    return settings
