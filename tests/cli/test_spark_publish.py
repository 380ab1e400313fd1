"""``p2prdf spark-publish`` reports wrong arguments before it starts Spark."""

from __future__ import annotations

import sys

import pytest
from typer.testing import CliRunner

from p2prdf_cli.app import app
from p2prdf_cli.exits import ExitCode


def run(*arguments):
    return CliRunner().invoke(app, ["spark-publish", *arguments])


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "name either files to publish or, with --stream, a folder to watch"),
        (["a.nt", "--stream", "b"], "name either files to publish or"),
        (["a.nt", "--conf", "spark.x"], "--conf spark.x: a setting of Spark is KEY=VALUE"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(arguments, told):
    outcome = run(*arguments)
    assert outcome.exit_code == ExitCode.REFUSED
    assert told in outcome.output


def test_peers_are_addresses():
    outcome = run("a.nt", "--peer", "nowhere")
    assert outcome.exit_code == ExitCode.USAGE


def test_without_spark_the_package_to_install_is_named(monkeypatch):
    for name in [each for each in sys.modules if each.startswith(("p2prdf.publish", "pyspark"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pyspark", None)
    outcome = run("a.nt")
    assert outcome.exit_code == ExitCode.REFUSED
    assert "pip install 'p2prdf[spark]'" in outcome.output
