"""Following a list: where a watch goes on, when all is listed again, what odd answers and a full feed do."""

import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from collectors.cluster import kubernetes_watch
from collectors.cluster.kubernetes_api import Opened, Trouble, refusal
from collectors.cluster.kubernetes_watch import Change, Feed, Follower

Line = bytes | Exception


def item(name: str, version: int) -> dict[str, Any]:
    return {"metadata": {"name": name, "resourceVersion": str(version)}}


def line(what: str, name: str, version: int) -> bytes:
    return json.dumps({"type": what, "object": item(name, version)}).encode()


GONE = json.dumps({"type": "ERROR", "object": {"code": 410, "message": "too old resource version"}}).encode()


class Server:
    """Answers lists and watches as it is told; what it is not told, it refuses."""

    def __init__(self, lists: list[Any], watches: list[list[Line]]) -> None:
        self._lists, self._watches = lists, watches
        self.watched: list[str] = []

    def get(self, path: str, query: dict[str, str]) -> bytes:
        told = self._lists.pop(0) if self._lists else Trouble("no more")
        if isinstance(told, Exception):
            raise told
        return json.dumps(told).encode()

    def lines(self, path: str, query: dict[str, str], silent_s: float, opened: Opened) -> Iterable[bytes]:
        self.watched.append(query["resourceVersion"])
        return self._lines(self._watches.pop(0) if self._watches else [Trouble("no more")], opened)

    def _lines(self, told: list[Line], opened: Opened) -> Iterator[bytes]:
        opened(self)
        for one in told:
            if isinstance(one, Exception):
                raise one
            yield one
        opened(None)

    def shutdown(self) -> None:
        pass


def page(version: int, *names: str, more: str = "") -> Any:
    items = [item(name, version) for name in names]
    return {"metadata": {"resourceVersion": str(version), "continue": more}, "items": items}


def named(raw: bytes) -> str:
    told = json.loads(raw)["metadata"]["name"]
    if told == "odd":
        raise ValueError(told)
    return str(told)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kubernetes_watch, "AGAIN_S", 0.02)


def until(true: Callable[[], object]) -> None:
    deadline = time.monotonic() + 5
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def followed(
    server: Server, enough: Callable[[Follower[str], Feed[str]], object]
) -> tuple[list[Change[str]], Feed[str]]:
    feed: Feed[str] = Feed()
    follower = Follower(server, "/pods", named, feed)
    follower.start()
    try:
        until(lambda: enough(follower, feed))
        return feed.after(0), feed
    finally:
        follower.stop()


def test_a_list_of_pages_then_a_watch_that_goes_on_where_it_ended() -> None:
    server = Server(
        [page(7, "a", "b", more="x"), page(7, "c", "odd")],
        [[line("ADDED", "d", 8), line("BOOKMARK", "", 20)], [line("DELETED", "a", 21)], [Trouble("reset")]],
    )
    told, feed = followed(server, lambda one, _: len(server.watched) >= 4)
    assert [(one.objects, one.full, one.gone) for one in told] == [
        (["a", "b", "c"], True, False),
        (["d"], False, False),
        (["a"], False, True),
    ]
    assert server.watched[:4] == ["7", "20", "21", "21"]
    assert feed.count_unparsed() == 1
    assert feed.count_unparsed() == 0


@pytest.mark.parametrize("gone", [GONE, Trouble("gone", 410)])
def test_a_place_that_is_forgotten_lists_all_again(gone: Line) -> None:
    server = Server([page(7, "a"), page(90, "b")], [[gone], []])
    told, _ = followed(server, lambda one, _: len(server.watched) >= 2)
    assert [one.objects for one in told] == [["a"], ["b"]]
    assert server.watched[:2] == ["7", "90"]


@pytest.mark.parametrize("odd", [b"{", b"[]", b'{"type": 3}', b'{"type": "ADDED", "object": 5}', b"\xff\xfe"])
def test_a_line_that_is_none_lists_all_again(odd: bytes) -> None:
    server = Server([page(7, "a"), page(9, "a")], [[odd], []])
    told, _ = followed(server, lambda one, _: len(server.watched) >= 2)
    assert [one.full for one in told if one.full] == [True, True]


def test_what_does_not_work_is_said_until_it_does() -> None:
    said: list[str] = []
    server = Server([refusal("/pods", 403, b"{}"), page(7)], [[line("ADDED", "a", 8)], [refusal("/pods", 403, b"")]])

    def enough(one: Follower[str], feed: Feed[str]) -> bool:
        said.append(one.problem)
        return len(server.watched) >= 3

    followed(server, enough)
    assert "a right is missing (403)" in "".join(said)


def test_changes_stay_until_they_are_taken() -> None:
    feed: Feed[str] = Feed()
    feed.put("/pods", ["a"])
    feed.put("/pods", ["b"])
    assert [one.objects for one in feed.after(0)] == [["a"], ["b"]]
    assert [one.objects for one in feed.after(0)] == [["a"], ["b"]]  # what was folded from them was not told
    assert [one.objects for one in feed.after(1)] == [["b"]]
    assert feed.after(2) == []


def test_a_full_feed_holds_its_follower_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kubernetes_watch, "MOST_HELD", 3)
    feed: Feed[int] = Feed()
    put: list[int] = []

    def fill() -> None:
        for number in range(10):
            feed.put("/pods", [number])
            put.append(number)

    thread = threading.Thread(target=fill, daemon=True)
    thread.start()
    taken, got = 0, list[int]()
    until(lambda: len(put) == 3)
    while len(got) < 10:
        found = feed.after(taken)
        assert len(found) <= 4
        got += [number for one in found for number in one.objects if one.sequence > taken]
        taken = found[-1].sequence if found else taken
    thread.join(5)
    assert got == list(range(10))
