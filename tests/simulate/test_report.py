"""The page of a campaign, and its tables: whole, alone, escaped, and with the figures that were found."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pytest

from andante.simulate import campaign as campaigns
from andante.simulate import report_tables as tables
from andante.simulate.arrivals import Drawn, OfTrace
from andante.simulate.campaign import Campaign, Findings, run
from andante.simulate.mixes import mix
from andante.simulate.report import page
from andante.simulate.traces import poisson

if TYPE_CHECKING:
    from collections.abc import Iterator

CHAT = mix("chat")
VOID = {"meta", "br"}


@pytest.fixture(scope="module", autouse=True)
def _few() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(campaigns, "CONCURRENCIES", (16, 128))
        yield


@pytest.fixture(scope="module")
def findings() -> Findings:
    asked = Campaign(
        ("none", "static:16"), Drawn(CHAT, 120.0, "steps"), loads=(0.5, 1.5), seeds=(1, 2), profile="rtx4090-8b"
    )
    return run(asked)


@pytest.fixture(scope="module")
def text(findings: Findings) -> str:
    return page(findings, command="andante simulate --compare 'a <b>'", version="9.9")


class Whole(HTMLParser):
    """Sees that every tag is closed, in order, and what the page refers to."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.references: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        self.references += [f"{name}={value}" for name, value in attrs if name in {"src", "href", "srcset", "data"}]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_it_is_whole_and_alone(text: str) -> None:
    """Every tag is closed, every drawing is well-formed, and nothing comes from elsewhere: no script, no reference."""
    parser = Whole()
    parser.feed(text)
    parser.close()
    assert not parser.open
    assert not parser.references
    assert not {"script", "link", "img", "iframe", "object"} & set(parser.seen)
    assert not re.search(r"https?:|//\w|url\(|@import", text)
    drawings = re.findall(r"<svg.*?</svg>", text, re.DOTALL)
    assert len(drawings) > 40
    for drawing in drawings:
        ET.fromstring(drawing)
    assert "None" not in text
    assert "nan" not in re.sub(r"\w*nan\w+|\w+nan\w*", "", text)


def test_what_it_shows(text: str) -> None:
    """Goodput against load for all and each class; for each load timelines of each policy, distributions, tables."""
    titles = re.findall(r'<text class="title"[^>]*>([^<]*)</text>', text)
    assert titles[:4] == ["all, by value", "interactive", "standard", "batch"]
    for word in ("In flight", "Pace", "Waits of those that start", "Turned away"):
        assert titles.count(word) == 4, "two loads, two policies"
    for name in ("interactive", "standard", "batch"):
        for what in ("first token", "gap between tokens", "whole answer"):
            assert titles.count(f"{name}: {what}") == 2
    labels = set(re.findall(r'<text class="label"[^>]*>([^<]*)</text>', text))
    assert labels == {
        "load: offered / what the engine can serve", "served within objectives, %", "time, s", "calls",
        "calls a second", "seconds waited", "time to first token, s", "gap between tokens, s", "time to last token, s",
        "of all offered, %",
    }  # fmt: skip
    assert text.count("<details open>") == 1
    assert text.count("<details>") == 1
    assert "prefers-color-scheme: dark" in text


def test_the_foot_says_what_was_run(text: str, findings: Findings) -> None:
    """Command, versions, seeds, engine, classes, and the digits of all inputs."""
    foot = unescape(text[text.index("<footer>") :])
    for word in (
        "andante simulate --compare 'a <b>'", "andante 9.9", f"Python {sys.version_info.major}.", "<dd>1 2</dd>",
        findings.campaign.fingerprint, "EngineProfile(a=16.5", "interactive: share 50, value 3, first token within 1 s",
    ):  # fmt: skip
        assert word in foot


def test_the_same_findings_make_the_same_page(text: str, findings: Findings) -> None:
    """No date, no chance."""
    assert page(findings, command="andante simulate --compare 'a <b>'", version="9.9") == text


def test_names_are_escaped(findings: Findings) -> None:
    """A name that looks like markup is shown, not obeyed."""
    nasty = '<script>alert("x")</script>&'
    results = tuple(
        replace(each, cell=replace(each.cell, policy=nasty)) if each.cell.policy == "none" else each
        for each in findings.results
    )
    renamed = replace(findings, campaign=replace(findings.campaign, policies=(nasty, "static:16")), results=results)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Campaign, "fingerprint", "0" * 12)
        shown = page(renamed, command=nasty, version="1")
    assert "<script" not in shown
    parser = Whole()
    parser.feed(shown)
    assert not parser.open


def test_one_load_is_bars() -> None:
    """With a single load there is no line to draw: bars, and the words say nothing of loads."""
    found = run(Campaign(("none", "static:4"), OfTrace(poisson(3.0, 15.0, seed=1), tuple(c for c, _ in CHAT))))
    shown = page(found, command="x", version="1")
    assert "<rect" in shown
    assert "<h2>Goodput</h2>" in shown
    assert "ones seed" not in shown
    assert "one seed" in shown


def test_the_table_by_load(findings: Findings) -> None:
    """Means over seeds, half the range, and the best in bold; on the page as well."""
    table = tables.by_load(findings)
    assert table.head == ("policy", "load 0.5", "load 1.5", "mean")
    values = [each.score.value for each in findings.of("none", 1.5)]
    assert table.rows[0][2] == f"{50 * sum(values):.1f} ± {50 * abs(values[0] - values[1]):.1f}"
    means = [float(row[3]) for row in table.rows]
    assert means.index(max(means)) in table.best
    shown = page(findings, command="x", version="1")
    assert all(f"<td>{cell}</td>" in shown for row in table.rows for cell in row[1:])


def test_the_table_of_a_class(findings: Findings) -> None:
    """One line a policy; columns without anything to show are gone; settling is there where the load steps."""
    table = tables.of_class(findings, 1.5, 0)
    assert table.title == "interactive, load 1.5"
    assert "settled s" in table.head
    assert "tenants" not in table.head
    assert {"goodput %", "TTFT s", "ITL ms", "e2e s", "wasted %", "fair: sizes"} <= set(table.head)
    assert [row[0] for row in table.rows] == ["none", "static:16"]
    assert {len(row) for row in table.rows} == {len(table.head)}
    row = dict(zip(table.head, table.rows[1], strict=True))
    refused = [each.score.classes[0] for each in findings.of("static:16", 1.5)]
    assert float(row["refused %"]) == pytest.approx(100 * sum(s.refused / s.offered for s in refused) / 2, abs=0.06)


@pytest.mark.parametrize(
    ("value", "said"), [(0.0, "0"), (0.004, "0.00"), (0.456, "0.46"), (7.86, "7.9"), (123.4, "123"), (12345, "12,345")]
)
def test_digits(value: float, said: str) -> None:
    """As many as mean something."""
    assert tables.digits(value) == said
