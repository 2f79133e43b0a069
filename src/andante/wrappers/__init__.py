"""The wrappers: async callables around async callables, for what a gate cannot do: run the work twice, or change it."""

from andante.wrappers.stage import stage

__all__ = ["stage"]
