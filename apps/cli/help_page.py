"""Help pages in plain text, with commands and options in groups."""

import re
from collections.abc import Callable
from typing import Any

import typer
import typer.core


class HelpCommand(typer.core.TyperCommand):
    """Command whose help page lists the options by their `rich_help_panel`.

    Indented paragraphs of the help text keep their lines.
    """

    def __init__(self, *args: Any, help: str | None = None, **options: Any) -> None:
        super().__init__(*args, help=_keep_lines(help), **options)

    def format_options(self, ctx: object, formatter: object) -> None:
        """Write arguments and options, one section for each group."""
        _write_parameters(self, ctx, formatter)


class HelpGroup(typer.core.TyperGroup):
    """Group of commands whose help page lists the commands by their `rich_help_panel`."""

    def __init__(self, *args: Any, help: str | None = None, **options: Any) -> None:
        super().__init__(*args, help=_keep_lines(help), **options)

    def format_options(self, ctx: object, formatter: Any) -> None:
        """Write the options, then the commands, one section for each group."""
        _write_parameters(self, ctx, formatter)
        sections: dict[str, list[tuple[str, str]]] = {}
        width = max(map(len, self.commands))
        for name, command in self.commands.items():
            panel = getattr(command, "rich_help_panel", None) or "Commands"
            summary = command.get_short_help_str(formatter.width - width - 4)  # 2 before and 2 after the name
            sections.setdefault(panel, []).append((name, summary))
        _write_sections(sections, formatter, width)


class DefaultGroup(HelpGroup):
    """Group whose command may be omitted: a first word that is not a command is an argument of `default`."""

    default = "run"

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Insert the default command if the first word is not a command."""
        if args and args[0] not in self.commands and args[0] not in ("-h", "--help"):
            args = [self.default, *args]
        return super().parse_args(ctx, args)


class App(typer.Typer):
    """Typer app whose commands and groups have the help pages of this file, and that prints help without arguments."""

    def __init__(self, *, cls: type[HelpGroup] = HelpGroup, **options: Any) -> None:
        super().__init__(cls=cls, no_args_is_help=True, rich_markup_mode=None, **options)

    def command(self, name: str | None = None, **options: Any) -> Callable[[Any], Any]:
        """Register a command."""
        return super().command(name, cls=HelpCommand, **options)


def _keep_lines(text: str | None) -> str | None:
    """Mark indented paragraphs as preformatted, in the notation of click."""
    return text and text.replace("\n\n    ", "\n\n\b\n    ")


def _write_parameters(command: Any, ctx: object, formatter: object) -> None:
    sections: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
    for parameter in command.get_params(ctx):
        row = parameter.get_help_record(ctx)
        if row is None:
            continue
        term, text = row
        if parameter.param_type_name == "argument":
            sections["Arguments"].append((term.partition(" <")[0], text))
        else:
            text = re.sub(r"\[default: \((.*?)\)", r"[default: \1", text)  # described defaults come in parentheses
            panel = getattr(parameter, "rich_help_panel", None) or "Options"
            sections.setdefault(panel, []).append((term, text))
    _write_sections(sections, formatter)


def _write_sections(sections: dict[str, list[tuple[str, str]]], formatter: Any, width: int = 0) -> None:
    """Write definition lists; terms are padded to `width`, so that all sections have the same columns."""
    for title, rows in sections.items():
        if rows:
            with formatter.section(title):
                formatter.write_dl([(f"{term:<{width}}", text) for term, text in rows])
