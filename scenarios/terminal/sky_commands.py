"""`calibrate sky`: compares our sky with published measurements. Heavy imports wait until the command runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from ..calibration.sky_calibration import SkyFigures

#: Predictor -> its name in the tables, where the two differ.
NAMES = {"gps": "GPS", "neighbors": "GPS neighbors", "persistence": "last beam", "majority": "most frequent"}


def calibrate_sky_command(
    sites: Annotated[int, typer.Option(min=1, help="Number of base stations, evaluated one by one.")] = 3,
    minutes: Annotated[float, typer.Option(min=10.0, help="Recorded time per base station.")] = 30.0,
    seed: Annotated[int, typer.Option(min=0, help="Seed of worlds, splits and models.")] = 0,
    plot: Annotated[
        Optional[Path],  # noqa: UP045 - typer reads this annotation at run time
        typer.Option(metavar="FILE.png", help="Plot the results."),
    ] = None,
) -> None:
    """Predict the best beam of a drone from images and positions, and compare with published measurements."""
    import torch
    from rich.console import Console

    from ...emulator.contracts import ConfigError
    from ..calibration.sky_calibration import SkyStudy, calibrate_sky

    if plot is not None and not plot.parent.is_dir():
        raise ConfigError(f"--plot {plot} lies in a folder that does not exist; make {plot.parent} first")
    study = SkyStudy(n_sites=sites, minutes=minutes, seed=seed)
    console = Console()
    torch.set_num_threads(1)  # last digits depend on the number of threads

    def report_site(done: int, of: int) -> None:
        console.print(f"base station {done} of {of} done", highlight=False)

    figures = calibrate_sky(study, progress=report_site)
    print_sky_figures(console, figures)
    if plot is None:
        return
    try:
        from ...emulator.whole_file import replacing
        from ..calibration.sky_pictures import draw_sky_figures

        with replacing(plot) as partial:
            draw_sky_figures(figures).savefig(partial, dpi=110)
    except ModuleNotFoundError as error:
        raise ConfigError(f"plots need {error.name}; install it, or leave out --plot") from None
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot write --plot {plot} ({error}); name a .png file that can be written") from None
    console.print(f"wrote {plot}", soft_wrap=True, highlight=False)


def print_sky_figures(console: Console, figures: SkyFigures) -> None:
    """Prints tables of top-1 and top-3 accuracy, of beam persistence, and of the effect of GPS error."""
    for table in (_beam_table(figures), _lasting_table(figures), _noise_table(figures)):
        console.print(table)


def _beam_table(figures: SkyFigures) -> Table:
    from ..calibration.published_figures import PUBLISHED_TOP1
    from ..calibration.sky_calibration import PREDICTORS, SPLITS

    table = _table(
        "best of 32 beams: mean ± standard deviation over base stations, %",
        ("held out", "input", "top-1", "published", "top-3", "published"),
        n_texts=2,
    )
    for split in SPLITS:
        for predictor in PREDICTORS:
            published = PUBLISHED_TOP1.get((split, predictor), ())
            table.add_row(
                split,
                NAMES.get(predictor, predictor),
                _percent(figures.top(split, predictor)),
                ", ".join(f"{100 * one.top1:.1f}" for one in published) or "-",
                _percent(figures.top(split, predictor, 3)),
                ", ".join(f"{100 * one.top3:.1f}" for one in published if one.top3 is not None) or "-",
            )
        table.add_section()
    return table


def _lasting_table(figures: SkyFigures) -> Table:
    from ..calibration.published_figures import PUBLISHED_PERSISTENCE
    from ..calibration.sky_calibration import LAGS

    table = _table(
        "beam persistence: share of best beams that are still the best after so many frames, %",
        ("frames", "ours", "published"),
    )
    for lag in LAGS:
        table.add_row(str(lag), _percent(figures.persistence(lag)), f"{100 * PUBLISHED_PERSISTENCE[lag]:.1f}")
    return table


def _noise_table(figures: SkyFigures) -> Table:
    table = _table(
        "top-1 on held-out flights against GPS error, %",
        ("drifting GPS error [m]", "image", "GPS", "both", "GPS neighbors"),
    )
    for point in figures.noise:
        values = [f"{100 * point.top1[name]:.1f}" for name in ("image", "gps", "both", "neighbors")]
        table.add_row(f"{point.bias_m:g}" if point.bias_m else "RTK", *values)
    return table


def _table(title: str, columns: tuple[str, ...], n_texts: int = 0) -> Table:
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    for number, name in enumerate(columns):
        table.add_column(name, justify="left" if number < n_texts else "right")
    return table


def _percent(mean_and_std: tuple[float, float]) -> str:
    mean, std = mean_and_std
    return f"{100 * mean:.1f} ± {100 * std:.1f}"
