"""`scenarios`, `show`, `algorithms` and `fields`: what a scenario can say, printed from the code that checks it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Optional

import typer

from .command_panels import RUN, examples
from .completion import complete_algorithm, complete_assignment, complete_field, complete_scenario
from .shared_options import PLUGIN, TRUST, load_wanted

if TYPE_CHECKING:
    from rich.console import Console

    from ..catalog.field_catalog import FieldEntry


def add_lookup_commands(app: typer.Typer) -> None:
    """Registration of `scenarios`, `show`, `algorithms` and `fields` with the command line."""
    app.command("scenarios", rich_help_panel=RUN)(scenarios)
    app.command(
        "show",
        rich_help_panel=RUN,
        epilog=examples(
            "sheafedge show blockage", "sheafedge show my_scenario.toml --set rounds=40", "sheafedge show digits --all"
        ),
    )(show)
    app.command(
        "algorithms",
        rich_help_panel=RUN,
        epilog=examples("sheafedge algorithms", "sheafedge algorithms sheaf_dmfl_att"),
    )(algorithms)
    app.command(
        "fields",
        rich_help_panel=RUN,
        epilog=examples("sheafedge fields", "sheafedge fields link", "sheafedge fields world.street.speed"),
    )(fields)


def scenarios() -> None:
    """List the scenarios that come with sheafedge."""
    from ..schema.scenario import load_scenario, shipped_scenarios
    from .console_elements import print_list, standard_console

    print_list(standard_console(), [(name, load_scenario(name).summary) for name in shipped_scenarios()])


def show(
    scenario: Annotated[
        str, typer.Argument(help="Name of a shipped scenario, or a TOML file.", autocompletion=complete_scenario)
    ],
    set_: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option("--set", metavar="KEY=VALUE", help="Set a field; repeatable.", autocompletion=complete_assignment),
    ] = None,
    all_: Annotated[
        bool, typer.Option("--all", help="Show the fields that nobody set, too, with their defaults.")
    ] = False,
    plugin: Annotated[Optional[list[str]], PLUGIN] = None,  # noqa: UP045
    trust_plugins: Annotated[bool, TRUST] = False,
) -> None:
    """Print what a scenario comes down to as TOML, and where every value comes from."""
    from ..scenario_files.annotated_toml import annotated_toml, set_tables
    from ..schema.scenario import parse_assignment, scenario_layers, scenario_of

    load_wanted(plugin, trusted=scenario if trust_plugins else None)
    layers = scenario_layers(scenario)
    edits = dict(parse_assignment(text) for text in set_ or [])
    tables = scenario_of(layers).edited(edits).tables()

    def edited(key: str) -> bool:
        return any(key == one or key.startswith(f"{one}.") for one in edits)

    def origin(key: str) -> str:
        if edited(key):
            return "--set"
        if not layers.sets(key):
            return "default" if key != "name" else "name of the file"
        place = layers.place_of(key)
        return "" if place is None else f"{place.path.name}:{place.line}"

    shown = tables if all_ else set_tables(tables, lambda key: edited(key) or layers.sets(key) or key == "name")
    typer.echo(annotated_toml(shown, origin), nl=False)


def algorithms(
    name: Annotated[
        Optional[str],  # noqa: UP045 - typer reads this annotation at run time
        typer.Argument(help="Describe this algorithm; default: list all.", autocompletion=complete_algorithm),
    ] = None,
    plugin: Annotated[Optional[list[str]], PLUGIN] = None,  # noqa: UP045
) -> None:
    """List the algorithms, or describe one: with whom clients learn, what they send, which fields it reads."""
    from ..catalog.algorithm_catalog import algorithm_entries, algorithm_entry
    from .console_elements import print_facts, print_list, standard_console

    load_wanted(plugin)
    console = standard_console()
    if name is None:
        print_list(console, [(one.name, f"{one.summary} (with {one.partners})") for one in algorithm_entries()])
        return
    found = algorithm_entry(name)
    facts = {
        found.name: found.summary,
        "learns with": found.partners,
        "sends": ", ".join(found.sends) or "nothing",
        "trains": found.trains,
        "needs": "; ".join(found.needs) or "nothing beyond its task",
        "reads": "; ".join(found.fields) or "no fields of its own",
        "try": f"sheafedge run blockage --set algorithm={found.name}",
    }
    print_facts(console, facts, whole=["try"])


def fields(
    prefix: Annotated[
        str,
        typer.Argument(
            help="Beginning of a dotted name, such as link or clients.groups; default: all tables.",
            autocompletion=complete_field,
        ),
    ] = "",
    plugin: Annotated[Optional[list[str]], PLUGIN] = None,  # noqa: UP045
) -> None:
    """Describe fields of a scenario: type, default, unit, meaning and valid values."""
    from ..catalog.field_catalog import fields_below, scenario_fields
    from .console_elements import print_list, standard_console

    load_wanted(plugin)
    console = standard_console()
    if prefix:
        _print_fields(console, fields_below(prefix))
        return
    known = scenario_fields()
    _print_fields(console, [one for one in known if "." not in one.name and not one.is_table])
    tables = [one for one in known if one.is_table and one.name.count(".") <= 1 and "*" not in one.name]
    if console.is_terminal:
        console.print("\n[bold]tables[/bold], described by sheafedge fields TABLE")
        print_list(console, [(one.name, one.meaning) for one in tables])
    else:
        _print_fields(console, tables)


def _print_fields(console: Console, found: list[FieldEntry] | tuple[FieldEntry, ...]) -> None:
    """Prints a paragraph per field; without a terminal one line each."""
    from rich.padding import Padding
    from rich.text import Text

    for one in found:
        if not console.is_terminal:
            console.print(f"{one.name}: {_kind(one)}; {one.meaning}", soft_wrap=True, markup=False)
            continue
        kind, fits = _kind(one), len(one.name) + 2 + len(_kind(one)) <= console.width
        console.print(Text.assemble((one.name, "bold"), "  ", (kind if fits else "", "dim")))
        for text, style in ([] if fits else [(kind, "dim")]) + [(one.meaning, "")]:
            console.print(Padding(Text(text, style), (0, 0, 0, 4)))


def _kind(one: FieldEntry) -> str:
    """Type, unit, valid values and default of a field in one line."""
    if one.is_table:
        return one.type
    default = one.default if one.default in ("required", "not set") else f"default {one.default}"
    is_list = '", "' in one.valid or one.valid.count(", ") > 1
    values = f"one of {one.valid.removeprefix('one of ')}" if is_list else one.valid
    return ", ".join(filter(None, [one.type + (f" in {one.unit}" if one.unit else ""), default, values]))
