"""The rules of the line, written down as plainly as they can be: lists and linear scans, no heaps, nothing lazy.

Two gates stand before everybody, some places and a bucket of input tokens; a class may have places of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import exp, inf
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence

    from andante import Call, Gate, ServiceClass


@dataclass(eq=False)
class Entry:
    """One call."""

    call: Call
    serial: int
    arrived: float
    key: float = 0.0
    queued: bool = False
    started: float | None = None
    first: bool = False
    passed: list[Gate] = field(default_factory=list)

    @property
    def cost(self) -> float:
        return self.call.cost.input_tokens


@dataclass(eq=False)
class Tenant:
    """One tenant of a class that waits for something."""

    name: Hashable
    attained: float
    since: int
    waiting: list[Entry] = field(default_factory=list)


class Class:
    """What is remembered about a service class, also while it is configured away."""

    def __init__(self, service: ServiceClass) -> None:
        self.service = service
        self.tenants: list[Tenant] = []
        self.mean = 0.0
        self.credit = 0.0
        self.clock = 0.0  # runs while something waits
        self.starts: list[float] = []  # on that clock
        self.offered = self.started = self.refused = self.withdrawn = self.ended = 0

    def waiting(self) -> list[Entry]:
        return [entry for tenant in self.tenants for entry in tenant.waiting]

    def tenant(self, entry: Entry) -> Tenant | None:
        return next((tenant for tenant in self.tenants if tenant.name == entry.call.tenant), None)

    def head(self) -> Entry | None:
        """Least attained cost; of equals the one that entered or was charged first. In it the smallest key."""
        if not self.tenants:
            return None
        tenant = min(self.tenants, key=lambda tenant: (tenant.attained, tenant.since))
        return min(tenant.waiting, key=lambda entry: (entry.key, entry.serial))

    def key(self, entry: Entry) -> float:
        service = self.service
        goal = service.ttft if service.ttft is not None else service.e2e
        if goal is None:
            return entry.arrived
        size = entry.cost or entry.call.cost.requests
        relative = min(4.0, size / (self.mean or size))
        return min(entry.call.deadline, entry.arrived + goal * (1 + 0.5 * relative))  # type: ignore[operator]

    def latest(self, entry: Entry) -> float:
        service = self.service
        bounds = (service.ttft, service.e2e, service.max_wait)
        return min(entry.call.deadline, *(inf if bound is None else entry.arrived + bound for bound in bounds))  # type: ignore[operator]

    def memory(self) -> float:
        """What the class may wait, in seconds: the time constant of its drain rate."""
        service = self.service
        bounds = (service.ttft if service.ttft is not None else service.e2e, service.max_wait)
        longest = min(inf if bound is None else float(bound) for bound in bounds)  # type: ignore[arg-type]
        return max(2.0, longest) if longest < inf else 60.0

    def drain_rate(self) -> float | None:
        """Starts of those who waited, over the time in which anybody did; both fade with the time constant."""
        memory = self.memory()
        time = memory * (1 - exp(-self.clock / memory))
        if time <= memory / 3:
            return None
        return sum(exp((start - self.clock) / memory) for start in self.starts) / time


class Model:
    """All of it. `admit`, `expire` and `offer` return what happened, as (entry, word) in order."""

    def __init__(
        self, places: Gate, limit: int, bucket: Gate, rate: float, burst: float, classes: Sequence[ServiceClass]
    ) -> None:
        self.places, self.bucket = places, bucket
        self.limits: dict[Gate, float] = {places: limit}
        self.rate, self.burst, self.level, self.now = rate, burst, burst, 0.0
        self.known = {service.name: Class(service) for service in classes}
        self.classes = [self.known[service.name] for service in classes]
        self.inside: list[Entry] = []
        self.serial = 0

    # Time and gates. ------------------------------------------------------------------------------------------------

    def pass_to(self, now: float) -> None:
        self.level = min(self.burst, self.level + (now - self.now) * self.rate)
        for one in self.classes:
            one.clock += (now - self.now) if one.tenants else 0.0
        self.now = now

    def gates(self, one: Class) -> list[Gate]:
        return [self.places, self.bucket, *one.service.gates]

    def full(self, gate: Gate) -> bool:
        return sum(gate in entry.passed for entry in self.inside) >= self.limits[gate]

    def blocked(self, entry: Entry) -> tuple[float, bool]:
        """For how long the gates would hold it, and whether one of its own class does."""
        one = self.known[entry.call.service]
        own = any(self.full(gate) for gate in one.service.gates)
        shared = inf if self.full(self.places) else max(0.0, entry.cost - self.level) / self.rate
        if not entry.cost and not self.full(self.places):
            shared = 0.0
        return (inf if own else shared), own

    # The line. ------------------------------------------------------------------------------------------------------

    def admit(self) -> list[tuple[Entry, str]]:
        done: list[tuple[Entry, str]] = []
        while (entry := self.next_in()) is not None:
            self.start(entry)
            done.append((entry, "admitted"))
        return done

    def turns(self) -> list[tuple[Class, bool]]:
        """Whose head is asked, in order, and whether it is a floor that says so."""
        floors = [(one, True) for one in self.classes if one.service.floor and self.covered(one)]
        normal = [(one, False) for one in self.classes if one.tenants and not one.service.deferrable]
        last = [(one, False) for one in self.classes if one.tenants and one.service.deferrable]
        return floors + (normal or last)

    @staticmethod
    def covered(one: Class) -> bool:
        head = one.head()
        return head is not None and one.credit >= (head.cost or head.call.cost.requests)

    def next_in(self) -> Entry | None:
        for one, by_floor in self.turns():
            head = one.head()
            assert head is not None
            delay, own = self.blocked(head)
            if delay == 0:
                return head
            if own and by_floor:
                one.credit = head.cost or head.call.cost.requests
            if own or (by_floor and delay == inf):
                continue
            return None
        return None

    def start(self, entry: Entry) -> None:
        one = self.known[entry.call.service]
        weight = entry.cost or entry.call.cost.requests
        entry.started = self.now
        entry.passed = self.gates(one)
        self.level -= entry.cost
        self.inside.append(entry)
        one.started += 1
        if not entry.queued:
            return
        tenant = one.tenant(entry)
        assert tenant is not None
        tenant.attained += weight
        tenant.since = self.next_serial()
        if entry.arrived < self.now:
            one.starts.append(one.clock)
        self.out(entry)
        for other in self.classes:
            share = other.service.floor * weight
            if other is one and share:
                one.credit = max(0.0, one.credit + share - weight)
            elif other.tenants:
                other.credit += share

    def out(self, entry: Entry) -> None:
        """It does not wait any more."""
        one = self.known[entry.call.service]
        tenant = one.tenant(entry)
        assert tenant is not None
        tenant.waiting.remove(entry)
        if not tenant.waiting:
            one.tenants.remove(tenant)

    def expire(self) -> list[tuple[Entry, str]]:
        """Who has waited until the latest start goes, in the order of these; a deferrable call may then start."""
        done: list[tuple[Entry, str]] = []
        late = [entry for one in self.classes for entry in one.waiting() if one.latest(entry) <= self.now]
        for entry in sorted(late, key=lambda e: (self.known[e.call.service].latest(e), e.serial)):
            one = self.known[entry.call.service]
            if one.service.deferrable and self.blocked(entry)[0] == 0:
                self.start(entry)
                done.append((entry, "admitted"))
            else:
                done.append(self.refuse(entry, "deadline_expired"))
        return done

    def step(self) -> list[tuple[Entry, str]]:
        """A change may have put latest starts into the past; those calls go before anybody is let in."""
        gone = [entry for one in self.classes for entry in one.waiting() if one.latest(entry) < self.now]
        return [self.refuse(entry, "deadline_expired") for entry in gone] + self.admit() + self.expire() + self.admit()

    def waiting_now(self) -> int:
        return sum(len(one.waiting()) for one in self.classes)

    def next_moment(self) -> float:
        """When something may happen by time alone: a latest start, or the delay of a head."""
        moments = [one.latest(entry) for one in self.classes for entry in one.waiting()]
        moments += [self.now + self.blocked(head)[0] for one in self.classes if (head := one.head()) is not None]
        return min(moments, default=inf)

    # Coming and going. ----------------------------------------------------------------------------------------------

    def next_serial(self) -> int:
        self.serial += 1
        return self.serial

    def offer(self, call: Call, *, trying: bool) -> tuple[Entry, str, list[tuple[Entry, str]]]:
        """The entry, what became of it, and what became of others."""
        one = self.known[call.service]
        entry = Entry(call, self.next_serial(), self.now)
        one.offered += 1
        if entry.cost > self.burst:
            return *self.refuse(entry, "cost_too_large"), []
        latest, (delay, _) = one.latest(entry), self.blocked(entry)
        if latest < self.now:
            return *self.refuse(entry, "deadline_unreachable"), []
        if not any(other.tenants for other in self.classes) and delay == 0:
            self.start(entry)
            return entry, "admitted", []
        if one.service.early_refusal and delay < inf and self.now + delay > latest:
            return *self.refuse(entry, "deadline_unreachable"), []
        entry.key = one.key(entry)
        others: list[tuple[Entry, str]] = []
        stays = not trying and latest > self.now and one.service.max_waiting >= 1
        if stays:
            for word in self.crowded(one, entry):
                victim = self.victim(one, entry)
                if victim is entry:
                    return *self.refuse(entry, word), others
                others.append(self.refuse(victim, "shed"))
        self.wait(one, entry)
        others += self.admit()
        if (entry, "admitted") in others:
            others.remove((entry, "admitted"))
            return entry, "admitted", others
        if not stays:
            word = "would_wait" if trying else "line_full" if latest > self.now else "deadline_unreachable"
            return *self.refuse(entry, word), others + self.admit()
        return entry, "waiting", others

    def crowded(self, one: Class, entry: Entry) -> Iterable[str]:
        """Why somebody of the class has to go before `entry` may wait; asked anew after each."""
        many, rate = len(one.waiting()), one.drain_rate()
        if one.service.early_refusal and many > 2 and rate is not None:
            longest = max(one.latest(entry), one.latest(self.victim(one, entry)))
            if longest < inf and many > 2 + (longest - self.now) * rate:
                yield "deadline_unreachable"
        if len(one.waiting()) >= one.service.max_waiting and one.tenants:
            yield "line_full"

    def victim(self, one: Class, entry: Entry) -> Entry:
        """The largest key of the tenant with the most calls, `entry` counted; of equals its own, else the eldest."""
        lines = {tenant.name: list(tenant.waiting) for tenant in one.tenants}
        own = [*lines.pop(entry.call.tenant, []), entry]
        longest = max([own, *lines.values()], key=len)
        return max(longest, key=lambda e: (e.key, e.serial))

    def wait(self, one: Class, entry: Entry) -> None:
        if not one.tenants:
            one.credit = 0.0
        tenant = one.tenant(entry)
        if tenant is None:
            least = min((other.attained for other in one.tenants), default=0.0)
            tenant = Tenant(entry.call.tenant, least, self.next_serial())
            one.tenants.append(tenant)
        tenant.waiting.append(entry)
        entry.queued = True
        size = entry.cost or entry.call.cost.requests
        one.mean = one.mean + 0.02 * (size - one.mean) if one.mean else size

    def refuse(self, entry: Entry, word: str) -> tuple[Entry, str]:
        one = self.known[entry.call.service]
        one.refused += 1
        if any(entry in tenant.waiting for tenant in one.tenants):
            self.out(entry)
        return entry, word

    def withdraw(self, entry: Entry) -> None:
        one = self.known[entry.call.service]
        one.withdrawn += 1
        if entry.started is None:
            self.out(entry)
            return
        one.started -= 1
        self.inside.remove(entry)
        self.level = min(self.burst, self.level + entry.cost)
        tenant = one.tenant(entry)
        if entry.queued and tenant is not None:
            tenant.attained = max(0.0, tenant.attained - (entry.cost or entry.call.cost.requests))
            tenant.since = self.next_serial()

    def leave(self, entry: Entry, cost: float) -> None:
        self.known[entry.call.service].ended += 1
        self.inside.remove(entry)
        self.level = min(self.burst, self.level + entry.cost - cost)

    def reconfigure(self, services: Sequence[ServiceClass]) -> list[tuple[Entry, str]]:
        """Classes keep what is known about them; who waits in one that is gone is sent away."""
        gone = [one for one in self.classes if one.service.name not in {service.name for service in services}]
        done = [self.refuse(entry, "shed") for one in gone for entry in one.waiting()]
        self.classes = []
        for service in services:
            one = self.known.setdefault(service.name, Class(service))
            memory, one.service = one.memory(), service
            if one.memory() != memory:
                one.starts, one.clock = [], 0.0
            for entry in one.waiting():
                entry.key = one.key(entry)
            self.classes.append(one)
            for entry in self.inside:
                if entry.call.service == service.name:
                    entry.passed += [gate for gate in service.gates if gate not in entry.passed]
        return done
