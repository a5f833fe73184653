"""Text of others, made fit to be looked at."""

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from sickbay.plain import plain


def test_what_is_not_seen_is_made_visible() -> None:
    assert plain("a\x1b[31m\u202eb\n主 é\ud800\u061c") == "a⟨U+001B⟩[31m⟨U+202E⟩b⟨U+000A⟩主 é⟨U+D800⟩⟨U+061C⟩"


@given(st.text(st.characters(codec=None)))
def test_nothing_that_commands_or_hides_is_left(text: str) -> None:
    shown = plain(text)
    assert plain(shown) == shown
    assert not [one for one in shown if unicodedata.category(one) in ("Cc", "Cs", "Zl", "Zp")]
    shown.encode()
