"""The twin: a small engine beside the real one, which is told only who starts and who ends."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any

from andante.gates.natural_pace.flow import told_tokens
from andante.gates.natural_pace.goals import FIRSTS, GAPS, GapGoal, by_rank, first_goal
from andante.gates.natural_pace.part import Part
from andante.gates.natural_pace.share import Share
from andante.gates.natural_pace.step_law import COLD, StepLaw
from andante.gates.natural_pace.virtual_prefill import Prefill
from andante.values import Ending, is_number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from andante.gate import Entry
    from andante.gates.natural_pace.flow import Stream
    from andante.service import ServiceClass
    from andante.values import Outcome

_COMPANY = 0.9  # of a step that may be company before one more buys nothing
_BEGIN = 4.0  # calls inside at the very start, and half a call more for each that has ended
_STEADY = 0.5  # of the gap that those inside would keep up if their likes followed them, at least
_LEAST = 0.02  # of a step that is left beside prefill, at least
_JUDGED = 8  # output tokens above which a call's gaps can be judged
_FORGOTTEN = 600.0  # seconds: after a longer rest a law is only where to begin
_MOST = 1e9  # tokens that a call counts at most: sums stay finite

_State = tuple[float, float, float, Prefill, float]


class _Inside:
    """What was so when a call started."""

    __slots__ = ("before", "calls", "done", "due", "first", "per_step", "prompt", "size", "started", "tokens")

    def __init__(self, prompt: float, output: float, started: float, before: _State) -> None:
        self.prompt = prompt
        self.tokens = prompt + output
        self.per_step = prompt / max(1.0, output)
        self.started = started
        self.before = before
        self.calls = self.size = 0.0  # the integrals over time
        self.done = 0.0  # prompt tokens prefilled
        self.due = 0.0  # prompt tokens that have passed the virtual queue once its own have
        self.first = 0.0  # forecast


class Twin(Part):
    """How fast the backend is, from starts and ends alone: for calls that come back whole.

    `StepLaw` is learned from calls that ended; prompts wait in a virtual queue that drains as fast as it says. From
    both follow the gap between tokens and the time to a first result, which must stay under the goals of the classes
    *with one more*:

        base       = corr (t0 + t1 n + t2 size)                        seconds of a step without prefill
        gap        = base / max(0.02, 1 - corr t3 rate)                rate: prompt tokens prefilled per second
        first(p)   = 1.5 base + (corr t3 + base / 2048) (waiting + p)

    A crowd that starts at once has not been prefilled yet, and its `rate` says nothing; so half of what n such calls
    would come to in the long run, base + corr t3 (sum of prompt / output), is the least that counts as the gap.

    *Knee*: where nine tenths of a step are company, one more buys no throughput. *Evidence*: a call that has ended was
    prefilled, and so were those before it, whatever the law says. *Start*: until 24 calls have ended no more are inside
    than 4 and half of those.

    Where no call ever told its output, each counts as one token, and the objectives for gaps mean nothing here. Where
    some do, one that does not counts what its class usually has.

    Attributes:
        law: the law of a step.
        told: whether any call has told its output tokens.
        share, late: of the itl and the e2e objectives that is aimed for.
        first_goal: seconds to a first result that prompts inside may cause; inf without a ttft objective.
    """

    name = "twin"

    def __init__(self) -> None:
        super().__init__()
        self.law = StepLaw()
        self.told = False
        self.share = Share(0.8, miss=0.03, step=0.02, most=0.88)
        self.late = Share(0.9, miss=0.05, step=0.01, most=1.0)
        self.first_goal = inf
        self._goal = GapGoal(self.share, self.late)
        self._calls: dict[Entry, _Inside] = {}
        self._size = 0.0  # tokens of those inside
        self._prefill_per_step = 0.0  # prompt / output of those inside, added up: tokens, if their likes follow them
        self._prefill = Prefill()
        self._vanished = 0.0  # prompt tokens that left the virtual queue with their calls
        self._calls_time = self._size_time = 0.0  # integrals over time
        self._at = -inf
        self._latest: _Inside | None = None  # the one that started, if nothing has happened since
        # Of the call that is gone, for `finish`: itself, what the virtual queue still held up to it, and the state.
        self._left: _Inside | None = None
        self._overdue = 0.0
        self._ended = self._state()

    def bind(self, classes: Sequence[ServiceClass]) -> None:
        self._goal.bind(classes)
        self.first_goal = first_goal(classes)

    @property
    def goal(self) -> float:
        """Seconds between tokens that the most urgent class may cause; inf where no class has an itl objective."""
        return inf if self.law.ended and not self.told else self._goal.seconds(self.flow)

    # What it says. --------------------------------------------------------------------------------------------------

    def itl(self, now: float) -> float:
        """Seconds per output token at present."""
        return self._gap(self._base(), now)

    def with_one_more(self, entry: Entry, now: float) -> float:
        """Seconds per output token that `entry` would make of it."""
        prompt, output = min(self.flow.prompt(entry), _MOST), min(self.flow.expects(entry), _MOST)
        base = self.law.base(len(self._calls) + 1, self._size + prompt + output)
        steady = base + self.law.per_prefill * (self._prefill_per_step + prompt / max(1.0, output))
        return max(self._gap(base, now), _STEADY * steady)

    def first_result(self, prompt: float, now: float) -> float:
        """Seconds to the first result of a call with so many prompt tokens, if it started now."""
        base = self._base()
        return 1.5 * base + self.law.per_prompt(base) * (self.prefill(now).waiting + min(prompt, _MOST))

    def prefill(self, now: float) -> Prefill:
        """The virtual queue of prompts."""
        elapsed = now - self._at
        return self._prefill.after(elapsed, self.law.per_prompt(self._base())) if elapsed > 0 else self._prefill

    def company_pays(self) -> bool:
        """Whether one more would still buy throughput, as far as is known."""
        return self.law.company(len(self._calls), self._size) <= _COMPANY

    def shut(self, now: float) -> None:
        self._goal.refused_at = now

    def room(self, entry: Entry, now: float) -> bool:
        ended, goal = self.law.ended, self.goal
        if goal == inf and self.first_goal == inf:
            return True
        if ended < COLD and len(self._calls) >= _BEGIN + ended / 2:
            return False
        if goal < inf and (
            self.with_one_more(entry, now) > goal * by_rank(GAPS, entry.rank) or not self.company_pays()
        ):
            return False
        if self.first_goal < inf and self.prefill(now).waiting >= 1:
            return self.first_result(self.flow.prompt(entry), now) <= self.first_goal * by_rank(FIRSTS, entry.rank)
        return True

    def _base(self) -> float:
        return self.law.base(len(self._calls), self._size)

    def _gap(self, base: float, now: float) -> float:
        return base / max(_LEAST, 1 - self.law.per_prefill * self.prefill(now).rate)

    # What it is told. -----------------------------------------------------------------------------------------------

    def enter(self, entry: Entry, stream: Stream, now: float) -> None:
        before = self._state()
        self._advance(now)
        prompt = min(stream.prompt, _MOST)
        call = _Inside(prompt, min(stream.expected, _MOST), now, before)
        call.calls, call.size, call.done = self._calls_time, self._size_time, self._prefill.done
        call.first = self.first_result(prompt, now)
        self._calls[entry] = self._latest = call
        self._size += call.tokens
        self._prefill_per_step += call.per_step
        self._prefill = self._prefill.plus(prompt)
        call.due = self._passed() + self._prefill.waiting

    def gone(self, entry: Entry, stream: Stream, now: float) -> None:
        call = self._calls.get(entry)
        if call is None:
            self._left = None  # of an earlier one that `finish` was not called for
            return
        latest = call is self._latest
        self._advance(now)
        del self._calls[entry]
        self._size = self._size - call.tokens if self._calls else 0.0
        self._prefill_per_step = self._prefill_per_step - call.per_step if self._calls else 0.0
        self._left = call
        self._overdue = min(self._prefill.waiting, max(0.0, call.due - self._passed()))
        self._ended = self._state()
        own = min(self._overdue, call.prompt)
        self._prefill = self._prefill.without(own)
        self._vanished += own
        if latest:  # nothing has happened since it started: as if it had never come
            self._go_to(call.before)
            self._advance(now)
        if not self._calls:
            self._prefill = self._prefill.without(inf)

    def finish(self, entry: Entry, stream: Stream, outcome: Outcome, now: float) -> None:
        call, self._left = self._left, None
        if call is None or outcome.ending is not Ending.DONE:
            return  # what the backend turns away takes no steps
        self._go_to(self._ended)
        self._prefill = self._prefill.seen(self._overdue)
        if not self._calls:
            self._prefill = self._prefill.without(inf)
        took = now - call.started
        tokens = self._output(entry, stream, outcome)
        if took <= 0 or tokens <= 0:
            return
        n, size = (self._calls_time - call.calls) / took, (self._size_time - call.size) / took
        self.law.learn(tokens, n, size, self._prefill.done - call.done, took)
        gap = (took - call.first) / (tokens - 1) if tokens > _JUDGED else None
        self._goal.learn(stream.rank, gap, took, now)

    def _output(self, entry: Entry, stream: Stream, outcome: Outcome) -> float:
        """Output tokens to count; 0: better not learn from this one."""
        tokens = told_tokens(entry, outcome) or outcome.items or 0.0
        if tokens > 0:
            self.told = True
            return min(tokens, _MOST)
        if not self.told:
            return 1.0
        lengths = self.flow.lengths_of(stream.rank)
        return min(lengths.mean, _MOST) if lengths.seen else 0.0

    def _advance(self, now: float) -> None:
        self._latest = None
        elapsed = now - self._at
        if elapsed <= 0:
            return
        if self._calls:
            self._calls_time += elapsed * len(self._calls)
            self._size_time += elapsed * self._size
        self._prefill = self.prefill(now)
        self._at = now

    def _state(self) -> _State:
        return (self._at, self._calls_time, self._size_time, self._prefill, self._vanished)

    def _go_to(self, state: _State) -> None:
        self._at, self._calls_time, self._size_time, self._prefill, self._vanished = state

    def _passed(self) -> float:
        return self._prefill.done + self._vanished

    # What people and restarts see. ----------------------------------------------------------------------------------

    def headroom(self, now: float) -> float:
        left = 1.0
        if self.goal < inf:
            left = 1 - self.itl(now) / self.goal
        if self.first_goal < inf and self.prefill(now).waiting > 0:
            left = min(left, 1 - self.first_result(0.0, now) / self.first_goal)
        return left

    def snapshot(self, now: float) -> dict[str, Any]:
        """`itl` (s), `goal` (s per output token; None: no such objective), `first` (s to a first result for an empty
        prompt), `first_goal` (s; None), `waiting` (prompt tokens), `prefill_rate` (tokens/s), `step` (t0 ... t3 in
        seconds, corrected), `correction`, `share`, `pays`, `ended` (calls learned from), `told`."""
        goal, law, prefill = self.goal, self.law, self.prefill(now)
        return {
            "itl": self.itl(now),
            "goal": None if goal == inf else goal,
            "first": self.first_result(0.0, now),
            "first_goal": None if self.first_goal == inf else self.first_goal,
            "waiting": prefill.waiting,
            "prefill_rate": prefill.rate,
            "step": [law.corr * t for t in law.t],
            "correction": law.corr,
            "share": self.share.value,
            "pays": self.company_pays(),
            "ended": law.ended,
            "told": self.told,
        }

    def dump(self) -> dict[str, Any]:
        """The law of a step, and the shares."""
        return {
            "step": [self.law.corr * t for t in self.law.t],
            "ended": min(self.law.ended, COLD),
            "told": self.told,
            "share": self.share.value,
            "late": self.late.value,
        }

    def load(self, state: dict[str, Any], age: float) -> None:
        """Take over what `dump` gave; after more than ten minutes it starts as carefully as a new one. Nonsense in
        `state` is ignored."""
        step, ended = state.get("step"), state.get("ended")
        if isinstance(step, (list, tuple)) and all(map(is_number, step)) and is_number(ended) and ended >= 1:
            self.law.restore(step, min(COLD, int(ended)) if age <= _FORGOTTEN else 0)
            self.told = bool(state.get("told")) and self.law.ended > 0
        for name in ("share", "late"):
            share, value = getattr(self, name), state.get(name)
            if is_number(value) and 0.3 <= value <= share.most:
                share.value = float(value)
