"""The walk through cuda.bindings.driver: the driver API as it stands, chapter by chapter."""

from bindings import devices, contexts, streams, memory, pools, code, captures, graphs, processes  # noqa: F401
