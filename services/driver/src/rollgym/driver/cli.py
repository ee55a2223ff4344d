"""The `gym` command: reads words, calls what they ask for, turns the end into text and an exit code.

What only one command needs is imported by the function that defines or runs it: `gym version` waits for no HTTP
client, and a run has nothing on its heap that it never uses.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from argparse import SUPPRESS, ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from rollgym.common.errors import ArtifactError, ConfigurationError, HeadError
from rollgym.common.redaction import redact_text
from rollgym.driver.command_parser import USAGE_EXIT, CommandParser
from rollgym.driver.console import Console, console_output
from rollgym.driver.errors import ServeError

if TYPE_CHECKING:
    from rollgym.driver.run_report import RunReport

_EVAL_COMMANDS = {
    "aggregate": "merge shards; metrics over the union",
    "profile": "pass rates per task; the hardest, flakiest and slowest tasks",
    "compare": "paired difference of two runs, with its interval",
    "report": "one HTML file about a run",
}

_EVAL_RUN_EPILOG = """\
exit codes:
  0  every owed rollout succeeded (masked ones are said aloud)
  3  finished, but rollouts failed or are missing (1 with ++require_complete=true)
  1  the collection itself failed, for example a full disk
  2  usage or configuration; nothing was started
  130, 143  interrupted by SIGINT, SIGTERM; the artifacts are valid, --resume goes on

examples:
  gym eval run --input examples/gridsim/tasks.jsonl --output results/gridsim.jsonl
  gym eval run --input tasks.jsonl --output out.jsonl --no-serve --head http://127.0.0.1:11000 \\
      --policy openai-chat --model my-model --model-url http://127.0.0.1:8000/v1 --concurrency 256
  gym eval run --config run.yaml ++num_repeats=4 ++driver_gc_freeze=false --resume

settings (key=value, ++key=value; also keys of the --config file):
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    arguments, extra = _parser().parse_known_args(words)
    if extra:
        _refuse_unknown(arguments, extra)
    if arguments.run is not _version:  # which logs nothing
        _log_to_stderr(debug=getattr(arguments, "debug", False))
    try:
        code: int = arguments.run(arguments)
    except (ConfigurationError, HeadError) as error:
        _complain(*error.message.splitlines())
        return USAGE_EXIT
    except (ServeError, ArtifactError) as error:
        _complain(error.message)
        return 1
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    return code


def _log_to_stderr(*, debug: bool) -> None:
    from rollgym.common.logs import configure_logging

    configure_logging("driver", "debug" if debug else "warning", plain=True)


def _complain(*lines: str) -> None:
    with console_output() as console:
        for line in lines:
            console.say(f"gym: {redact_text(line)}")


def run_main() -> NoReturn:
    """The console script: leaves without waiting for a reader that never reads."""
    code = main()
    for stream in filter(None, (sys.stdout, sys.stderr)):  # None: closed before the start
        try:
            stream.flush()
        except (OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    raise SystemExit(code)


def _parser() -> CommandParser:
    purpose = "Collect agent rollouts against RL environments, at high concurrency."
    parser = CommandParser(prog="gym", description=purpose)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    evals = commands.add_parser("eval", help="run evaluations")
    eval_commands = evals.add_subparsers(title="commands", metavar="COMMAND", required=True)
    eval_commands.add_parser(
        "run",
        help="collect rollouts for a task file",
        description="Collect rollouts for every task of a file, and write results that can be trusted and resumed.",
        formatter_class=RawDescriptionHelpFormatter,
        define=_define_eval_run,
    )
    for name, about in _EVAL_COMMANDS.items():
        eval_commands.add_parser(name, help=about, define=partial(_define_eval_command, name))
    commands.add_parser("status", help="servers and runs that a head knows", define=_define_status)
    env = commands.add_parser("env", help="environments")
    env_commands = env.add_subparsers(title="commands", metavar="COMMAND", required=True)
    env_commands.add_parser(
        "list", help="environments that a head's servers play, with their tools", define=_define_env_list
    )
    commands.add_parser("simulate", help="measure the driver under full load", define=_define_simulate)
    versions = commands.add_parser("version", help="versions of gym and of Python")
    versions.add_argument("--json", action="store_true", help="as JSON")
    versions.set_defaults(run=_version)
    return parser


def _define_eval_command(name: str, parser: ArgumentParser) -> None:
    from rollgym.driver.evals.commands import define_eval_command

    define_eval_command(name, parser)


def _define_simulate(parser: ArgumentParser) -> None:
    from rollgym.driver.simulate.command import define_simulate

    define_simulate(parser)


def _define_status(parser: ArgumentParser) -> None:
    _head_flags(parser)
    parser.set_defaults(run=_status)


def _define_env_list(parser: ArgumentParser) -> None:
    _head_flags(parser)
    parser.set_defaults(run=_env_list)


def _define_eval_run(run: ArgumentParser) -> None:
    from rollgym.driver.config import DEFAULT_HEAD_URL
    from rollgym.driver.reference import settings_reference

    run.epilog = _EVAL_RUN_EPILOG + settings_reference()
    run.add_argument("--config", type=Path, metavar="FILE", help="YAML file of settings")
    run.add_argument("--input", dest="input_jsonl_fpath", default=SUPPRESS, metavar="FILE", help="task file")
    run.add_argument("--output", dest="output_jsonl_fpath", default=SUPPRESS, metavar="FILE", help="results file")
    run.add_argument("--limit", type=int, default=SUPPRESS, metavar="N", help="only the first N tasks")
    run.add_argument("--num-repeats", type=int, default=SUPPRESS, metavar="N", help="rollouts of each task")
    run.add_argument(
        "--concurrency",
        dest="num_samples_in_parallel",
        type=int,
        default=SUPPRESS,
        metavar="N",
        help="rollouts in flight",
    )
    run.add_argument(
        "--resume", dest="resume_from_cache", action="store_true", default=SUPPRESS, help="go on with the run"
    )
    run.add_argument("--overwrite", action="store_true", default=SUPPRESS, help="replace an earlier run's artifacts")
    run.add_argument("--no-serve", action="store_true", help="start no server: use those registered with --head")
    run.add_argument(
        "--head", dest="head_url", default=SUPPRESS, metavar="URL", help=f"head of --no-serve ({DEFAULT_HEAD_URL})"
    )
    run.add_argument(
        "--policy",
        dest="policy.kind",
        default=SUPPRESS,
        metavar="KIND",
        help="scripted, openai-responses, openai-chat, or package.module:Class",
    )
    run.add_argument("--model", dest="policy.model", default=SUPPRESS, metavar="NAME", help="model name")
    run.add_argument(
        "--model-url", dest="policy.base_url", default=SUPPRESS, metavar="URL", help="OpenAI-compatible endpoint, …/v1"
    )
    run.add_argument(
        "--drain-on-sigterm", action="store_true", default=SUPPRESS, help="on SIGTERM finish what is in flight"
    )
    run.add_argument(
        "--debug-slow-callbacks", action="store_true", help="log every section that holds the loop for 50 ms"
    )
    run.add_argument("--debug", action="store_true", help="log everything")
    run.add_argument("--json", action="store_true", help="print the summary as JSON")
    run.add_argument("overrides", nargs="*", metavar="key=value", help="any setting, in Hydra's form")
    run.set_defaults(run=_eval_run)


def _head_flags(parser: ArgumentParser) -> None:
    from rollgym.driver.config import DEFAULT_HEAD_URL

    parser.add_argument("--head", default=DEFAULT_HEAD_URL, metavar="URL", help="the head (%(default)s)")
    parser.add_argument(
        "--token", default=os.environ.get("ROLLGYM_TOKEN"), metavar="TOKEN", help="its bearer token, or ROLLGYM_TOKEN"
    )
    parser.add_argument("--json", action="store_true", help="as JSON")


def _refuse_unknown(arguments: Namespace, extra: list[str]) -> None:
    """Take Hydra's ``~key`` and ``+key=value``, wherever they stand; refuse the rest with a suggestion."""
    from rollgym.common.suggestions import did_you_mean

    chosen: CommandParser = arguments.parser
    flags = [option for action in chosen._actions for option in action.option_strings]
    for word in extra:
        if arguments.run is not _eval_run or word.startswith("-"):
            name = word.split("=", 1)[0]
            chosen.error(f"unknown argument {word!r}{did_you_mean(name, flags)}")
        arguments.overrides.append(word)


def _status(arguments: Namespace) -> int:
    import asyncio

    from rollgym.driver.status import show_status

    return asyncio.run(show_status(arguments.head, arguments.token, as_json=arguments.json))


def _env_list(arguments: Namespace) -> int:
    import asyncio

    from rollgym.driver.status import show_environments

    return asyncio.run(show_environments(arguments.head, arguments.token, as_json=arguments.json))


def _eval_run(arguments: Namespace) -> int:
    import asyncio

    from rollgym.driver.config_loading import load_config
    from rollgym.driver.entry_points import run_no_serve, run_serving
    from rollgym.driver.event_loop import driver_event_loop

    with console_output() as console:
        flags = _flag_settings(arguments)
        config = load_config(arguments.config, arguments.overrides, flags, _shared_secrets())
        entry = run_no_serve if arguments.no_serve else run_serving
        try:
            with asyncio.Runner(loop_factory=driver_event_loop) as runner:
                report = runner.run(entry(config, console, debug_slow=arguments.debug_slow_callbacks))
        except asyncio.CancelledError as cancelled:
            return 128 + signal.Signals[str(cancelled.args[0])] if cancelled.args else 1
        return _show_end(report, console, as_json=arguments.json, require_complete=config.require_complete)


def _show_end(report: RunReport, console: Console, *, as_json: bool, require_complete: bool) -> int:
    from rollgym.driver.run_report import exit_code
    from rollgym.driver.summary import summary_json, summary_text

    code = exit_code(report, require_complete=require_complete)
    summary: Any = {**summary_json(report), "exit_code": code}
    console.result(json.dumps(summary, indent=2) if as_json else summary_text(report))
    return code


def _flag_settings(arguments: Namespace) -> dict[str, Any]:
    """Flags of `gym eval run` as settings."""
    own = {"config", "no_serve", "debug", "debug_slow_callbacks", "json", "overrides", "parser", "run"}
    return {name: value for name, value in vars(arguments).items() if name not in own}


def _shared_secrets() -> dict[str, Any]:
    """What a shared environment gives where nothing is configured: the model's key, the servers' token."""
    given = {"policy.api_key": os.environ.get("OPENAI_API_KEY"), "token": os.environ.get("ROLLGYM_TOKEN")}
    return {name: value for name, value in given.items() if value}


def _version(arguments: Namespace) -> int:
    from importlib.metadata import version

    names = ("rollgym-driver", "rollgym-common")
    versions = {name: version(name) for name in names} | {"python": sys.version.split()[0]}
    print(
        json.dumps(versions) if arguments.json else "\n".join(f"{name} {number}" for name, number in versions.items())
    )
    return 0


if __name__ == "__main__":
    run_main()
