"""The group of commands ``p2prdf experiment NAME``: one for each experiment of the registry.

The commands are created on the first access to the group: the registry imports the simulator, which would delay
``p2prdf --help``.
"""

from __future__ import annotations

import enum
import time
from collections.abc import Callable, MutableMapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from p2prdf.errors import LocalProtocolError
from p2prdf_cli.commands import Commands, Group
from p2prdf_cli.exits import ExitCode, run_plain
from p2prdf_lab.commands.output import (
    JsonFile,
    PlotFile,
    document_foot,
    peak_bytes,
    refuse_early,
    write_document,
    write_figure,
)

if TYPE_CHECKING:
    from p2prdf_lab.experiments import Experiment
    from p2prdf_lab.experiments.results import Result
    from p2prdf_lab.experiments.setting import Setting

__all__ = ["default_scale", "experiments"]

EXIT_CODES_HELP: Final = "Exit codes: 0 done, 1 failed, 2 wrong usage, 5 a claim does not hold, 130 interrupted."
PLAN_EXIT_CODES_HELP: Final = "Exit codes: 0 done, 1 failed, 2 wrong usage, 4 query or data refused, 130 interrupted."

_SCALE_MAX: Final = 0.2
_TRIPLES: Final = 15_000
"""Most triples of a run at the default scale: some seconds, with all effects visible."""

_SIZE_MAX: Final = 100_000_000

_CONTEXT: Final = {"help_option_names": ["-h", "--help"]}


class KeyEncoding(enum.StrEnum):
    """Mapping of constant parts to keys."""

    typed = "typed"
    paper = "paper"


def _size(name: str) -> Any:
    return typer.Option(min=1, max=_SIZE_MAX, metavar="N", help=f"Number of {name}, instead of what the scale gives.")


Size = int | None


def experiment() -> None:
    """Repeat the experiments of the papers, or plan capacity.

    Runs on one machine in the simulator. Prints tables and each claim of a paper
    beside the measured value; draws figures; writes JSON.

    \b
    Examples:
      p2prdf experiment load-distribution
      p2prdf experiment load-distribution --scale 1 --plot load.png
      p2prdf experiment plan --peers 50 -f q.rq --data d.nt.gz --rate 2000
    """


class _Experiments(Group):
    """A group that creates its commands from the registry on the first access."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names, experiments first."""
        del ctx
        return list(self._made())

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command of this name."""
        del ctx
        return self._made().get(cmd_name)

    def _made(self) -> MutableMapping[str, Any]:
        if not self.commands:
            from p2prdf_lab.commands.full_text import NAME as FULL_TEXT
            from p2prdf_lab.commands.full_text import full_text
            from p2prdf_lab.commands.interest_replica import NAME as INTEREST_REPLICA
            from p2prdf_lab.commands.interest_replica import interest_replica
            from p2prdf_lab.commands.plan import plan
            from p2prdf_lab.commands.reasoning import NAME, incremental_reasoning
            from p2prdf_lab.commands.semantic_channels import NAME as SEMANTIC_CHANNELS
            from p2prdf_lab.commands.semantic_channels import semantic_channels
            from p2prdf_lab.experiments import EXPERIMENTS

            made = Commands(context_settings=_CONTEXT)
            for name, each in EXPERIMENTS.items():
                made.command(name, epilog=EXIT_CODES_HELP, short_help=each.summary)(_command(name, each))
            made.command(NAME, epilog=EXIT_CODES_HELP)(incremental_reasoning)
            made.command(FULL_TEXT, epilog=EXIT_CODES_HELP)(full_text)
            made.command(INTEREST_REPLICA, epilog=EXIT_CODES_HELP)(interest_replica)
            made.command(SEMANTIC_CHANNELS, epilog=EXIT_CODES_HELP)(semantic_channels)
            made.command("plan", epilog=PLAN_EXIT_CODES_HELP)(plan)
            self.commands.update(typer.main.get_group(made).commands)
        return self.commands


experiments = typer.Typer(
    name="experiment", cls=_Experiments, no_args_is_help=True, rich_markup_mode="rich", epilog=EXIT_CODES_HELP,
    context_settings=_CONTEXT,
)  # fmt: skip
"""The group, which the entry point of ``lab/pyproject.toml`` names."""
experiments.callback()(experiment)


def default_scale(experiment: Experiment) -> float:
    """Return the default scale of an experiment."""
    return round(min(_SCALE_MAX, _TRIPLES / experiment.setting.triples), 4)


def _command(name: str, experiment: Experiment) -> Callable[..., None]:
    """Return the function behind the command of one experiment."""

    def run_experiment(
        scale: Annotated[
            float, typer.Option(metavar="F", help="Size of everything; 1 is the size of the paper.")
        ] = default_scale(experiment),
        peers: Annotated[Size, _size("peers")] = None,
        queries: Annotated[Size, _size("standing queries")] = None,
        triples: Annotated[Size, _size("published triples")] = None,
        instances: Annotated[Size, _size("instances of each class")] = None,
        values: Annotated[Size, _size("values of each literal domain")] = None,
        key_encoding: Annotated[
            KeyEncoding | None,
            typer.Option(help="Keys typed by index, or bare concatenations as in the paper."),
        ] = None,
        seed: Annotated[int | None, typer.Option(min=0, help="Equal seeds give equal runs.")] = None,
        plot: PlotFile = None,
        document: JsonFile = None,
    ) -> None:
        sizes: dict[str, Any] = {
            "peers": peers, "queries": queries, "triples": triples, "instances": instances, "values": values,
            "key_encoding": key_encoding and key_encoding.value, "seed": seed,
        }  # fmt: skip
        setting = _setting(experiment, scale, sizes)

        def action() -> ExitCode:
            refuse_early(plot, document)
            return _run(experiment, name, scale, setting, plot, document)

        run_plain(action)

    run_experiment.__doc__ = f"""{experiment.summary}.

    \b
    Examples:
      p2prdf experiment {name}
      p2prdf experiment {name} --scale 1 --plot {name}.png
      p2prdf experiment {name} --peers 500 --seed 2 --json - | jq .claims
    """
    return run_experiment


def _setting(experiment: Experiment, scale: float, sizes: dict[str, Any]) -> Setting:
    try:
        setting = replace(experiment.at(scale), **{name: each for name, each in sizes.items() if each is not None})
        experiment.check(setting)
    except LocalProtocolError as error:
        raise typer.BadParameter(str(error)) from None
    return setting


def _run(
    experiment: Experiment, name: str, scale: float, setting: Setting, plot: Path | None, document: str | None
) -> ExitCode:
    from p2prdf_cli.progress import RunBar
    from p2prdf_lab.commands.report import setting_text, write_result

    started = time.monotonic()
    with RunBar(f"{name}: {setting.triples:,} triples, {setting.peers:,} peers") as bar:
        result = experiment.run(setting, bar.show)
    seconds = time.monotonic() - started
    if plot is not None:
        write_figure(plot, result.title, result.panels, setting_text(result.setting))
    if document is not None:
        write_document(_document(result, scale, seconds), document)
    if document != "-":
        write_result(result, seconds, peak_bytes(), plot)
    return ExitCode.OK if all(claim.holds for claim in result.claims) else ExitCode.CLAIM


def _document(result: Result, scale: float, seconds: float) -> dict[str, Any]:
    return {**result.as_dict(), "scale": scale, **document_foot(seconds)}
