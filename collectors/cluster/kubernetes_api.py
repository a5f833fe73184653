"""The way to a Kubernetes API server: the official client reads the kubeconfig and keeps credentials fresh, answers are
read here, with a limit of size and time for each. Only GET: lists and watches.
"""

import os
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from collectors.formats.kubernetes_objects import Status, decoded
from sickbay.addresses import guarded
from sickbay.config import ConfigError
from sickbay.settings import Config

MAX_ANSWER = 64 << 20  # bytes of a page: nodes are some 30 kB each
MAX_LINE = 8 << 20  # bytes of a line of a watch: etcd takes objects of 1.5 MB
_IN_POD = "/var/run/secrets/kubernetes.io/serviceaccount/token"
_RIGHTS = "see deploy/kubernetes-role.yaml for the rights that are needed"
Opened = Callable[[Any], None]


class Trouble(Exception):
    """No usable answer; the text says what to do. `status`: as HTTP has it, 0 where nobody answered."""

    def __init__(self, text: str, status: int = 0) -> None:
        super().__init__(text)
        self.status = status


def checked(config: Config) -> None:
    """Raises ConfigError where the settings do not tell how to reach a cluster."""
    settings = config.kubernetes
    if settings.kubeconfig and not os.path.isfile(settings.kubeconfig):
        raise ConfigError(f"[kubernetes] kubeconfig: no file {settings.kubeconfig}")
    if not settings.kubeconfig and not os.path.isfile(_IN_POD):
        raise ConfigError("[kubernetes] kubeconfig: name the file that says how to reach the cluster (this is no pod)")


class Api:
    """One server. The first question loads the client: some 0.5 s and 50 MB, which only who watches it pays."""

    def __init__(self, kubeconfig: str, context: str, timeout_s: float) -> None:
        self._settings, self.timeout_s = (kubeconfig, context), timeout_s
        self._client: Any = None
        self._lock = threading.Lock()

    def get(self, path: str, query: Mapping[str, str]) -> bytes:
        """A whole answer. Raises Trouble."""
        answer = self._opened(path, query, self.timeout_s)
        try:
            pieces, size = [], 0
            for piece in answer.stream(1 << 18, decode_content=True):
                size += len(piece)
                if size > MAX_ANSWER:
                    raise Trouble(f"{path}: an answer of more than {MAX_ANSWER >> 20} MiB")
                pieces.append(piece)
            return b"".join(pieces)
        except Exception as error:
            raise self._trouble(path, error) from None
        finally:
            answer.close()

    def lines(self, path: str, query: Mapping[str, str], silent_s: float, opened: Opened) -> Iterator[bytes]:
        """The lines of a watch until the server ends it; `silent_s` without a byte ends it, too. Raises Trouble.

        `opened` is told the open answer, so that another thread can end it, and None at its end.
        """
        answer = self._opened(path, query, silent_s)
        opened(answer)
        held = b""
        try:
            for piece in answer.stream(1 << 16, decode_content=True):
                *whole, held = (held + piece).split(b"\n")
                if len(held) > MAX_LINE:
                    raise Trouble(f"{path}: a line of more than {MAX_LINE >> 20} MiB")
                yield from (line for line in whole if line.strip())
        except Exception as error:
            raise self._trouble(path, error) from None
        finally:
            opened(None)
            answer.close()

    def load(self) -> None:
        """Read how to reach it; asks nothing. Raises Trouble."""
        self._loaded()

    def close(self) -> None:
        """Let all connections go."""
        with self._lock:
            if self._client is not None:
                self._client.rest_client.close()

    def _opened(self, path: str, query: Mapping[str, str], read_s: float) -> Any:
        client = self._loaded()
        headers = {"Accept": "application/json"}
        try:
            client.update_params_for_auth(headers, [], ["BearerToken"], path, "GET", None)
            import urllib3

            answer = client.rest_client.pool_manager.request(
                "GET", client.configuration.host.rstrip("/") + path, fields=dict(query), headers=headers,
                preload_content=False, redirect=False, retries=False,
                timeout=urllib3.Timeout(connect=self.timeout_s, read=read_s),
            )  # fmt: skip
        except Exception as error:
            raise self._trouble(path, error) from None
        if answer.status == 200:
            return answer
        try:
            said = answer.read(1 << 16)
        except Exception:
            said = b""
        answer.close()
        if answer.status == 401:
            self._forget(client)
        raise refusal(path, answer.status, said)

    def _forget(self, client: Any) -> None:
        """The next question reads the kubeconfig anew, and the file of a token that it names: one was renewed there."""
        with self._lock:
            if self._client is client:
                self._client = None

    def _loaded(self) -> Any:
        with self._lock:
            if self._client is None:
                self._client = _client(*self._settings)
            return self._client

    def _trouble(self, path: str, error: Exception) -> Trouble:
        if isinstance(error, Trouble):
            return error
        said = " ".join(str(error).split())[:200]
        return Trouble(f"no answer from the Kubernetes API server ([kubernetes] kubeconfig): {path}: {said}")


def refusal(path: str, status: int, said: bytes) -> Trouble:
    """What a refusal means, and what to do."""
    try:
        told = decoded(said, Status).message
    except ValueError:
        told = ""
    told = " ".join(told.split())[:250] or path
    if status == 401:
        return Trouble("the Kubernetes API server does not know us (401): give [kubernetes] kubeconfig a valid token "
                       "or certificate", 401)  # fmt: skip
    if status == 403:
        return Trouble(f"a right is missing (403): {told}; {_RIGHTS}", 403)
    return Trouble(f"the Kubernetes API server answered {status}: {told}", status)


def _client(kubeconfig: str, context: str) -> Any:
    from kubernetes import client
    from kubernetes import config as files

    config: Any = files  # without types
    settings = client.Configuration()
    try:
        if kubeconfig:
            config.load_kube_config(kubeconfig, context or None, settings, persist_config=False)
        else:
            config.load_incluster_config(client_configuration=settings)
    except Exception as error:  # the file is anybody's: the loader fails in many ways
        said = " ".join(str(error).split())[:200]
        raise Trouble(f"[kubernetes] kubeconfig {kubeconfig}: {said}") from None
    try:
        guarded(settings.host, "secret" if settings.api_key or settings.username else "")
    except ValueError as error:
        raise Trouble(f"[kubernetes] kubeconfig {kubeconfig}: {error}") from None
    settings.retries = False
    return client.ApiClient(settings)
