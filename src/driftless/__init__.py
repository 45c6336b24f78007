"""driftless: federated optimisation, every algorithm under one interface, in a simulator that is exactly reproducible.

Begin with five names: `load` (or `Federation.from_clients` and its like) for the data, `LocalTraining` for what a
client does, `simulate` for a run in memory, `compare` for algorithms side by side on disk, and `Algorithm` for one of
your own.

Examples:
    >>> import driftless
    >>> federation = driftless.load("digits", clients=20, partition="dirichlet", alpha=0.3, seed=0)
    >>> local = driftless.LocalTraining(lr=0.1, epochs=2, batch_size=10)
    >>> result = driftless.simulate("adabest", federation, "mlp", rounds=3, cohort=5, local=local)
    >>> result.history.columns[:3]
    ['round', 'lr', 'cohort']
    >>> module = result.module()  # a torch.nn.Module with the trained parameters

`help(driftless.simulate)`, and that of every other name, describes all arguments. `sorted(driftless.ALGORITHMS)` are
the names of the algorithms; `driftless list` on the command line lists these, data sets, models, partitions and
metrics. The guides are in docs/.
"""

from driftless import starting as starting  # before torch is imported: it shows that a command has begun
from driftless import testing as testing
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
