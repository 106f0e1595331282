"""The walk through cuda.core: NVIDIA's objects over the driver API, chapter by chapter."""

from core import devices, streams, memory, code, captures, graphs, processes  # noqa: F401
