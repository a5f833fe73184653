"""Identity: one name per device, no host shared by guess, no address invented."""

from collectors.identity import Names, addresses, host_for, host_of_path, short_names, told_host
from collectors.inputs.gather import Gathered
from sickbay.messages import Identity

CARD = Identity(host="h17", index="3", pci="0000:cb:00", uuid="GPU-5d0c1a7e-0000-4000-8000-00000000a1b2")


def test_all_names_of_a_card_become_its_address() -> None:
    names = Names([CARD])
    for token in ("3", "0000:cb:00", CARD.uuid):
        assert names.canonical(f"accelerator:?/{token}", "h17") == "accelerator:h17/0000:cb:00"
    assert names.identity("accelerator:h17/0000:cb:00") == CARD


def test_partial_identities_join_over_what_they_share() -> None:
    names = Names([Identity(host="h", index="0", uuid="GPU-a"), Identity(host="h", uuid="GPU-a", pci="0000:3b:00")])
    assert names.canonical("accelerator:h/0", "h") == "accelerator:h/0000:3b:00"


def test_an_unknown_host_is_found_by_a_serial_that_only_one_host_has() -> None:
    assert Names([CARD]).canonical(f"accelerator:?/{CARD.uuid}", "~x") == "accelerator:h17/0000:cb:00"


def test_a_contradiction_joins_nothing() -> None:
    names = Names([Identity(host="h", index="0", pci="0000:3b:00"), Identity(host="h", index="0", pci="0000:5d:00")])
    assert names.canonical("accelerator:h/0", "h") == "accelerator:h/0"


def test_another_hosts_table_is_never_used() -> None:
    assert Names([CARD]).canonical("accelerator:?/3", "h18") == "accelerator:h18/3"


def test_the_path_names_a_host_only_where_another_input_knows_it() -> None:
    known = {"gx-r07-n03", "h1", "h17"}
    assert host_of_path("/logs/gx-r07-n03/dmesg.log", known) == "gx-r07-n03"
    assert host_of_path("/logs/dmesg_h17.txt", known) == "h17"
    assert host_of_path("/logs/bundle.tgz!/h17/dmesg", known) == "h17"
    assert host_of_path("/logs/h171/dmesg", known) is None
    assert host_of_path("/logs/dmesg", known) is None


def test_unknown_hosts_are_not_shared_and_fit_a_name() -> None:
    one, two = (host_for(Gathered(path), set(), None) for path in ("/a/dmesg", "/b/dmesg"))
    assert one != two
    assert one.startswith("~")
    assert "/" not in one
    deep = host_for(Gathered("/x" * 400 + "/dmesg"), set(), None)
    assert len(deep) < 120
    assert host_for(Gathered("/a/dmesg"), set(), "h9") == "h9"


def test_full_and_short_host_names_are_one_only_where_that_is_certain() -> None:
    assert short_names({"h1.example.com", "h1", "10.0.0.1"}) == {"h1.example.com": "h1"}
    assert short_names({"h1.a.com", "h1.b.com", "h1"}) == {}
    assert short_names({"h1.a.com"}) == {}


def test_an_address_is_a_host_only_where_one_host_answers_there() -> None:
    rows = [Identity(kind="host", host="h1", name="10.0.0.1"), Identity(kind="host", host="h2", name="10.0.0.2")]
    assert addresses(rows) == {"10.0.0.1": "h1", "10.0.0.2": "h2"}
    assert addresses([*rows, Identity(kind="host", host="h9", name="10.0.0.1")]) == {"10.0.0.2": "h2"}


def test_a_storm_of_identities_is_joined_in_linear_steps_and_bounded() -> None:
    storm = [Identity(host="h", index="0", pci=f"{n:04x}:00:00", uuid=f"GPU-{n}") for n in range(20_000)]
    names = Names(storm)
    assert names.canonical("accelerator:h/0", "h") == "accelerator:h/0", "an index that all claim names none of them"
    assert names.canonical("accelerator:h/GPU-7", "h") == "accelerator:h/0007:00:00"


def test_hosts_as_inputs_tell_them_are_fit_for_names() -> None:
    told = {text: told_host(text) for text in ("h1", "a/b", "../..", "?", "", "~x", "h\n1", "x" * 300)}
    assert told["h1"] == "h1"
    assert told["?"] == told[""] == ""
    assert not told["~x"].startswith("~"), "a stand-in is ours"
    assert all("/" not in host and len(host) <= 240 and host.isprintable() for host in told.values())


def test_names_inside_names_and_names_of_signs_are_found_as_whole_words() -> None:
    known = {"n1", "n1-ib", "rack-n1"}
    assert host_of_path("/x/rack-n1.log", known) == "rack-n1"
    assert host_of_path("/x/n1-ib_dmesg", known) == "n1-ib"
    assert host_of_path("/x/n12/an1", known) is None
    assert host_of_path("/" + "-" * 100_000, known) is None
