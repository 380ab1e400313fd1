"""Names of commands and options: old ones are refused with the new one, and addresses are given alike everywhere."""

from __future__ import annotations

from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from p2prdf_cli.app import app
from p2prdf_cli.commands import RENAMED_COMMANDS, RENAMED_OPTIONS
from p2prdf_cli.options import addresses

ROOT: Any = typer.main.get_command(app)


def _find(path: str) -> Any:
    found = ROOT
    for word in path.split():
        found = found.get_command(None, word)
        assert found is not None, path
    return found


def _options(path: str) -> set[str]:
    return {name for parameter in _find(path).params for name in parameter.opts}


@pytest.mark.parametrize(("old", "new"), RENAMED_COMMANDS.items())
def test_old_command_is_refused_with_the_new_one(old: str, new: str) -> None:
    outcome = CliRunner().invoke(app, [*old.split(), "--peer", "127.0.0.1:1"])
    assert (outcome.exit_code, outcome.stdout) == (2, "")
    assert outcome.stderr == f"p2prdf: error [usage]: '{old}' is now '{new}': p2prdf {new} ...\n"
    _find(new)


@pytest.mark.parametrize(("place", "new"), RENAMED_OPTIONS.items())
@pytest.mark.parametrize("form", ["{} x", "{}=x"])
def test_old_option_is_refused_with_the_new_one(place: tuple[str, str], new: str, form: str) -> None:
    path, old = place
    if not old.startswith("--") and "=" in form:
        return
    outcome = CliRunner().invoke(app, [*path.split(), *form.format(old).split()])
    assert (outcome.exit_code, outcome.stdout) == (2, "")
    assert outcome.stderr == f"p2prdf: error [usage]: '{old}' is now '{new}': p2prdf {path} {new} ...\n"
    assert new in _options(path)
    assert old not in _options(path)


def test_old_commands_are_not_listed() -> None:
    for old in RENAMED_COMMANDS:
        *group, name = old.split()
        assert name not in _find(" ".join(group)).commands


def test_value_or_query_that_looks_like_an_old_option_is_taken_as_it_is() -> None:
    outcome = CliRunner().invoke(app, ["simulate", "-f", "--query", "--data", "nowhere.nt"])
    assert "is now" not in outcome.stderr


def test_addresses_are_repeated_or_separated_by_commas() -> None:
    assert addresses(["a:1,b:2", "c:3"]) == ["a:1", "b:2", "c:3"]
    with pytest.raises(typer.BadParameter, match="nowhere"):
        addresses(["a:1", "nowhere"])


@pytest.mark.parametrize("variable", ["127.0.0.1:1,127.0.0.1:2", "127.0.0.1:1 127.0.0.1:2"])
def test_environment_names_several_nodes(variable: str) -> None:
    outcome = CliRunner().invoke(app, ["unsubscribe", "1"], env={"P2PRDF_PEER": variable})
    assert outcome.exit_code == 3
    assert "127.0.0.1:2" in outcome.stderr


def _commands(group: Any, path: tuple[str, ...] = ()) -> list[str]:
    found = []
    for name, each in group.commands.items():
        found += _commands(each, (*path, name)) if hasattr(each, "commands") else [" ".join((*path, name))]
    return found


def test_one_option_has_one_form_in_all_commands() -> None:
    short = {"--peer": "-p", "--file": "-f", "--output": "-o"}
    for path in _commands(ROOT):
        for parameter in _find(path).params:
            for long, letter in short.items():
                assert (long in parameter.opts) == (letter in parameter.opts), (path, parameter.opts)


def test_verbs_of_registered_things_are_add_list_and_remove() -> None:
    for group in ("rules", "interest", "channel"):
        assert {"add", "list", "remove"} <= set(_find(group).commands)
    assert not {path.split()[-1] for path in _commands(ROOT)} & {"create", "drop", "stats"}


def test_malformed_condition_of_an_update_is_refused_before_a_connection() -> None:
    given = ["update", "--peer", "127.0.0.1:1", "--if-unchanged", "soon", "INSERT DATA { <urn:s> <urn:p> 1 }"]
    outcome = CliRunner().invoke(app, given)
    assert outcome.exit_code == 2
    assert "neither a stamp" in outcome.stderr
