"""The rows that are measured beside peers, by the names of bench/run.py."""
from . import dense, kernels, science, training

ROWS = {**kernels.ROWS, **dense.ROWS, **science.ROWS, **training.ROWS}
