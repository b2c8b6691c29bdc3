"""Pages of the site's reference that are made from the code, so that they cannot say anything else."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, get_args

import sheafedge
import typer
from sheafedge import plugins
from sheafedge.emulator.edge.commands.command_options import SUMMARIES
from sheafedge.emulator.edge.commands.device_commands import run_command
from sheafedge.scenarios.catalog.algorithm_catalog import AlgorithmEntry, algorithm_entries
from sheafedge.scenarios.catalog.field_catalog import FieldEntry, scenario_fields
from sheafedge.scenarios.terminal.cli import app

_FIELDS_HEAD = """---
search:
  boost: 3
---

# Fields of a scenario

Every field, from the schema that checks it; `sheafedge fields PREFIX` prints the same. A file sets
`loss_probability` in its table `[link]`, the command line `--set link.loss_probability=0.2`. `*` stands for the number
of an entry in a list of tables, such as `[[faults]]`. How fields work together:
[scenario files](../scenario_files.md), [world models](../world_models.md), [links](../links.md),
[faults](../faults.md), [algorithms](../algorithms.md)."""
_ALGORITHMS_HEAD = """# Algorithms by name

Every value of `algorithm`; `sheafedge algorithms NAME` prints the same. Equations, sources and choices:
[algorithms](../algorithms.md)."""
_COMMANDS_HEAD = """# Command line

Made from the program; `sheafedge COMMAND --help` prints the same. A mistake is answered with one sentence and exit
code 2 ([errors](../errors.md)).
"""
_VALUES = {int: "INTEGER", float: "NUMBER", Path: "PATH"}


def pages() -> dict[str, str]:
    """Place in the site -> text in Markdown."""
    return {
        "reference/fields.md": fields_page(),
        "reference/algorithms.md": algorithms_page(),
        "reference/command_line.md": command_line_page(),
        "reference/python.md": python_page(),
    }


def fields_page() -> str:
    """Every field of a scenario, a section per table."""
    lines = [_FIELDS_HEAD]
    fields = scenario_fields()
    tables = {"": "Top level", **{one.name: one.meaning for one in fields if one.is_table}}
    for table, meaning in tables.items():
        inside = [one for one in fields if not one.is_table and _table_of(one.name) == table]
        if inside:
            lines += ["", f"## {table or meaning}", "", *([f"{meaning}.", ""] if table else [])]
            lines += [
                '<div class="sheafedge-fields" markdown>',
                "",
                "| Field | Type | Default | Meaning |",
                "|---|---|---|---|",
            ]
            lines += [*map(_field_row, inside), "", "</div>"]
    return "\n".join(lines) + "\n"


def _table_of(name: str) -> str:
    """Table that holds a field; entries of a list of tables belong to the list."""
    return name.rpartition(".")[0].removesuffix(".*")


def _field_row(field: FieldEntry) -> str:
    name = field.name.rpartition(".")[2]
    kind = f"{field.type}, {field.unit}" if field.unit else field.type
    meaning = f"{field.meaning}. Valid: {field.valid}" if field.valid else field.meaning
    return f"| `{name}` | {cell(kind)} | {cell(f'`{field.default}`')} | {cell(meaning)} |"


def algorithms_page() -> str:
    """Every algorithm with what it sends, needs and reads."""
    return (
        "\n".join([_ALGORITHMS_HEAD, *(line for one in algorithm_entries() for line in _algorithm_lines(one))]) + "\n"
    )


def _algorithm_lines(one: AlgorithmEntry) -> Iterator[str]:
    yield from ["", f"## {one.name}", "", f"{one.summary}.", ""]
    yield f"- learns with {one.partners}" + (f"; sends {', '.join(one.sends)}" if one.sends else "; sends nothing")
    yield f"- trains {one.trains}"
    if one.needs:
        yield f"- needs {'; '.join(one.needs)}"
    if one.fields:
        yield f"- reads {', '.join(f'`{field}`' for field in one.fields)}"


def command_line_page() -> str:
    """All commands with their arguments and options."""
    root = typer.main.get_command(app)
    links = (f"[`{name}`](#sheafedge-{name.replace(' ', '-')})" for name in _commands(root))
    lines = [_COMMANDS_HEAD, " \u00b7 ".join(links)]
    for name, command in _commands(root).items():
        lines += ["", f"## sheafedge {name}", "", *_command_lines(name, command)]
    return "\n".join(lines) + "\n"


def _commands(group: Any, parents: str = "") -> dict[str, Any]:
    """All commands, those of groups under the names that are typed."""
    found: dict[str, Any] = {}
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            found |= _commands(command, f"{parents}{name} ")
        elif not command.hidden:
            found[f"{parents}{name}"] = command
    return found


def _command_lines(name: str, command: Any) -> Iterator[str]:
    if name in SUMMARIES:  # commands of devices, which have no typer: their own parser knows their options
        said = io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.suppress(SystemExit):
            run_command([name, "--help"], sheafedge.__version__)
        yield from [f"{SUMMARIES[name]}", "", "```", *said.getvalue().rstrip().splitlines(), "```"]
        return
    for text in (command.help, command.epilog):
        if text:
            yield from [*_prose(text), ""]
    options = [one for one in command.params if "--help" not in one.opts]
    if options:
        yield from ["| Argument or option | Meaning | Default |", "|---|---|---|", *map(_option_row, options)]


def _prose(text: str) -> Iterator[str]:
    """Paragraphs of a help text; lines of commands in it as code."""
    plain = re.sub(r"\[/?bold\]", "**", text.replace("\b\n", "").replace("\f", "")).replace("\\[", "[")
    for line in plain.splitlines():
        yield f"    {line.strip()}" if line.strip().startswith("sheafedge ") else line.strip()


def _option_row(option: Any) -> str:
    is_option = option.param_type_name == "option"
    takes = "" if not is_option or option.is_flag else f" {option.metavar or _value_of(option)}"
    names = ", ".join(f"`{name}{takes}`" for name in option.opts) if is_option else f"`{(option.name or '').upper()}`"
    default = option.default() if callable(option.default) else option.default
    shown = "" if default in (None, False, (), []) or "UNSET" in repr(default).upper() else f"`{default}`"
    needed = "required" if option.required else shown
    return f"| {names} | {cell(getattr(option, 'help', None) or '')} | {needed} |"


def _value_of(option: Any) -> str:
    """Word for the value of an option that names none itself."""
    annotation = option.type_descriptor.annotation
    return _VALUES.get((get_args(annotation) or (annotation,))[0], "TEXT")


def python_page() -> str:
    """Every public name of the package, by mkdocstrings."""
    lines = ["# Python interface", "", "Names of `import sheafedge`; nothing is imported before it is used.", ""]
    lines += _documented(sheafedge)
    lines += ["## sheafedge.plugins", "", "What a [plugin](../plugins.md) is made of.", ""]
    lines += _documented(plugins)
    return "\n".join(lines) + "\n"


def _documented(module: ModuleType) -> Iterator[str]:
    """Every class and function that a module names in `__all__`."""
    for name in module.__all__:
        found = getattr(module, name)
        if isinstance(found, type) or callable(found):
            place, heading = f"{found.__module__}.{found.__qualname__}", f"{module.__name__}.{name}"
            yield from [f"::: {place}", "    options:", f"      heading: {heading}", ""]


def cell(text: str) -> str:
    """Text for a cell of a table, in one line."""
    return " ".join(text.split()).replace("|", "\\|")
