from __future__ import annotations

import pytest

from p2prdf.errors import LocalProtocolError
from p2prdf.overlay.address_cache import OVERLAYS
from p2prdf_node.addresses import format_address, split_address
from p2prdf_node.config import SETTINGS, NodeConfig, load_config


def test_options_come_before_environment_before_file_before_defaults(tmp_path):
    file = tmp_path / "node.toml"
    file.write_text('listen = "127.0.0.1:1001"\nindexes = "all"\nlog_level = "debug"\nhello_seconds = 1\n')
    environment = {"P2PRDF_LISTEN": "127.0.0.1:1002", "P2PRDF_INDEXES": "on-demand"}
    config = load_config({"listen": "127.0.0.1:1003", "indexes": None}, file=file, environment=environment)
    assert config.listen == "127.0.0.1:1003"
    assert config.indexes == "on-demand"
    assert config.log_level == "debug"
    assert config.hello_seconds == 1.0
    assert config.idle_seconds == NodeConfig().idle_seconds


def test_tls_does_not_replace_the_secret_that_seals_datagrams(tmp_path):
    files = {name: tmp_path / name for name in ("tls_cert", "tls_key", "tls_ca")}
    assert load_config(files).tls
    with pytest.raises(LocalProtocolError, match="a cluster secret is needed"):
        load_config({**files, "listen": "0.0.0.0:7400"})


def test_lists_are_written_as_lists_in_files_and_with_commas_elsewhere(tmp_path):
    file = tmp_path / "node.toml"
    file.write_text('bootstrap = ["a:1", "b:2"]\n')
    assert load_config(file=file).bootstrap == ("a:1", "b:2")
    assert load_config(environment={"P2PRDF_BOOTSTRAP": "a:1, b:2,"}).bootstrap == ("a:1", "b:2")
    assert load_config({"bootstrap": "a:1"}).bootstrap == ("a:1",)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"listen": "nonsense"}, "setting listen: 'nonsense' is not host:port"),
        ({"listen": "127.0.0.1:70000"}, "port 70000 is not between 0 and 65535"),
        ({"listen": "::1:7400"}, "in brackets"),
        ({"bootstrap": "host:0"}, "setting bootstrap: 'host:0'"),
        ({"indexes": "some"}, "setting indexes: 'some' is none of all, on-demand"),
        ({"overlay": "pastry"}, "setting overlay: 'pastry' is none of kademlia, chord"),
        ({"membership": "some"}, "setting membership: 'some' is none of view, overlay"),
        ({"membership": "overlay"}, "setting membership: 'overlay' goes with one replica (settings replicas"),
        ({"zone": "two words"}, "setting zone: 'two words' is not a name of at most 63 visible characters"),
        ({"zone": "z" * 64}, "setting zone: "),
        ({"hot_keys": "maybe"}, "setting hot_keys (option): 'maybe': is neither true nor false"),
        ({"keyword_routing": "maybe"}, "setting keyword_routing (option): 'maybe': is neither true nor false"),
        ({"replicas": 17}, "setting replicas: 17 is not between 1 and 16"),
        ({"audit_seconds": -1}, "setting audit_seconds: -1.0 is not a number from 0 on"),
        ({"hot_share": 0.0}, "setting hot_share: 0.0 is not a positive number"),
        ({"log_format": "xml"}, "setting log_format"),
        ({"connections_max": "many"}, "setting connections_max (option): 'many'"),
        ({"connections_max": 1.5}, "is not a whole number"),
        ({"connections_max": 0}, "0 is not a positive number in range"),
        ({"drain_seconds": float("nan")}, "is not a positive number in range"),
        ({"lisen": "127.0.0.1:1"}, "setting lisen (option): unknown setting"),
        ({"secret": b"in ps for all to see"}, "unknown setting"),
        ({"advertise": "host:port"}, "setting advertise"),
        ({"ordinal": 65_536}, "setting ordinal: 65536 is not between 0 and 65535"),
        ({"ordinal": -1}, "setting ordinal: -1"),
        ({"tls_cert": "a"}, "setting tls_key: not given: TLS needs all of tls_cert, tls_key, tls_ca"),
        ({"tls_cert": "a", "tls_key": "a"}, "setting tls_ca: not given"),
        ({"tls_crl": "a"}, "setting tls_cert: not given"),
        ({"tls_poll_seconds": 0}, "setting tls_poll_seconds: 0"),
        ({"ordinal": "first"}, "setting ordinal (option): 'first'"),
    ],
)
def test_a_wrong_setting_is_refused_by_name_and_reason(options, complaint):
    with pytest.raises(LocalProtocolError) as caught:
        load_config(options)
    assert complaint in str(caught.value)


def test_the_overlay_comes_from_anywhere_and_is_kademlia_by_default(tmp_path):
    file = tmp_path / "node.toml"
    file.write_text('overlay = "chord"')
    assert load_config().overlay == "kademlia"
    assert load_config(file=file).overlay == "chord"
    assert load_config(environment={"P2PRDF_OVERLAY": "chord"}).overlay == "chord"
    assert load_config({"overlay": "kademlia"}, file=file).overlay == "kademlia"


def test_a_zone_comes_from_anywhere_and_an_empty_variable_is_none(tmp_path):
    file = tmp_path / "node.toml"
    file.write_text('zone = "rack-1"')
    assert load_config().zone == load_config(environment={"P2PRDF_ZONE": ""}).zone == ""
    assert load_config(file=file).zone == "rack-1"
    assert load_config({"zone": "rack-3"}, file=file, environment={"P2PRDF_ZONE": "rack-2"}).zone == "rack-3"
    assert load_config(file=file, environment={"P2PRDF_ZONE": "rack-2"}).zone == "rack-2"


def test_an_unknown_key_of_the_file_is_refused(tmp_path):
    file = tmp_path / "node.toml"
    file.write_text("listn = 1\n")
    with pytest.raises(LocalProtocolError, match=r"setting listn .*node.toml.*unknown setting"):
        load_config(file=file)
    file.write_text("= = =")
    with pytest.raises(LocalProtocolError, match="configuration file"):
        load_config(file=file)


def test_beyond_loopback_a_secret_is_needed(tmp_path):
    with pytest.raises(LocalProtocolError, match="a cluster secret is needed"):
        load_config({"listen": "0.0.0.0:7400"})
    secret = tmp_path / "secret"
    secret.write_text("sixteen bytes or more\n")
    assert load_config({"listen": "0.0.0.0:7400", "secret_file": secret}).secret == b"sixteen bytes or more"
    by_environment = load_config({"listen": "10.0.0.1:7400"}, environment={"P2PRDF_SECRET": "sixteen bytes or more"})
    assert by_environment.seal_key == load_config({"secret_file": str(secret)}).seal_key
    assert by_environment.seal_key != load_config().seal_key


def test_a_weak_empty_or_missing_secret_is_refused(tmp_path):
    secret = tmp_path / "secret"
    for content, complaint in (("short", "too few"), ("", "is empty")):
        secret.write_text(content)
        with pytest.raises(LocalProtocolError, match=complaint):
            load_config({"secret_file": secret})
    with pytest.raises(LocalProtocolError, match="No such file"):
        load_config({"secret_file": tmp_path / "none"})


def test_the_secret_does_not_show():
    config = load_config(environment={"P2PRDF_SECRET": "canary canary canary"})
    assert "canary" not in repr(config)


@pytest.mark.parametrize(
    ("text", "address"), [("h:1", ("h", 1)), ("[::1]:7400", ("::1", 7400)), (" 10.0.0.1:80 ", ("10.0.0.1", 80))]
)
def test_addresses_are_read_and_written_alike(text, address):
    assert split_address(text) == address
    assert split_address(format_address(*address)) == address


def test_a_host_alone_takes_the_default_port():
    assert split_address("pod-3.overlay", default_port=7400) == ("pod-3.overlay", 7400)
    assert split_address("[::1]", default_port=7400) == ("::1", 7400)


@pytest.mark.parametrize(("name", "value", "said"), [
    *(("roles", value, "it is called indexes now, .* on-demand") for value in ("advertised", "all", "all+any")),
    ("rights", "clients.toml", "it is called permissions now"),
    ("answers_pending_max", "1", "it is called solutions_pending_max now"),
    ("hot_text", "on", "it is called keyword_routing now"),
])
def test_former_names_of_settings_are_refused_with_the_new_ones_in_every_source(tmp_path, name, value, said):
    file = tmp_path / "node.toml"
    file.write_text(f'{name} = "{value}"\n')
    for given in (
        lambda: load_config({name: value}), lambda: load_config(environment={f"P2PRDF_{name.upper()}": value}),
        lambda: load_config(file=file),
    ):  # fmt: skip
        with pytest.raises(LocalProtocolError, match=rf"setting {name} \(.*\): {said}"):
            given()


def test_zero_switches_audits_and_records_of_introductions_off():
    config = load_config({"audit_seconds": 0, "introductions_max": 0})
    assert (config.audit_seconds, config.introductions_max) == (0, 0)


def test_switches_are_on_or_off_in_environment_and_file(tmp_path):
    file = tmp_path / "node.toml"
    file.write_text('hot_keys = "off"\nkeyword_routing = true\n')
    assert (load_config(file=file).hot_keys, load_config(file=file).keyword_routing) == (False, True)
    assert load_config(environment={"P2PRDF_HOT_KEYS": "off"}).hot_keys is False


def test_choices_of_the_overlay_are_those_with_a_rule_of_ownership():
    assert SETTINGS["overlay"].choices == tuple(OVERLAYS)


def test_all_indexes_are_the_default():
    assert load_config().indexes == "all"
