"""driftless: every federated optimisation algorithm of five papers under one interface, in one exact simulator."""

from driftless import starting as starting  # before torch is imported: it shows that a command has begun
from driftless.algorithm import Algorithm, Delta, Facts, Model, Plan, Round, Step
from driftless.algorithms import ALGORITHMS, AdaptiveClipping
from driftless.data import Examples, load
from driftless.data.federation import Federation
from driftless.engine.aggregation import Aggregation
from driftless.engine.evaluation_settings import EvaluationSettings
from driftless.engine.faults import Faults
from driftless.engine.history import Event, History, Record
from driftless.engine.local import LocalTraining
from driftless.engine.server_lr import ServerSchedule
from driftless.engine.settings import EngineSettings
from driftless.errors import Diverged, InputError

# It imports the packages compare, report and tune, so that the functions of these names come after them as attributes.
from driftless.experiments import Best, ComparisonResult, compare, load_run, report, run, tune
from driftless.privacy import DifferentialPrivacy
from driftless.result import Result
from driftless.runs.directory import StoredRun
from driftless.simulate import simulate

__version__ = "0.1.0"

__all__ = [
    "ALGORITHMS",
    "AdaptiveClipping",
    "Aggregation",
    "Algorithm",
    "Best",
    "ComparisonResult",
    "Delta",
    "DifferentialPrivacy",
    "Diverged",
    "EngineSettings",
    "EvaluationSettings",
    "Event",
    "Examples",
    "Facts",
    "Faults",
    "Federation",
    "History",
    "InputError",
    "LocalTraining",
    "Model",
    "Plan",
    "Record",
    "Result",
    "Round",
    "ServerSchedule",
    "Step",
    "StoredRun",
    "compare",
    "load",
    "load_run",
    "report",
    "run",
    "simulate",
    "tune",
]
