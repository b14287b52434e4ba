"""The benchmarks' own arithmetic: intervals, ratios, verdicts and the table."""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "bench"))

from lib import Contest, Failed, Goal, Metric, Subject, run_contest  # noqa: E402
from stats import Estimate, estimate, ratio  # noqa: E402
from table import render, to_json, verdict  # noqa: E402


def quiet(_text):
    pass


def constant(name, value, **kwargs):
    return Subject(name, lambda: value, **kwargs)


def contest(subjects, goals, **kwargs):
    return Contest("c", subjects, [Metric("m", "s", goals, **kwargs)], rounds=6)


def rows_by_name(a_contest):
    return {row.subject: row for row in run_contest(a_contest, None, quiet)}


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_few_values_have_a_range_and_no_interval(count):
    values = [float(v) for v in range(count)]
    assert estimate(values) == Estimate((count - 1) / 2, 0, count - 1, rounds=count)


@pytest.mark.parametrize(
    "count, low, high",
    # The textbook's order statistics for a 95 % interval of the median.
    [(6, 0, 5), (7, 0, 6), (8, 0, 7), (9, 1, 7), (12, 2, 9), (20, 5, 14), (30, 9, 20)],
)
def test_interval_of_a_median_is_made_of_order_statistics(count, low, high):
    values = [float(v) for v in reversed(range(count))]
    assert estimate(values) == Estimate((count - 1) / 2, low, high)


def test_ratio_pairs_the_rounds():
    # A machine that slows down tenfold midway changes both figures and not their ratio.
    assert ratio([2, 2, 20, 20], [1, 1, 10, 10]) == Estimate(2, 2, 2, rounds=4)


@pytest.mark.parametrize(
    "ours, theirs, goal, more_is_better, met",
    [
        (1, 100, Goal("peer", at_least=100), False, True),
        (1.1, 100, Goal("peer", at_least=100), False, False),
        (100, 1, Goal("peer", at_least=100), True, True),
        (90, 1, Goal("peer", at_least=100), True, False),
        (2.5, 1, Goal("peer", at_most=2.5), False, True),
        (2.6, 1, Goal("peer", at_most=2.5), False, False),
        (1.05, 1, Goal("peer", not_worse=True), False, True),
        (1.2, 1, Goal("peer", not_worse=True), False, False),
        (0.8, 1, Goal("peer", not_worse=True), True, False),
    ],
)
def test_goal_against_a_peer(ours, theirs, goal, more_is_better, met):
    rows = rows_by_name(
        contest([constant("ours", ours), constant("peer", theirs)], [goal], more_is_better=more_is_better)
    )
    assert rows["peer"].met is met
    assert rows["ours"].met is None


@pytest.mark.parametrize("rounds, met", [(5, False), (6, True)])
def test_few_rounds_that_overlap_do_not_show_that_we_are_not_worse(rounds, met):
    """A fifth worse, and once better: of six rounds the interval has that one in it, of five there is none."""
    figures = iter([0.9] + [1.2] * (rounds - 1))
    subjects = [Subject("ours", lambda: next(figures)), constant("peer", 1)]
    metric = Metric("m", "s", [Goal("peer", not_worse=True)])
    rows = run_contest(Contest("c", subjects, [metric], rounds=rounds, warm_ups=0), None, quiet)
    assert rows[1].met is met


def test_an_interval_of_few_rounds_says_so():
    subjects = [constant("ours", 1.0), constant("peer", 2.0)]
    few, many = (
        run_contest(Contest("c", subjects, [Metric("m", "s")], rounds=rounds), None, quiet) for rounds in (3, 6)
    )
    assert render(few).count("(3 rounds)") == 3 and "2 … 2 (3 rounds)" in render(few)
    assert "rounds)" not in render(many)
    assert [to_json(rows, {})["rows"][1]["ratio"]["level"] for rows in (few, many)] == [None, 0.95]


@pytest.mark.parametrize("value, more_is_better, met", [(9, False, True), (11, False, False), (11, True, True)])
def test_goal_for_our_own_figure(value, more_is_better, met):
    rows = rows_by_name(contest([constant("ours", value)], [Goal(limit=10)], more_is_better=more_is_better))
    assert rows["ours"].met is met


def test_absent_and_failed_subjects_are_named_and_not_judged():
    def fail():
        raise Failed("it fell over")

    goals = [Goal("gone", at_least=2), Goal("broken", at_least=2)]
    rows = run_contest(
        contest([constant("ours", 1), constant("gone", 1, absent="not installed"), Subject("broken", fail)], goals),
        None,
        quiet,
    )
    assert [row.met for row in rows] == [None, None, None]
    text = render(rows) + verdict(rows)
    assert "gone: absent: not installed" in text
    assert "broken: failed: it fell over" in text
    assert "2 goals: 0 met, 0 missed, 2 not judged" in text


def test_subjects_take_turns_within_a_round_and_change_places_from_round_to_round():
    turns = []
    subjects = [
        Subject("a", lambda: turns.append("a") or 1.0, per_round=2),
        Subject("b", lambda: turns.append("b") or 1.0),
    ]
    run_contest(Contest("c", subjects, [Metric("m", "s")], rounds=3, warm_ups=0), None, quiet)
    assert "".join(turns) == "ababaaaba"


def test_several_metrics_of_one_measurement():
    subjects = [Subject("ours", lambda: {"cpu": 1e-6, "rate": 2e6}), Subject("peer", lambda: {"cpu": 2e-6, "rate": 1e6})]
    metrics = [
        Metric("cpu", "s", [Goal("peer", at_most=0.67)]),
        Metric("rate", "/s", [Goal("peer", at_least=1.5)], more_is_better=True),
    ]
    rows = run_contest(Contest("store", subjects, metrics, rounds=3), None, quiet)
    assert [row.met for row in rows] == [None, True, None, True]
    text = render(rows)
    assert "1 µs" in text and "2 M/s" in text and "0.5×" in text
    written = to_json(rows, {"machine": "here"})
    assert written["rows"][1]["ratio"]["median"] == 0.5
    assert written["rows"][1]["rounds"] == [2e-6] * 3
