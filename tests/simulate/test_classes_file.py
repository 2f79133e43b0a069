"""Classes from a TOML file."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING

import pytest

from andante.errors import ConfigurationError
from andante.simulate.classes_file import USUAL, read_classes
from andante.simulate.scenario import demo_scenario

if TYPE_CHECKING:
    from pathlib import Path

TEXT = """
[[classes]]
name = "chat"
share = 70
value = 3
ttft = 1.0
prompt = [300, 1.0]
output = [120, 0.8]

[[classes]]
name = "report"
share = 30
e2e = 60.0
"""


def test_objectives_and_lengths(tmp_path: Path) -> None:
    """In their order; lengths as told, or the usual ones."""
    file = tmp_path / "classes.toml"
    file.write_text(TEXT)
    (chat, lengths), (report, usual) = read_classes(file)
    assert (chat.name, chat.share, chat.value, chat.ttft) == ("chat", 70, 3, 1.0)
    assert (lengths.prompt, lengths.prompt_sigma, lengths.output, lengths.output_sigma) == (300, 1.0, 120, 0.8)
    assert (report.name, report.value, report.e2e, usual) == ("report", 1.0, 60.0, USUAL)


def test_a_whole_scenario(tmp_path: Path) -> None:
    """The demo's file may be given: its classes are read."""
    file = tmp_path / "demo.toml"
    file.write_text((files("andante.simulate") / "data" / "demo.toml").read_text("utf-8"))
    assert tuple(client for client, _ in read_classes(file)) == demo_scenario().clients


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("share = 70", "", "class 'chat': no field 'share'"),
        ('name = "chat"', "", "no field 'name'"),
        ("share = 70", "share = 0", "class 'chat': share must be a number above 0"),
        ("ttft = 1.0", "ttft = nan", "ttft must be"),
        ("ttft = 1.0", "tfft = 1.0", "unknown field 'tfft'"),
        ("[300, 1.0]", "300", "class 'chat': prompt must be [median, sigma], not 300"),
        ("[300, 1.0]", "[300, -1.0]", "prompt_sigma must be"),
        ("[300, 1.0]", "['a', 1.0]", "prompt must be at least 1 token, not 'a'"),
        ('"report"', '"chat"', "different names"),
        ("[[classes]]\nname", "[[klasses]]\nname", "unknown field 'klasses'"),
        (TEXT, "", "at least one [[classes]]"),
        (TEXT, "classes = 3", "at least one [[classes]]"),
        (TEXT, "classes = = 3", "classes.toml: "),
    ],
)
def test_bad_files(tmp_path: Path, old: str, new: str, said: str) -> None:
    """The file and the field are named."""
    file = tmp_path / "classes.toml"
    assert old in TEXT
    file.write_text(TEXT.replace(old, new, 1))
    with pytest.raises(ConfigurationError, match=r"classes\.toml") as caught:
        read_classes(file)
    assert said in str(caught.value)


def test_no_file(tmp_path: Path) -> None:
    """Absent, or no text."""
    with pytest.raises(ConfigurationError, match=r"cannot read .*absent\.toml: No such file"):
        read_classes(tmp_path / "absent.toml")
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigurationError, match=r"bytes\.toml"):
        read_classes(tmp_path / "bytes.toml")
