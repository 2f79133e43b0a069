"""What `andante simulate` prints: tables for people, JSON for programs."""

from __future__ import annotations

from dataclasses import asdict
from math import isinf
from typing import TYPE_CHECKING, Any

from andante.simulate import report_tables as tables
from andante.simulate.profiles import profile

if TYPE_CHECKING:
    from andante.simulate.campaign import CellResult, Findings
    from andante.simulate.report_tables import Table


def as_text(findings: Findings, *, html: str | None = None, colour: bool = False) -> str:
    """The tables. Of several loads, the last one's classes are shown; `html` is the page that was written."""
    campaign = findings.campaign
    last = campaign.loads[-1]
    seeds = ", ".join(str(seed) for seed in campaign.seeds)
    left_out = f"; {findings.left_out:,} calls are too long for this engine" if findings.left_out else ""
    head = (
        f"{campaign.arrivals.text}; seed{'s' if len(campaign.seeds) > 1 else ''} {seeds}{left_out}\n"
        f"engine model {campaign.profile}, virtual time: load 1 is {findings.capacity.rate:.2f} calls/s; "
        f"inputs {campaign.fingerprint}"
    )
    parts = [
        head,
        _text(tables.by_load(findings), colour),
        *(_text(tables.of_class(findings, last, place), colour) for place in range(len(campaign.clients))),
    ]
    if len(campaign.loads) > 1:
        parts.append("The other loads by class: --html FILE or --json." if html is None else f"All loads: {html}")
    elif html is not None:
        parts.append(f"Plots: {html}")
    return "\n\n".join(parts)


def _text(table: Table, colour: bool) -> str:
    widths = [max(len(row[k]) for row in (table.head, *table.rows)) for k in range(len(table.head))]

    def line(cells: tuple[str, ...]) -> str:
        first, *rest = zip(cells, widths, strict=True)
        return f"  {first[0]:<{first[1]}}" + "".join(f"  {cell:>{width}}" for cell, width in rest)

    lines = [_in("1", table.title, colour), _in("2", line(table.head), colour)]
    for number, row in enumerate(table.rows):
        strong = colour and number in table.best and len(table.rows) > 1
        lines.append(_in("1;32", line(row), strong))
    return "\n".join(lines)


def _in(code: str, text: str, colour: bool) -> str:
    return f"\x1b[{code}m{text}\x1b[0m" if colour else text


def as_json(findings: Findings, version: str) -> dict[str, Any]:
    """Every figure of every replay, in JSON's types; times in seconds, None where there is nothing to measure."""
    campaign, capacity = findings.campaign, findings.capacity
    return {
        "version": version,
        "inputs": campaign.fingerprint,
        "arrivals": campaign.arrivals.text,
        "left_out": findings.left_out,
        "profile": {"name": campaign.profile, **asdict(profile(campaign.profile))},
        "capacity": {"rate": capacity.rate, "concurrency": capacity.concurrency},
        "classes": [_finite(asdict(client)) for client in campaign.clients],
        "policies": list(campaign.policies),
        "loads": list(campaign.loads),
        "seeds": list(campaign.seeds),
        "tells": campaign.tells,
        "goodput": {
            policy: [_goodput(findings, policy, load) for load in campaign.loads] for policy in campaign.policies
        },
        "cells": [_cell(result) for result in findings.results],
    }


def _goodput(findings: Findings, policy: str, load: float) -> dict[str, float]:
    spread = tables.goodput(findings.of(policy, load))
    return {"load": load, "mean": spread.mean, "least": spread.least, "most": spread.most}


def _cell(result: CellResult) -> dict[str, Any]:
    score = result.score
    classes = {
        each.name: asdict(each) | {"fairness": asdict(fair)}
        for each, fair in zip(score.classes, score.fairness, strict=True)
    }
    return asdict(result.cell) | {
        "goodput": score.value,
        "total": asdict(score.total),
        "classes": classes,
        "settled": list(result.settled),
        "preemptions": score.preemptions,
        "seconds": score.seconds,
    }


def _finite(values: dict[str, Any]) -> dict[str, Any]:
    return {name: None if isinstance(value, float) and isinf(value) else value for name, value in values.items()}
