"""An engine in virtual time: a model of continuous batching, workloads, replay through a policy, and the score."""

from __future__ import annotations

from andante.simulate.capacity import Capacity, Saturated, capacity, saturated, serve
from andante.simulate.engine import Engine, Step
from andante.simulate.job import Job, JobState
from andante.simulate.policies import Policy, admission, aiolimiter, no_control, semaphore
from andante.simulate.profiles import PROFILES, EngineProfile, profile
from andante.simulate.record import Fate, Record
from andante.simulate.replay import replay
from andante.simulate.score import ClassScore, Score, score
from andante.simulate.traces import Arrival, Trace, azure_conversation, parse_trace, poisson, read_trace
from andante.simulate.without_loop import replay_controller
from andante.simulate.workload import ClientClass, Request, assign, service_classes

__all__ = [
    "PROFILES",
    "Arrival",
    "Capacity",
    "ClassScore",
    "ClientClass",
    "Engine",
    "EngineProfile",
    "Fate",
    "Job",
    "JobState",
    "Policy",
    "Record",
    "Request",
    "Saturated",
    "Score",
    "Step",
    "Trace",
    "admission",
    "aiolimiter",
    "assign",
    "azure_conversation",
    "capacity",
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
]
