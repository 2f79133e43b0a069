"""The recorder keeps, tells and checks; conservation is law 1, from events and from counts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from andante import (
    Admission,
    Call,
    Concurrency,
    Counts,
    Ending,
    Gate,
    LineFull,
    Outcome,
    Rejected,
    ServiceClass,
    Snapshot,
)
from andante.events import (
    Admitted,
    Event,
    First,
    Left,
    LimitChanged,
    Offered,
    Refused,
    SignalChanged,
    Waiting,
    Withdrawn,
)
from andante.testing import Recorder, ScriptedBackend, Stall, balanced, check_conservation, virtual_backend
from andante.testing.script import Answer

if TYPE_CHECKING:
    from collections.abc import Callable

CALL = Call()
WHO = ("door", "chat")


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    return virtual_backend(request.param)


def offered(at: float = 0.0) -> Event:
    return Offered(*WHO, at, CALL)


def waiting(at: float = 0.0) -> Event:
    return Waiting(*WHO, at, CALL, "concurrency")


def admitted(*, queued: bool, at: float = 0.0) -> Event:
    return Admitted(*WHO, at, CALL, 0.5 if queued else 0.0, queued)


def refused(*, queued: bool, at: float = 0.0) -> Event:
    return Refused(*WHO, at, CALL, LineFull("the line is full"), 0.25, queued)


def left(at: float = 0.0) -> Event:
    return Left(*WHO, at, CALL, Outcome(Ending.DONE, seconds=2.0), 0.0)


def withdrawn(at: float = 0.0) -> Event:
    return Withdrawn(*WHO, at, CALL, 0.75)


# What it keeps and tells. ---------------------------------------------------------------------------------------------


def test_it_keeps_everything_in_order() -> None:
    """Events are kept in order, and found by type, by name, by class and by admission."""
    recorder = Recorder()
    other = Offered("door", "batch", 1.0, CALL)
    elsewhere = Offered("gate", "chat", 2.0, CALL)
    events = [offered(), admitted(queued=False), other, elsewhere, left(3.0)]
    for event in events:
        recorder.on(event)
    assert recorder.events == events
    assert recorder.of(Offered) == [events[0], other, elsewhere]
    assert recorder.of(Refused) == []
    assert recorder.names() == ["Offered", "Admitted", "Offered", "Offered", "Left"]
    assert recorder.counts() == {"Offered": 3, "Admitted": 1, "Left": 1}
    assert recorder.for_service("batch").events == [other]
    assert recorder.for_admission("gate").names() == ["Offered"]
    assert recorder.for_admission("door").for_service("chat").names() == ["Offered", "Admitted", "Left"]
    assert repr(recorder) == "<Recorder 3 Offered, 1 Admitted, 1 Left>"
    recorder.clear()
    assert (recorder.events, repr(recorder)) == ([], "<Recorder empty>")


def test_the_story_has_a_line_for_every_event() -> None:
    """The story says when, where, for whom, what, and the detail that matters."""
    recorder = Recorder([
        LimitChanged("door", "", 0.0, "concurrency", 4.0),
        offered(),
        waiting(),
        Waiting(*WHO, 0.25, CALL, None),
        admitted(queued=True, at=0.5),
        admitted(queued=False, at=0.5),
        First(*WHO, 1.0, CALL, 0.5),
        left(2.5),
        Left(*WHO, 2.5, CALL, Outcome(Ending.OVERLOADED, error=OSError("gone")), 0.0),
        refused(queued=False, at=3.0),
        withdrawn(3.5),
        SignalChanged("door", "", 4.0, "gpu", "stale"),
        Event("door", "chat", 5.0),
    ])  # fmt: skip
    assert recorder.story().splitlines() == [
        "    0.000000  door        LimitChanged   concurrency: 4",
        "    0.000000  door  chat  Offered",
        "    0.000000  door  chat  Waiting        held by concurrency",
        "    0.250000  door  chat  Waiting        others are in front",
        "    0.500000  door  chat  Admitted       after 0.5 s",
        "    0.500000  door  chat  Admitted       at once",
        "    1.000000  door  chat  First          0.5 s after its start",
        "    2.500000  door  chat  Left           done after 2 s",
        "    2.500000  door  chat  Left           overloaded: OSError('gone')",
        "    3.000000  door  chat  Refused        line_full after 0.25 s: the line is full",
        "    3.500000  door  chat  Withdrawn      after 0.75 s",
        "    4.000000  door        SignalChanged  gpu: stale",
        "    5.000000  door  chat  Event",
    ]
    assert Recorder().story() == ""


# Law 1 from events. ---------------------------------------------------------------------------------------------------


def test_complete_stories_are_conserved() -> None:
    """Every way through an admission, and every story cut off between two calls, keeps the law."""
    assert Recorder().conserved()
    story = [
        *(offered(), admitted(queued=False)),
        *(offered(), waiting()),
        *(offered(), waiting()),
        *(offered(), refused(queued=False)),
        *(left(), admitted(queued=True), withdrawn(), left()),
        *(offered(), waiting(), refused(queued=True)),
        LimitChanged("door", "", 0.0, "concurrency", 4.0),
    ]
    assert Recorder(story).conserved()


def test_a_victim_is_refused_in_between() -> None:
    """A newcomer may push another out of the line before it is told to wait itself."""
    assert Recorder([offered(), waiting(), offered(), refused(queued=True), waiting()]).conserved()


BROKEN = {
    "admitted without being offered": [admitted(queued=False)],
    "left without being admitted": [offered(), left()],
    "left twice": [offered(), admitted(queued=False), left(), left()],
    "offered and forgotten": [offered(), offered(), admitted(queued=False)],
    "forgotten at the end": [offered()],
    "admitted from the line without waiting": [offered(), admitted(queued=True)],
    "waited, then admitted at once": [offered(), waiting(), admitted(queued=False)],
    "withdrawn twice": [offered(), waiting(), withdrawn(), withdrawn()],
    "refused after being admitted": [offered(), waiting(), admitted(queued=True), refused(queued=True)],
    "waiting without being offered": [waiting()],
    "told twice to wait": [offered(), waiting(), waiting()],
}


@pytest.mark.parametrize("events", BROKEN.values(), ids=BROKEN)
def test_broken_stories_are_found(events: list[Event]) -> None:
    """Each way to lose, double or invent a call is an error that tells the story."""
    with pytest.raises(AssertionError, match="admission 'door', class 'chat'") as caught:
        Recorder(events).conserved()
    assert Recorder(events).story() in str(caught.value)


def test_classes_are_counted_apart() -> None:
    """A call lost in one class is not made up for by one invented in another."""
    events = [offered(), waiting(), Withdrawn("door", "batch", 0.0, CALL, 0.0)]
    with pytest.raises(AssertionError, match="class 'batch'"):
        Recorder(events).conserved()


# Law 1 from counts. ---------------------------------------------------------------------------------------------------

GOOD = Counts(offered=10, started=6, refused=2, withdrawn=1, waiting=1, done=3, overloaded=1, ignored=1, inside=1)


def snapshot(counts: Counts = GOOD, *, times: int = 2, **gates: dict[str, Any]) -> Snapshot:
    """`times` classes with these counts."""
    total = sum([counts] * times, Counts())
    return Snapshot(
        **{name: getattr(total, name) for name in Counts.__slots__},
        classes={f"class{number}": counts for number in range(times)},
        gates=gates,
    )


class Stub:
    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    def snapshot(self) -> Snapshot:
        return self._snapshot


def test_good_counts_pass() -> None:
    """Counts that keep both equations pass, with no, one and many classes."""
    check_conservation(Snapshot())
    check_conservation(snapshot(times=1))
    check_conservation(snapshot(times=3))


@given(field=st.sampled_from(Counts.__slots__), by=st.sampled_from([-1, 1, 5]), whole=st.booleans())
def test_any_count_that_is_off_is_found(field: str, by: int, whole: bool) -> None:
    """Change any one count, of the whole or of a class, and the law is broken, by name."""
    good = snapshot()
    if whole:
        bad = replace(good, **{field: getattr(good, field) + by})
    else:
        off = replace(GOOD, **{field: getattr(GOOD, field) + by})
        bad = replace(good, classes={**good.classes, "class1": off})
    with pytest.raises(AssertionError, match=r"all classes together|class 'class1'"):
        check_conservation(bad)


def test_negative_counts_are_found() -> None:
    """Equations may hold with negative numbers; calls may not."""
    with pytest.raises(AssertionError, match="waiting is -1"):
        check_conservation(snapshot(replace(GOOD, waiting=-1, refused=4)))


def test_classes_add_up_to_the_whole() -> None:
    """A whole that keeps the law by itself is still wrong if its classes do not add up to it."""
    good = snapshot(times=2)
    with pytest.raises(AssertionError, match="add up to"):
        check_conservation(replace(good, classes={"class0": GOOD}))


def test_balanced_finds_what_is_left() -> None:
    """Whoever is inside or waits, and a gate that still counts somebody, is named."""
    done = replace(GOOD, waiting=0, withdrawn=2, inside=0, done=4)
    balanced(Stub(snapshot(done, concurrency={"inside": 0, "limit": 2}, bucket={"level": 1})))
    with pytest.raises(AssertionError, match="class 'class0': 1 inside, 1 waiting"):
        balanced(Stub(snapshot()))
    with pytest.raises(AssertionError, match="gate 'concurrency': 2 inside"):
        balanced(Stub(snapshot(done, concurrency={"inside": 2})))
    with pytest.raises(AssertionError, match="not conserved"):
        balanced(Stub(snapshot(replace(done, done=3))))


# Of a real admission. -------------------------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_of_a_real_admission() -> None:
    """Calls that run, wait, are refused, withdraw and fail: events and counts keep the law at every moment."""
    recorder = Recorder()
    backend = ScriptedBackend([Answer(after=10), Answer(after=10), Stall()], default=Answer(after=1))
    admission = Admission(
        Concurrency(2),
        classes=[ServiceClass("chat"), ServiceClass("batch", max_waiting=2)],
        name="door",
        listeners=[recorder],
    )
    refusals: list[Rejected] = []

    async def work(service: str, patience: float) -> None:
        with anyio.move_on_after(patience):
            try:
                async with admission.admit(Call(service=service)):
                    await backend()
            except Rejected as error:
                refusals.append(error)

    async with anyio.create_task_group() as group:
        for service, patience in [
            ("chat", 99),
            ("batch", 99),
            ("chat", 50),
            ("chat", 5),
            ("batch", 99),
            ("batch", 99),
            ("batch", 99),
        ]:
            group.start_soon(work, service, patience)
            await anyio.sleep(0.1)
            recorder.conserved()
            check_conservation(admission.snapshot())
        with pytest.raises(AssertionError, match="not balanced"):
            balanced(admission)
    recorder.conserved()
    balanced(admission)
    backend.assert_balanced()
    assert backend.max_inside == 2
    assert [error.reason for error in refusals] == ["line_full"]
    counts = admission.snapshot()
    assert recorder.counts()["Offered"] == counts.offered == 7
    assert recorder.counts()["Admitted"] == counts.started == 5
    assert recorder.counts()["Withdrawn"] == counts.withdrawn == 1
    assert [left.outcome.ending for left in recorder.of(Left)].count(Ending.IGNORED) == counts.ignored == 1
    assert "withdrawn" in recorder.story().lower()


@pytest.mark.anyio
async def test_a_lost_place_is_found() -> None:
    """A gate that forgets a leave keeps somebody inside for ever; `balanced` says so."""

    class Leaky(Gate):
        def __init__(self) -> None:
            super().__init__()
            self.inside = 0

        def enter(self, entry: Any, now: float) -> None:
            self.inside += 1

        def snapshot(self, now: float) -> dict[str, Any]:
            return {"inside": self.inside}

    admission = Admission(Leaky())
    async with admission.admit():
        pass
    with pytest.raises(AssertionError, match="gate 'leaky': 1 inside"):
        balanced(admission)


def test_a_listener_is_all_it_takes() -> None:
    """The recorder is an ordinary listener: an object with `on`."""
    on: Callable[[Event], None] = Recorder().on
    on(offered())
