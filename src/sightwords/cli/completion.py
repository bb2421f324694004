"""`sightwords completion SHELL`: a script that completes verbs, options and their choices.

The script is made from the parser itself, so it knows what this version takes; running it needs no
Python, so the Tab key answers at once.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, replace

from sightwords.cli.options import HelpFormatter

SHELLS = ("bash", "zsh", "fish")


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the verb."""
    parser = subparsers.add_parser(
        "completion",
        help="print a script that completes this command line in your shell",
        description="Print a script that lets the Tab key complete verbs, options, choices and "
        "file names.",
        epilog='example: eval "$(sightwords completion bash)"    # in ~/.bashrc\n'
        'example: eval "$(sightwords completion zsh)"     # in ~/.zshrc, after compinit\n'
        "example: sightwords completion fish > ~/.config/fish/completions/sightwords.fish",
        formatter_class=HelpFormatter,
    )
    parser.add_argument("shell", choices=SHELLS, help="the shell you use")
    parser.set_defaults(run=run, parser=parser, every_verb=subparsers)


def run(args: argparse.Namespace) -> int:
    """Print the script."""
    commands = list(commands_below(args.every_verb))
    print(_fish(commands) if args.shell == "fish" else _bash(commands, zsh=args.shell == "zsh"))
    return 0


@dataclass(frozen=True, slots=True)
class Command:
    """One place of the command line: behind `sightwords bundle info`, say."""

    path: tuple[str, ...]
    """The verbs that lead there."""
    verbs: dict[str, str]
    """The verbs that may follow, with their help."""
    options: dict[str, str]
    """The options it takes, with their help."""
    choices: dict[str, tuple[str, ...]]
    """Of options that take one of few values; under `` those of an argument."""


def commands_below(
    every_verb: argparse._SubParsersAction[argparse.ArgumentParser],
) -> Iterator[Command]:
    """The whole command line, from its verbs."""
    whole = argparse.ArgumentParser()
    whole._actions.append(every_verb)
    first, *others = commands_of(whole)
    options = {
        **first.options,
        "--version": "show the version",
        "--verbose": "print log messages on stderr",
    }
    yield replace(first, options=options)
    yield from others


def commands_of(parser: argparse.ArgumentParser, path: tuple[str, ...] = ()) -> Iterator[Command]:
    """A parser and all below it."""
    verbs: dict[str, str] = {}
    options: dict[str, str] = {}
    choices: dict[str, tuple[str, ...]] = {}
    below: list[tuple[str, argparse.ArgumentParser]] = []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            helps = {a.dest: a.help or "" for a in action._choices_actions}
            verbs = {name: helps.get(name, "") for name in action.choices}
            below = list(action.choices.items())
            continue
        options |= dict.fromkeys(action.option_strings, action.help or "")
        if action.choices is not None:
            of = tuple(map(str, action.choices))
            choices |= dict.fromkeys(action.option_strings or [""], of)
    yield Command(path, verbs, options, choices)
    for name, one in below:
        yield from commands_of(one, (*path, name))


def _bash(commands: list[Command], *, zsh: bool) -> str:
    """One function with a case a command; file names where nothing else fits."""
    cases = "\n".join(_bash_case(command) for command in commands)
    known = "|".join(shlex.quote(" ".join(c.path)) for c in commands if c.path)
    head = "autoload -U +X bashcompinit && bashcompinit\n" if zsh else ""
    return f"""{head}_sightwords() {{
  local word="${{COMP_WORDS[COMP_CWORD]}}" before="${{COMP_WORDS[COMP_CWORD-1]}}"
  local place="" one next i
  for ((i = 1; i < COMP_CWORD; i++)); do
    one="${{COMP_WORDS[i]}}"
    next="${{place:+$place }}$one"
    case "$next" in {known}) place="$next" ;; esac
  done
  local verbs="" options="" choices=""
  case "$place" in
{cases}
  esac
  if [[ -n "$choices" ]]; then COMPREPLY=($(compgen -W "$choices" -- "$word"))
  elif [[ "$word" == -* ]]; then COMPREPLY=($(compgen -W "$options" -- "$word"))
  elif [[ -n "$verbs" ]]; then COMPREPLY=($(compgen -W "$verbs" -- "$word"))
  else COMPREPLY=($(compgen -f -- "$word")); fi
}}
complete -o filenames -F _sightwords sightwords"""


def _bash_case(command: Command) -> str:
    lines = [f"    {shlex.quote(' '.join(command.path))})"]
    verbs = [*command.verbs, *command.choices.get("", ())]
    lines.append(f"      verbs={shlex.quote(' '.join(verbs))}")
    lines.append(f"      options={shlex.quote(' '.join(command.options))}")
    named = {option: of for option, of in command.choices.items() if option}
    if named:
        lines.append('      case "$before" in')
        lines += [f"        {o}) choices={shlex.quote(' '.join(of))} ;;" for o, of in named.items()]
        lines.append("      esac")
    return "\n".join([*lines, "      ;;"])


def _fish(commands: list[Command]) -> str:
    """One line a verb, an option or an argument's choices."""
    lines = []
    for command in commands:
        seen = "; and ".join(f"__fish_seen_subcommand_from {verb}" for verb in command.path)
        here = "; and ".join(
            filter(None, [seen, _fish_not_yet([*command.verbs]) if command.verbs else ""])
        )
        start = f"complete -c sightwords -n {shlex.quote(here or 'true')}"
        for verb, text in command.verbs.items():
            lines.append(f"{start} -f -a {verb} -d {shlex.quote(text)}")
        for choice in command.choices.get("", ()):
            lines.append(f"{start} -f -a {shlex.quote(choice)}")
        for option, text in command.options.items():
            name = f"-l {option[2:]}" if option.startswith("--") else f"-s {option[1:]}"
            of = command.choices.get(option)
            values = f" -x -a {shlex.quote(' '.join(of))}" if of else ""
            lines.append(f"{start} {name}{values} -d {shlex.quote(_first(text))}")
    return "\n".join(lines)


def _fish_not_yet(verbs: list[str]) -> str:
    return f"not __fish_seen_subcommand_from {' '.join(verbs)}"


def _first(text: str) -> str:
    """A help text short enough for a list."""
    return text.partition(";")[0].partition(" (")[0]
