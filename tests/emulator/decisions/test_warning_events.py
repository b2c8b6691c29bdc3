"""From answers to events: what counts as predicted in time, how long ahead, and which alarms were false."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sheafedge.emulator.decisions.warning_events import (
    WarningEvents,
    WarningRecord,
    onset_frames,
    together,
    warning_events,
)

PERIOD_S = 0.1
HORIZON = 3
ROUNDING_S = 1e-9  # instants are sums of tenths


def watch(
    blocked: str,
    answers: str,
    *,
    begins: Sequence[int] = (0,),
    delay_s: float | Sequence[float] = 0.0,
    needed_s: float = 0.0,
) -> WarningRecord:
    """Frames as text: `#` blocked, `.` clear; `!` warned, `-` not warned, a blank: no answer."""
    assert len(blocked) == len(answers)
    n = len(blocked)
    state = np.array([one == "#" for one in blocked], dtype=np.bool_)
    starts = np.isin(np.arange(n), list(begins))
    return WarningRecord(
        time_s=np.arange(n) * PERIOD_S,
        blocked=state,
        begins=starts,
        soon=np.array([state[i + 1 : i + 1 + HORIZON].any() for i in range(n)], dtype=np.bool_),
        answered=np.array([one != " " for one in answers], dtype=np.bool_),
        warned=np.array([one == "!" for one in answers], dtype=np.bool_),
        delay_s=np.broadcast_to(np.asarray(delay_s, dtype=np.float64), (n,)),
        horizon_s=HORIZON * PERIOD_S,
        needed_s=needed_s,
    )


def only_onset(seen: WarningEvents) -> tuple[str, float, float]:
    (onset,) = seen.onsets
    return onset.outcome, onset.lead_s, onset.usable_s


def test_the_lead_is_counted_from_the_first_warning_of_the_series_that_reaches_the_onset() -> None:
    seen = warning_events(watch("........##", "--!!-!!!!!"))
    assert only_onset(seen) == ("in_time", pytest.approx(3 * PERIOD_S), pytest.approx(3 * PERIOD_S))


def test_a_warning_that_was_taken_back_foretells_nothing() -> None:
    assert only_onset(warning_events(watch("......##", "--!!!---")))[0] == "missed"


def test_a_lost_answer_does_not_break_a_series_and_a_silence_of_more_than_the_horizon_does() -> None:
    fate, lead_s, _ = only_onset(warning_events(watch("........##", "--!  !!!!!")))
    assert (fate, lead_s) == ("in_time", pytest.approx(6 * PERIOD_S))
    fate, lead_s, _ = only_onset(warning_events(watch(".........##", "--!    !!!!")))
    assert (fate, lead_s) == ("in_time", pytest.approx(2 * PERIOD_S))


def test_an_old_answer_says_nothing_about_an_onset_beyond_its_horizon() -> None:
    assert only_onset(warning_events(watch("......##", "-!!    !")))[0] == "unanswered"
    assert only_onset(warning_events(watch("......##", "-!!!   !")))[0] == "in_time"


def test_an_onset_before_the_first_answer_is_unanswered() -> None:
    assert only_onset(warning_events(watch("..##", "  !!")))[0] == "unanswered"


def test_an_answer_that_comes_after_the_onset_is_too_late_and_the_first_to_arrive_decides() -> None:
    assert only_onset(warning_events(watch("....##", "--!!!!", delay_s=0.25)))[0] == "late"
    assert only_onset(warning_events(watch("....##", "--!!!!", delay_s=0.2)))[::2] == ("late", 0.0)  # at the very onset
    delays = [0.0, 0.0, 0.25, 0.05, 0.0, 0.0]  # the second warning is there before the first
    fate, lead_s, usable_s = only_onset(warning_events(watch("....##", "--!!!!", delay_s=delays)))
    assert (fate, lead_s, usable_s) == ("in_time", pytest.approx(0.2), pytest.approx(0.05))


@pytest.mark.parametrize(("delay_s", "outcome"), [(0.02, "in_time"), (0.021, "late")])
def test_a_warning_is_late_when_less_is_left_than_the_user_needs_to_act(delay_s: float, outcome: str) -> None:
    """The frame before the blockage is 100 ms ahead of it; 80 ms are needed."""
    seen = warning_events(watch("......##", "-----!!!", delay_s=delay_s, needed_s=0.08))
    assert only_onset(seen)[0] == outcome
    assert only_onset(seen)[2] == pytest.approx(0.1 - delay_s)


def test_an_onset_is_a_blocked_frame_after_a_clear_one() -> None:
    blocked = np.array([letter == "#" for letter in "##..###.#"])
    assert onset_frames(blocked, np.arange(9) == 0).tolist() == [4, 8]
    assert onset_frames(blocked, np.isin(np.arange(9), [0, 8])).tolist() == [4]


def test_without_a_clock_nothing_is_late() -> None:
    fate, lead_s, usable_s = only_onset(warning_events(watch("....##", "--!!!!", delay_s=np.nan)))
    assert (fate, lead_s) == ("in_time", pytest.approx(0.2))
    assert np.isnan(usable_s)


def test_an_alarm_that_stood_for_longer_than_the_horizon_is_told() -> None:
    assert warning_events(watch(".....##", "--!!!!!")).n_beyond_horizon == 0
    assert warning_events(watch(".....##", "-!!!!!!")).n_beyond_horizon == 1
    assert warning_events(watch(".....##", "-!!!---")).n_beyond_horizon == 0


def test_warnings_of_the_blockage_before_do_not_count_for_the_next() -> None:
    seen = warning_events(watch("..##..##", "!!!!!!!!"))
    assert [onset.lead_s for onset in seen.onsets] == [pytest.approx(0.2), pytest.approx(0.2)]
    seen = warning_events(watch("..##..##", "!!!! -!!"))
    assert [onset.outcome for onset in seen.onsets] == ["in_time", "missed"]


def test_a_stretch_that_begins_blocked_has_no_onset_and_series_do_not_cross_stretches() -> None:
    seen = warning_events(watch("...##..##", "-!!!!!!!!", begins=(0, 3)))
    assert [onset.at_s for onset in seen.onsets] == [pytest.approx(0.7)]
    seen = warning_events(watch(".......##", "-!!!!!!!!", begins=(0, 5)))
    assert only_onset(seen)[1] == pytest.approx(2 * PERIOD_S)


def test_an_alarm_is_false_if_none_of_its_warnings_was_followed_by_a_blockage_within_the_horizon() -> None:
    #                       label of the last three clear frames before ## is 1
    seen = warning_events(watch(".........##......", "-!!-!!---!!--!---"))
    assert (seen.n_alarms, seen.n_false_alarms) == (3, 3)
    assert seen.n("missed") == 1
    seen = warning_events(watch(".........##......", "-!!-!!!!!!!--!---"))
    assert (seen.n_alarms, seen.n_false_alarms) == (3, 2)
    assert seen.clear_s == pytest.approx(15 * PERIOD_S)
    assert seen.false_alarms_per_min == pytest.approx(60 * 2 / 1.5)


def test_a_device_that_answers_few_frames_watches_all_between_them_up_to_the_horizon() -> None:
    assert warning_events(watch("............", "-  -  -  -  ")).clear_s == pytest.approx(12 * PERIOD_S)
    assert warning_events(watch("............", "-           ")).clear_s == pytest.approx(HORIZON * PERIOD_S)
    assert warning_events(watch("....##......", "-     -     ")).clear_s == pytest.approx(2 * HORIZON * PERIOD_S)


def test_an_answer_holds_neither_beyond_its_stretch_nor_beyond_a_blockage() -> None:
    assert warning_events(watch("......", "  -   ")).clear_s == pytest.approx(3 * PERIOD_S)
    assert warning_events(watch("......", "  -   ", begins=(0, 3))).clear_s == pytest.approx(PERIOD_S)
    assert warning_events(watch("...#..", "  -   ")).clear_s == pytest.approx(PERIOD_S)
    assert only_onset(warning_events(watch("..#.", "!!  ")))[0] == "in_time"
    both = warning_events(watch(".#.#", "!   "))
    assert [onset.outcome for onset in both.onsets] == ["in_time", "unanswered"]


def test_a_rest_between_two_stretches_is_no_watched_time() -> None:
    record = watch("......", "------", begins=(0, 3))
    rested = replace(record, time_s=record.time_s + np.where(np.arange(6) < 3, 0.0, 60.0))
    assert warning_events(rested).clear_s == pytest.approx(6 * PERIOD_S)


def test_base_stations_are_counted_together() -> None:
    both = together([warning_events(watch("....##", "--!!!!")), warning_events(watch("..##..", "-----!"))])
    assert [onset.outcome for onset in both.onsets] == ["missed", "in_time"]
    assert (both.n_alarms, both.n_false_alarms) == (2, 1)
    assert both.clear_s == pytest.approx(8 * PERIOD_S)


def test_nothing_known_is_no_event() -> None:
    nothing = warning_events(watch("", "", begins=()))
    assert nothing == WarningEvents((), 0, 0, 0.0)
    assert nothing.false_alarms_per_min == 0.0


states = st.lists(st.sampled_from("...#"), min_size=1, max_size=60).map("".join)


@given(blocked=states, draws=st.randoms(use_true_random=False))
def test_every_onset_has_one_fate_as_somebody_finds_who_reads_frame_by_frame(blocked: str, draws: object) -> None:
    answers = "".join(draws.choice("!!- ") for _ in blocked)  # type: ignore[attr-defined]
    begins = sorted({0, *(draws.randrange(len(blocked)) for _ in range(2))})  # type: ignore[attr-defined]
    seen = warning_events(watch(blocked, answers, begins=begins))
    found = [(onset.at_s, onset.outcome, onset.lead_s) for onset in seen.onsets]
    expected = read_frame_by_frame(blocked, answers, begins)
    assert [fate for _, fate, _ in found] == [fate for _, fate, _ in expected]
    np.testing.assert_allclose([(at, lead) for at, _, lead in found], [(at, lead) for at, _, lead in expected])


def read_frame_by_frame(blocked: str, answers: str, begins: Sequence[int]) -> list[tuple[float, str, float]]:
    """The same, slowly: a person who keeps a note of when the present series of warnings began."""
    events: list[tuple[float, str, float]] = []
    since: float | None = None  # first warning of the series
    last: tuple[float, bool] | None = None  # newest answer in clear sight
    for i, (state, answer) in enumerate(zip(blocked, answers, strict=True)):
        now_s = i * PERIOD_S
        if i in begins:
            since, last = None, None
        elif state == "#" and blocked[i - 1] == ".":
            if last is None or now_s - last[0] > HORIZON * PERIOD_S + ROUNDING_S:
                events.append((now_s, "unanswered", 0.0))
            elif not last[1] or since is None:
                events.append((now_s, "missed", 0.0))
            else:
                events.append((now_s, "in_time", now_s - since))
        if state == "#":
            since, last = None, None
        elif answer != " ":
            silent = last is not None and now_s - last[0] > HORIZON * PERIOD_S + ROUNDING_S
            goes_on = answer == "!" and since is not None and not silent
            since = since if goes_on else (now_s if answer == "!" else None)
            last = now_s, answer == "!"
    return events


@given(blocked=states)
def test_whoever_knows_the_future_foretells_every_onset_a_horizon_ahead_and_raises_no_false_alarm(blocked: str) -> None:
    silent = watch(blocked, "-" * len(blocked))
    knowing = watch(blocked, "".join("!" if soon else "-" for soon in silent.soon))
    seen = warning_events(knowing)
    assert seen.n_false_alarms == 0
    assert seen.n("in_time") == len(seen.onsets)
    for onset in seen.onsets:
        clear_before = len(blocked[: round(onset.at_s / PERIOD_S)]) - len(
            blocked[: round(onset.at_s / PERIOD_S)].rstrip(".")
        )
        assert onset.lead_s == pytest.approx(min(HORIZON, clear_before) * PERIOD_S)
    never = warning_events(silent)
    assert never.n("missed") == len(never.onsets)
    assert never.n_alarms == 0
