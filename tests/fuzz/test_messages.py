"""Messages and files that anybody could have written: for nodes, for the server, and as states of clients."""

from __future__ import annotations

import logging
import resource
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from flwr.app import Array, ArrayRecord, ConfigRecord, MetricRecord, RecordDict
from hypothesis import given
from hypothesis import strategies as st

from deploy.in_process import CLIENTS, FIRST_NODE, Asked, Nodes, played, settings
from driftless.algorithms import Scaffold
from driftless.deploy.node_state import StateFiles
from driftless.deploy.protocol import HEADER, Request
from driftless.deploy.refusal import Refused
from driftless.deploy.roster import read_roster
from driftless.deploy.server import joined_nodes
from driftless.deploy.settings import Deployment
from driftless.engine.tree import leaves
from driftless.errors import InputError
from driftless.runs.directory import StoredRun
from fuzz.fuzzing import empty_folder, share, time_limit
from fuzz.test_files import damaged, damages

MOST_MEMORY = 2**29
"""Bytes that may be asked for during a case, whether they are used or not."""
STATUS = Path("/proc/self/statm")
NUMBERS = [0, 1, -1, 2, 3, 4, 5, 10**6, 10**9, 10**9 + 1, 2**31, 2**63 - 1, -(2**63), 2**64, 10**30, 10**5000]
FLOATS = [0.0, -0.5, 1.0, 1e30, 1e308, float("inf"), float("-inf"), float("nan")]
RUNS = ["f" * 32, "0" * 32, "../" * 10, "x" * 32]
TASKS = ["join", "train", "gradient", "delete"]
JSON = [
    "", "{}", "[]", "null", "[" * 3999, '["float32", [4]]', '["float32", [1000000000]]', '["object", []]',
    '{"dict": [1]}', '{"dict": [["a", "int64", []]]}', '{"tuple": [[], []]}', '{"seed": "5"}',
    '{"dict": [["\\ud800", "int64", []]]}',
]  # fmt: skip
texts = st.sampled_from([*RUNS, *TASKS, *JSON, "x" * 100_000, "\x00\n\x1b[31m"]) | st.text(max_size=10)
scalars = (
    st.sampled_from(NUMBERS) | st.integers(-5, 50) | st.sampled_from(FLOATS) | st.booleans() | texts
    | st.binary(max_size=20)
)  # fmt: skip
values = scalars | st.lists(st.integers(), max_size=3) | st.lists(st.text(max_size=3), max_size=3)
names = st.sampled_from([*Request._fields, "examples", "steps", "loss", "refused", "x", "delta"]) | st.text(max_size=5)

dtypes = st.sampled_from(["float32", "float64", "object", ">f4", "int8", "", "x" * 1000])
shapes = st.lists(st.sampled_from([0, 1, 4, 15, -1, 2**40, 10**30]), max_size=4).map(tuple)
contents = st.binary(max_size=200) | st.sampled_from([b"\x93NUMPY\x01\x00", b"\x80\x04\x95", bytes(10_000)])
arrays = st.builds(Array, dtypes, shapes, st.sampled_from(["numpy.ndarray", "pickle", ""]), contents)


def carried(value: Any) -> bool:
    """What Flower lets into a ConfigRecord."""
    try:
        ConfigRecord({"value": value})
    except TypeError:
        return False
    return True


records = (
    st.builds(ConfigRecord, st.dictionaries(names, values.filter(carried), max_size=5))
    | st.builds(MetricRecord, st.dictionaries(names, st.integers(-5, 5) | st.floats(), max_size=5))
    | st.builds(ArrayRecord, st.dictionaries(names, arrays, max_size=3))
)
record_names = st.sampled_from(["driftless", "message", "upload", "gradient", "cohort_gradient"]) | st.text(max_size=5)
anything = st.builds(RecordDict, st.dictionaries(record_names, records, max_size=4))

Draw = Callable[[Any], Any]


def changed_array(draw: Draw, array: Array) -> Array:
    data = damaged(array.data, *draw(damages)) if draw(st.booleans()) else array.data
    if draw(st.booleans()):
        return Array(draw(dtypes), draw(shapes), array.stype, data)
    return Array(array.dtype, array.shape, array.stype, data)


@st.composite
def changed(draw: Draw, content: RecordDict) -> RecordDict:
    """A message with one to three changes."""
    parts: dict[str, dict[str, Any]] = {name: dict(record) for name, record in content.items()}
    kinds: dict[str, Any] = {name: type(record) for name, record in content.items()}
    for _ in range(draw(st.integers(1, 3))):
        name = draw(st.sampled_from(sorted(parts) or [HEADER]))
        part = parts.setdefault(name, {})
        field = draw(st.sampled_from(sorted(part))) if part else "x"
        what = draw(st.sampled_from(["value", "value", "value", "new field", "no field", "no record", "new record"]))
        if what == "no record":
            parts.pop(name)
        elif what == "no field":
            part.pop(field, None)
        elif what == "new record":
            new, record = draw(record_names), draw(records)
            parts[new], kinds[new] = dict(record), type(record)
        else:
            field = draw(names) if what == "new field" else field
            is_array = isinstance(part.get(field), Array)
            if kinds.get(name) is ArrayRecord:
                part[field] = changed_array(draw, part[field]) if is_array else draw(arrays)
            else:
                part[field] = draw(values.filter(carried) if kinds.get(name) is ConfigRecord else st.floats())
    return RecordDict({name: kinds.get(name, ConfigRecord)(part) for name, part in parts.items()})


@contextmanager
def bounded() -> Generator[None]:
    """Neither a hang nor a huge allocation, also not one that torch makes."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    if STATUS.exists():  # only Linux has it, and holds to the limit
        used = int(STATUS.read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + MOST_MEMORY, before[1]))
    try:
        with time_limit():
            yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


class Played:
    """Federations that have played a round or two, and all that was said."""

    def __init__(self, folder: Path) -> None:
        self.nodes = {
            name: played(folder / name, name, run__rounds=2, run__evaluate_every=0)[0] for name in ("scaffold", "mime")
        }
        self.asked = {
            name: [each for each in nodes.asked if each.request.client == 1 or each.request.task == "join"]
            for name, nodes in self.nodes.items()
        }

    def requests(self) -> list[tuple[str, Asked]]:
        return [(name, each) for name, asked in self.asked.items() for each in asked]


@pytest.fixture(scope="module")
def federations(tmp_path_factory: pytest.TempPathFactory) -> Generator[Played]:
    logging.getLogger("flwr").setLevel(logging.CRITICAL)
    yield Played(tmp_path_factory.mktemp("federations"))
    logging.getLogger("flwr").setLevel(logging.INFO)


@share(0.6)
@given(st.data())
def test_a_node_answers_or_refuses(federations: Played, data: st.DataObject):
    name, asked = data.draw(st.sampled_from(federations.requests()))
    content = data.draw(anything | changed(asked.content))
    with bounded():
        try:
            answer = federations.nodes[name].answered(1, content)
        except (Refused, InputError) as error:
            answer = str(error)
    assert isinstance(answer, RecordDict) or (0 < len(answer) < 1000 and answer.isprintable())


@share(0.03)
@given(st.data())
def test_the_server_leaves_out_who_answers_nonsense_and_goes_on(federations: Played, data: st.DataObject):
    """Only client 0 answers what it should."""
    name = data.draw(st.sampled_from(sorted(federations.nodes)))

    def change(request: Request, answer: RecordDict) -> RecordDict | str:
        return data.draw(anything | changed(answer)) if request.client and request.round else answer

    with empty_folder() as folder, bounded():
        nodes = Nodes(folder, settings(folder, name, run__rounds=3, run__evaluate_every=0))
        nodes.change = change
        stored: StoredRun = nodes.play()
        assert stored.result is not None
        assert (stored.result["status"], len(stored.rows)) == ("finished", 3)
        for event in stored.events:
            assert 0 not in event["clients"]
            assert event["what"].isprintable()
        assert all(torch.isfinite(values).all() for values in stored.state.values())


class OthersJoin:
    """A network with more nodes, whose answers to `join` are given."""

    def __init__(self, nodes: Nodes, answers: Mapping[int, RecordDict]) -> None:
        self._nodes, self._given = nodes, answers

    def nodes(self) -> list[int]:
        return [*self._nodes.nodes(), *self._given]

    def ask(self, requests: Mapping[int, RecordDict], round: int, seconds: float) -> dict[int, RecordDict | str]:
        whole = {node: content for node, content in requests.items() if node < FIRST_NODE + CLIENTS}
        run = next(iter(requests.values())).config_records[HEADER]["run"]
        found = self._nodes.ask(whole, round, seconds)
        for node in requests:
            if node in self._given:
                found[node] = with_run(self._given[node], str(run))
        return found


def with_run(content: RecordDict, run: str) -> RecordDict:
    """A node knows the name of the run: it is in the request."""
    record = content.get(HEADER)
    if isinstance(record, ConfigRecord) and "run" in record:
        return RecordDict({**content, HEADER: ConfigRecord({**record, "run": run})})
    return content


@share(0.3)
@given(st.data())
def test_the_server_begins_without_nodes_that_join_with_nonsense(federations: Played, data: st.DataObject):
    nodes = federations.nodes["scaffold"]
    valid = federations.asked["scaffold"][0].answer
    given_answers = {FIRST_NODE + CLIENTS + i: data.draw(anything | changed(valid)) for i in range(2)}
    with bounded():
        roster = joined_nodes(OthersJoin(nodes, given_answers), Deployment(CLIENTS, join_timeout=0.01))
    assert roster.nodes == nodes.nodes()


@share(0.5)
@given(damage=damages | st.binary(max_size=300))
def test_a_damaged_state_is_refused_or_the_one_that_was_written(federations: Played, damage: Any):
    asked = next(each for each in federations.asked["scaffold"] if each.request.round == 2)
    owner = {
        "run": asked.request.run, "client": "1", "node": str(FIRST_NODE + 1), "algorithm": "Scaffold", "protocol": "1",
    }  # fmt: skip
    (path,) = federations.nodes["scaffold"].states(1).rglob("round-00000002.safetensors")
    whole, initial = path.read_bytes(), Scaffold().init_client(torch.zeros(15))
    files = StateFiles(federations.nodes["scaffold"].states(1), owner)
    before = files.read(2, initial)
    try:
        path.write_bytes(damage if isinstance(damage, bytes) else damaged(whole, *damage))
        with bounded():
            files.begun_with(2)
            try:
                found = files.read(2, initial)
            except Refused:
                return
        assert all(torch.equal(one, other) for one, other in zip(leaves(found), leaves(before), strict=True))
    finally:
        path.write_bytes(whole)


@share(0.3)
@given(damage=damages | st.binary(max_size=300))
def test_a_damaged_list_of_nodes_is_named_or_a_possible_one(federations: Played, damage: Any):
    whole = (federations.nodes["scaffold"].folder / "run" / "nodes.json").read_bytes()
    with empty_folder() as folder, bounded():
        (folder / "nodes.json").write_bytes(damage if isinstance(damage, bytes) else damaged(whole, *damage))
        try:
            roster = read_roster(folder)
        except InputError as error:
            roster = str(error)
    if isinstance(roster, str):
        assert "nodes.json' is damaged" in roster
    else:
        assert roster is not None
        assert all(member.examples > 0 for member in roster.members)
