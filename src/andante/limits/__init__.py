"""Estimates of how many calls at once a backend bears, for `Concurrency(estimate)`: the field's known algorithms.

They are here to be compared with, and for *uniform* backends (embedders, rerankers, classifiers), where a call's time
says how busy the backend is. For generated text it says how long the answer was: see each one's known weaknesses.
"""

from andante.limits.aimd import AIMD
from andante.limits.gradient2 import Gradient2
from andante.limits.vegas import Vegas

__all__ = ["AIMD", "Gradient2", "Vegas"]
