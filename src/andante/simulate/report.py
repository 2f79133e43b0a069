"""The page of a campaign: one file of HTML with its plots in it, which asks nobody for anything when it is read."""

from __future__ import annotations

import platform
from dataclasses import replace
from html import escape
from importlib.resources import files
from itertools import accumulate
from math import inf
from typing import TYPE_CHECKING

from andante.simulate import report_tables as tables
from andante.simulate.profiles import profile
from andante.simulate.report_figures import Axis, Line, bars, from_zero, key, plot, ratios

if TYPE_CHECKING:
    from collections.abc import Sequence

    from andante.simulate.campaign import CellResult, Findings
    from andante.simulate.picture import Timeline
    from andante.simulate.report_tables import Table
    from andante.simulate.workload import ClientClass

_SHARE = Axis(0.0, 1.0, "served within objectives, %", percent=True)
_POINTS = 200
"""A distribution is drawn by at most so many points."""


def page(findings: Findings, *, command: str, version: str) -> str:
    """The report of `findings` as HTML.

    Args:
        findings: what was found.
        command: what was typed, for the foot.
        version: of andante, for the foot.
    """
    style = (files("andante.simulate") / "data" / "report.css").read_text("utf-8")
    campaign = findings.campaign
    opened = _opened(campaign.loads)
    parts = [
        _head(findings),
        _by_load(findings),
        *(_at(findings, load, opened=load == opened) for load in campaign.loads),
        _foot(findings, command, version),
    ]
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n<title>andante simulate</title>\n'
        f"<style>\n{style}</style>\n</head>\n<body>\n<main>\n" + "\n".join(parts) + "\n</main>\n</body>\n</html>\n"
    )


def _head(findings: Findings) -> str:
    campaign, capacity = findings.campaign, findings.capacity
    seeds = f"{len(campaign.seeds)} seeds" if len(campaign.seeds) > 1 else "one seed"
    left_out = f" {findings.left_out:,} calls are too long for this engine and left out." if findings.left_out else ""
    said = "".join(f"<li>{_unbroken(_shown(findings, load))}</li>" for load in campaign.loads)
    policies = "policies" if len(campaign.policies) > 1 else "policy"
    return (
        f"<h1>{len(campaign.policies)} {policies} before one engine</h1>\n"
        f"<p>{escape(campaign.arrivals.text)}, {seeds}, through each policy to the engine model "
        f"<code>{escape(campaign.profile)}</code> in virtual time. Load 1 is {capacity.rate:.2f} calls a second: what "
        f"this engine serves of these calls at most, with {capacity.concurrency} at once and no objective to keep."
        f"{left_out}</p>\n<ul>{said}</ul>"
    )


def _shown(findings: Findings, load: float) -> str:
    """Who serves most at a load, and how far the next one is."""
    spreads = [(p, tables.goodput(findings.of(p, load))) for p in findings.campaign.policies]
    (first, most), *others = sorted(spreads, key=lambda each: -each[1].mean)
    text = f"Load {load:.3g}: <b>{escape(first)}</b> serves {most.percent} % of the value in time"
    if not others:
        return text + "."
    second, less = others[0]
    if most.mean - less.mean < 0.01:
        tied = [escape(p) for p, s in others if most.mean - s.mean < 0.01]
        return f"{text}, as do {', '.join(tied)} (within a point)."
    overlap = " The seeds overlap." if less.most > most.least else ""
    return f"{text}; next is {escape(second)} with {less.percent} %.{overlap}"


def _unbroken(text: str) -> str:
    """No line begins with a sign that belongs to the number before."""
    return text.replace(" ± ", "\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}").replace(" %", "\N{NO-BREAK SPACE}%")


def _by_load(findings: Findings) -> str:
    campaign = findings.campaign
    plots = [_goodput(findings, "all, by value", None)]
    if len(campaign.clients) > 1:
        plots += [_goodput(findings, client.name, place) for place, client in enumerate(campaign.clients)]
    legend = _legend(campaign.policies, marked=True) if len(campaign.loads) > 1 else ""
    against = " against load" if len(campaign.loads) > 1 else ""
    return (
        f"<section>\n<h2>Goodput{against}</h2>\n<p>Calls that were served within their objectives, as a share of all "
        "that were offered. Refused calls and clients that left count against it. Whiskers: least and most of the "
        f"seeds.</p>\n{legend}<div class='plots four'>{''.join(plots)}</div>\n"
        f"{_table(tables.by_load(findings))}\n</section>"
    )


def _goodput(findings: Findings, name: str, place: int | None) -> str:
    campaign = findings.campaign

    def share(each: CellResult) -> float:
        return each.score.value if place is None else each.score.classes[place].goodput

    if len(campaign.loads) == 1:
        load = campaign.loads[0]
        spreads = [(p, tables.goodput(findings.of(p, load), share)) for p in campaign.policies]
        return bars([(p, s.mean, s.least, s.most) for p, s in spreads], _SHARE, title=name, width=340)
    lines = []
    for number, policy in enumerate(campaign.policies):
        points = [(load, tables.goodput(findings.of(policy, load), share)) for load in sorted(campaign.loads)]
        lines.append(
            Line(
                policy,
                [(load, s.mean) for load, s in points],
                number,
                marked=True,
                whiskers=[(load, s.least, s.most) for load, s in points],
            )
        )
    x = from_zero(campaign.loads, "load: offered / what the engine can serve")
    return plot(lines, x, _SHARE, title=name, width=340, height=240)


# One load. --------------------------------------------------------------------------------------------------------


def _opened(loads: Sequence[float]) -> float:
    """Of which load the details are unfolded: the smallest at or above 1.25, where policies begin to differ."""
    return min((load for load in loads if load >= 1.25), default=max(loads))


def _at(findings: Findings, load: float, *, opened: bool) -> str:
    campaign = findings.campaign
    seed = campaign.seeds[0]
    shown = {p: findings.of(p, load)[0] for p in campaign.policies}
    classes = "\n".join(_table(tables.of_class(findings, load, place)) for place in range(len(campaign.clients)))
    return (
        f"<details{' open' if opened else ''}>\n<summary><h2>Load {load:.3g}</h2></summary>\n"
        f"<h3>Over time</h3>\n<p>Seed {seed}. The scales of one column are the same for all policies.</p>\n"
        f"{_timelines({p: each.picture.timeline for p, each in shown.items()})}\n"
        f"<h3>How long it took</h3>\n<p>The share of all calls <em>offered</em>, over all seeds, that were so far "
        "within so long. A curve ends at the share that got so far at all: the rest was refused or left. Upright: the "
        f"objective. Gaps are means of a call.</p>\n{_legend(campaign.policies)}"
        f"<div class='plots'>{''.join(_distributions(findings, load))}</div>\n"
        f"<h3>In numbers</h3>\n{classes}\n<p class='small'>{escape(tables.EXPLAINED)}</p>\n</details>"
    )


def _timelines(shown: dict[str, Timeline]) -> str:
    lines = list(shown.values())
    width = lines[0].width
    x = Axis(0.0, width * len(lines[0].inside), "time, s")
    calls = from_zero((v for t in lines for v in (*t.inside, *t.waiting)), "calls")
    pace = from_zero((v for t in lines for v in (*_smooth(t.started), *_smooth(t.arrived))), "calls a second")
    waits = from_zero((v for t in lines for v in t.longest), "seconds waited")
    gone = from_zero((v for t in lines for v in (*_smooth(t.refused), *_smooth(t.left))), "calls a second")

    def over(values: Sequence[float | None]) -> list[tuple[float, float | None]]:
        return [((place + 0.5) * width, value) for place, value in enumerate(values)]

    out = []
    for name, t in shown.items():
        panels = (
            ("In flight", calls, (("in flight", t.inside, 0, False), ("waiting", t.waiting, 1, False))),
            ("Pace", pace, (("arriving", _smooth(t.arrived), 2, True), ("starting", _smooth(t.started), 0, False))),
            ("Waits of those that start", waits, (("longest", t.longest, 1, False), ("median", t.wait, 0, False))),
            ("Turned away", gone, (("refused", _smooth(t.refused), 0, False), ("left", _smooth(t.left), 1, False))),
        )
        cells = []
        for title, y, parts in panels:
            drawn = [Line(word, over(values), colour, faint=faint) for word, values, colour, faint in parts]
            keys = "".join(key(word, colour, faint=faint) for word, _, colour, faint in parts)
            picture = plot(drawn, x, y, title=title, width=330, height=200)
            cells.append(f"<div>{picture}<p class='legend'>{keys}</p></div>")
        out.append(f"<h4>{escape(name)}</h4>\n<div class='plots four'>{''.join(cells)}</div>")
    return "\n".join(out)


def _smooth(values: Sequence[float], over: int = 5) -> list[float]:
    """Means over `over` parts: counts of so few calls jump."""
    sums = [0.0, *accumulate(values)]
    half = over // 2
    spans = [(max(0, k - half), min(len(values), k + half + 1)) for k in range(len(values))]
    return [(sums[end] - sums[begin]) / (end - begin) for begin, end in spans]


def _distributions(findings: Findings, load: float) -> list[str]:
    campaign = findings.campaign
    plots = []
    for place, client in enumerate(campaign.clients):
        for what, label, goal in (
            ("ttft", "time to first token, s", client.ttft),
            ("itl", "gap between tokens, s", client.itl),
            ("e2e", "time to last token, s", client.e2e),
        ):
            lines = [
                Line(policy, _distribution(findings.of(policy, load), place, what), number)
                for number, policy in enumerate(campaign.policies)
            ]
            known = [at for line in lines for at, _ in line.points]
            if not known:
                continue
            x = ratios([*known, *([goal] if goal < inf else [])], label)
            lines = [replace(line, points=_to_the_end(line.points, x)) for line in lines]
            marks = [(goal, "objective")] if goal < inf else []
            share = Axis(0.0, 1.0, "of all offered, %", percent=True)
            plots.append(plot(lines, x, share, title=f"{client.name}: {_LONG[what]}", at=marks))
    return plots


def _to_the_end(points: Sequence[tuple[float, float | None]], x: Axis) -> Sequence[tuple[float, float | None]]:
    """Level after the last point: nobody else got so far, however long one waits."""
    return [*points, (x.high, points[-1][1])] if points else points


_LONG = {"ttft": "first token", "itl": "gap between tokens", "e2e": "whole answer"}


def _distribution(results: Sequence[CellResult], place: int, what: str) -> list[tuple[float, float | None]]:
    """Points (seconds, share of all offered that took at most so long), all seeds together."""
    times = [each.picture.times[place] for each in results]
    values = sorted(value for each in times for value in getattr(each, what))
    offered = sum(each.offered for each in times)
    count = len(values)
    ranks = sorted({round(k * (count - 1) / (_POINTS - 1)) for k in range(_POINTS)}) if count else []
    return [(values[rank], (rank + 1) / offered) for rank in ranks]


# Words. -----------------------------------------------------------------------------------------------------------


def _legend(policies: Sequence[str], *, marked: bool = False) -> str:
    keys = "".join(key(policy, number, marked=marked) for number, policy in enumerate(policies))
    return f"<p class='legend'>{keys}</p>\n"


def _table(table: Table) -> str:
    head = "".join(f"<th scope='col'>{escape(word)}</th>" for word in table.head)
    rows = []
    for number, (name, *cells) in enumerate(table.rows):
        best = " class='best'" if number in table.best and len(table.rows) > 1 else ""
        numbers = "".join(f"<td>{escape(cell)}</td>" for cell in cells)
        rows.append(f"<tr{best}><th scope='row'>{escape(name)}</th>{numbers}</tr>")
    return (
        f"<div class='wide'><table>\n<caption>{escape(table.title)}</caption>\n"
        f"<thead><tr>{head}</tr></thead>\n<tbody>{''.join(rows)}</tbody>\n</table></div>"
    )


def _foot(findings: Findings, command: str, version: str) -> str:
    campaign = findings.campaign
    engine = profile(campaign.profile)
    classes = "".join(f"<li>{escape(_client(client))}</li>" for client in campaign.clients)
    seeds = " ".join(str(seed) for seed in campaign.seeds)
    return (
        f"<footer>\n<h2>What was run</h2>\n<pre>{escape(command)}</pre>\n<dl>"
        f"<dt>inputs</dt><dd><code>{campaign.fingerprint}</code>: with the same digits and the same version come the "
        f"same figures</dd><dt>versions</dt><dd>andante {escape(version)}, Python {platform.python_version()}</dd>"
        f"<dt>seeds</dt><dd>{seeds}</dd><dt>engine</dt><dd><code>{escape(repr(engine))}</code></dd>"
        f"<dt>classes</dt><dd><ul>{classes}</ul></dd></dl>\n"
        "<p class='small'>A model of an engine, not an engine: compare policies on one profile, and do not believe "
        "absolute seconds.</p>\n</footer>"
    )


def _client(client: ClientClass) -> str:
    names = {
        "ttft": "first token within", "itl": "gap within", "e2e": "answer within",
        "leaves_without_first": "leaves without a token after", "leaves": "leaves after",
    }  # fmt: skip
    told = [f"{words} {getattr(client, name):g} s" for name, words in names.items() if getattr(client, name) < inf]
    return f"{client.name}: share {client.share:g}, value {client.value:g}" + "".join(f", {each}" for each in told)
