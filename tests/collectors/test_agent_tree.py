"""Files that are read every second stay open: what they say is always what they say now."""

import os
from pathlib import Path

from collectors.host.tree import MOST_OPEN, MOST_SMALL, Tree


def opened(tree: Tree) -> int:
    return len(tree._open)


def test_a_kept_file_tells_its_newest_text(tmp_path: Path) -> None:
    tree, file = Tree(tmp_path), tmp_path / "rate"
    file.write_text("400 Gb/sec\n")
    assert tree.again("rate") == "400 Gb/sec"
    file.write_text("0\n")
    assert tree.again("rate") == "0"
    assert opened(tree) == 1
    tree.let_go()
    assert opened(tree) == 0


def test_a_file_that_is_not_there_says_nothing_until_it_is(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    assert tree.again("rate") == ""
    assert tree.blind() == ""
    (tmp_path / "rate").write_text("1")
    assert tree.again("rate") == "1"
    tree.let_go()


def test_a_device_that_has_gone_lets_its_file_go(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    (tmp_path / "rate").write_text("1")
    tree.again("rate")
    os.close(tree._open["rate"])
    tree._open["rate"] = os.open(tmp_path, os.O_RDONLY)  # reading it fails, as of a device that was taken out
    assert tree.again("rate") == ""
    assert opened(tree) == 0
    assert tree.again("rate") == "1"
    tree.let_go()


def test_what_stays_open_and_what_is_read_of_it_is_bounded(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    (tmp_path / "big").write_text("x" * 100_000)
    assert len(tree.again("big")) == MOST_SMALL
    for number in range(MOST_OPEN + 10):
        (tmp_path / str(number)).write_text("1")
        assert tree.again(str(number)) == "1"
    assert opened(tree) <= MOST_OPEN
    tree.let_go()
