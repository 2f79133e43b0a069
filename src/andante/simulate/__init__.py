"""An engine in virtual time: a model of continuous batching, workloads, replay through a policy, and the score."""

from __future__ import annotations

from andante.simulate.capacity import Capacity, Saturated, capacity, saturated, serve
from andante.simulate.engine import Engine, EngineModel, Step
from andante.simulate.gateways import Gateway, Gateways, uncontrolled
from andante.simulate.job import Job, JobState
from andante.simulate.mixes import MIXES, Lengths, Mix, mix
from andante.simulate.policies import Policy, admission, aiolimiter, no_control, semaphore
from andante.simulate.profiles import PROFILES, EngineProfile, profile
from andante.simulate.record import Fate, Record
from andante.simulate.replay import replay
from andante.simulate.score import ClassScore, Score, score
from andante.simulate.shapes import Shape, at_load, draw, trace_of
from andante.simulate.slots import SLOT_PROFILES, SlotEngine, SlotProfile
from andante.simulate.traces import Arrival, Trace, azure_conversation, parse_trace, poisson, read_trace
from andante.simulate.uniform import UNIFORM_PROFILES, BatchEngine, BatchProfile, ServiceEngine, ServiceProfile
from andante.simulate.without_loop import replay_controller
from andante.simulate.workload import ClientClass, Request, Retry, assign, service_classes

__all__ = [
    "MIXES",
    "PROFILES",
    "SLOT_PROFILES",
    "UNIFORM_PROFILES",
    "Arrival",
    "BatchEngine",
    "BatchProfile",
    "Capacity",
    "ClassScore",
    "ClientClass",
    "Engine",
    "EngineModel",
    "EngineProfile",
    "Fate",
    "Gateway",
    "Gateways",
    "Job",
    "JobState",
    "Lengths",
    "Mix",
    "Policy",
    "Record",
    "Request",
    "Retry",
    "Saturated",
    "Score",
    "ServiceEngine",
    "ServiceProfile",
    "Shape",
    "SlotEngine",
    "SlotProfile",
    "Step",
    "Trace",
    "admission",
    "aiolimiter",
    "assign",
    "at_load",
    "azure_conversation",
    "capacity",
    "draw",
    "mix",
    "no_control",
    "parse_trace",
    "poisson",
    "profile",
    "read_trace",
    "replay",
    "replay_controller",
    "saturated",
    "score",
    "semaphore",
    "serve",
    "service_classes",
    "trace_of",
    "uncontrolled",
]
