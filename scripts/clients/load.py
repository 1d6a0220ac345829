"""Writes with pyiceberg in several processes, records every outcome, and verifies the record against what is in the tables.

`load` may run several times on one record, and the server may be killed meanwhile. `verify` checks that everything
acknowledged is there exactly once, that nothing refused is there, and that what has an unknown outcome is there at most once.
"""

import argparse
import json
import multiprocessing
import os
import sys
import time
import uuid

import pyarrow as pa
from common import catalog
from pyiceberg.exceptions import CommitFailedException, NamespaceAlreadyExistsError
from pyiceberg.expressions import EqualTo

BATCH = 3  # Rows of an append, all with its id.
SCHEMA = pa.schema([("writer", pa.int64()), ("id", pa.string())])


def rows(writer, key, count):
    return pa.table({"writer": [writer] * count, "id": [key] * count}, schema=SCHEMA)


def table_of(options, writer):
    return (options.namespace, f"{options.kind}_hot" if options.tables == "hot" else f"{options.kind}_{writer}")


def prepare(options):
    lake = catalog(options.url)
    try:
        lake.create_namespace(options.namespace)
    except NamespaceAlreadyExistsError:
        pass
    for writer in range(options.writers):
        # Without the client's own retries, so that each attempt has an id and an outcome of its own.
        lake.create_table_if_not_exists(table_of(options, writer), SCHEMA, properties={"commit.retry.num-retries": "0"})


def write(options, writer, until):
    """Writes until then. Each attempt is recorded before it is made and after its outcome is known."""
    record = os.open(options.record, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    name = table_of(options, writer)

    def note(**line):
        os.write(record, (json.dumps(line) + "\n").encode())

    lake, told_of = None, None
    while time.time() < until:
        try:
            lake = lake or catalog(options.url)
            table = lake.load_table(name)
        except Exception as error:
            if told_of != type(error).__name__:
                told_of = type(error).__name__
                print(f"writer {writer} cannot read: {told_of}", file=sys.stderr)
            time.sleep(0.2)
            continue
        key, told_of = uuid.uuid4().hex, None
        note(id=key, outcome="begun", table=name[1], kind=options.kind, writer=writer)
        started, why = time.monotonic(), None
        try:
            if options.kind == "appends":
                table.append(rows(writer, key, BATCH), snapshot_properties={"load-id": key})
            else:
                table.overwrite(rows(writer, key, 1), EqualTo("writer", writer), snapshot_properties={"load-id": key})
            outcome = "acknowledged"
        except CommitFailedException:
            outcome = "refused"
        except Exception as error:
            outcome, why = "unknown", f"{type(error).__name__}: {error}"[:300]
        note(id=key, outcome=outcome, seconds=round(time.monotonic() - started, 4), why=why)
        if outcome == "unknown":
            time.sleep(0.1)


def load(options):
    prepare(options)
    until = time.time() + options.seconds
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=write, args=(options, number, until)) for number in range(options.writers)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    summary = told(read(options.record))
    print(json.dumps({"record": options.record, **summary}))
    if any(writer.exitcode for writer in writers) or not summary["acknowledged"]:
        sys.exit("a writer ended with an error, or nothing was acknowledged")


def read(record):
    """The attempts of a record, in the order in which they began. One without an outcome is of unknown outcome."""
    attempts = {}
    for number, line in enumerate(open(record, encoding="utf-8"), 1):
        try:
            entry = json.loads(line)
        except ValueError:
            sys.exit(f"{record}:{number}: no JSON; is this the file that `load` wrote?")
        if entry["outcome"] == "begun":
            attempts[entry["id"]] = {**entry, "outcome": "unknown"}
        else:
            attempts[entry["id"]].update(entry)
    return list(attempts.values())


def told(attempts):
    outcomes = {"acknowledged": 0, "refused": 0, "unknown": 0}
    for attempt in attempts:
        outcomes[attempt["outcome"]] += 1
    times = sorted(attempt["seconds"] for attempt in attempts if attempt["outcome"] == "acknowledged")
    if times:
        outcomes["p50_seconds"], outcomes["p99_seconds"] = times[len(times) // 2], times[len(times) * 99 // 100]
    return outcomes


def problems_of(name, attempts, table):
    """What contradicts the record in one table."""
    # The current snapshot's history: a snapshot beside it is in the metadata, but not in the table.
    by_id = {snapshot.snapshot_id: snapshot for snapshot in table.metadata.snapshots}
    history, current = [], table.current_snapshot()
    while current:
        history.append(current)
        parent = current.parent_snapshot_id
        if parent is not None and parent not in by_id:
            yield f"{name}: the parent {parent} of snapshot {current.snapshot_id} is not there"
        current = by_id.get(parent)
    times = {}
    for snapshot in history:
        # An overwrite of pyiceberg is two snapshots, a delete and an append, in one commit.
        key = snapshot.summary["load-id"] if "load-id" in snapshot.summary.additional_properties else None
        if key and snapshot.summary.operation.value == "append":
            times[key] = times.get(key, 0) + 1
    counts = {}
    for key in table.scan(selected_fields=("id",)).to_arrow()["id"].to_pylist():
        counts[key] = counts.get(key, 0) + 1
    known = {attempt["id"]: attempt for attempt in attempts}
    for key in (set(counts) | set(times)) - set(known):
        yield f"{name}: {key} is there and not in this record (each record needs tables of its own: --namespace)"
    for key, attempt in known.items():
        outcome, snapshots = attempt["outcome"], times.get(key, 0)
        allowed = {"acknowledged": (1,), "refused": (0,), "unknown": (0, 1)}[outcome]
        if snapshots not in allowed:
            yield f"{name}: {key} was {outcome} and has {snapshots} snapshots"
        if attempt["kind"] == "appends" and counts.get(key, 0) != snapshots * BATCH:
            yield f"{name}: {key} was {outcome}, has {snapshots} snapshots of {BATCH} rows, and {counts.get(key, 0)} rows"
    # Of overwrites, the newest in the history of each writer is what is there, once.
    newest = {}
    for snapshot in reversed(history):
        attempt = known.get(snapshot.summary.additional_properties.get("load-id"))
        if attempt and attempt["kind"] == "overwrites":
            newest[attempt["writer"]] = attempt["id"]
    if any(attempt["kind"] == "overwrites" for attempt in attempts) and counts != {key: 1 for key in newest.values()}:
        yield f"{name}: overwrites left {counts}, and the newest are {sorted(newest.values())}"


def verify(options):
    attempts = read(options.record)
    lake, found = catalog(options.url), []
    for name in sorted({attempt["table"] for attempt in attempts}):
        of_table = [attempt for attempt in attempts if attempt["table"] == name]
        found += problems_of(name, of_table, lake.load_table((options.namespace, name)))
    print(json.dumps({"record": options.record, **told(attempts), "problems": len(found)}))
    for problem in found[:20]:
        print(problem)
    if not any(attempt["outcome"] == "acknowledged" for attempt in attempts):
        sys.exit("nothing was acknowledged, so nothing was verified")
    sys.exit(1 if found else 0)


def main():
    parser = argparse.ArgumentParser(prog="scripts/clients/run", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("load", "verify"):
        command = commands.add_parser(name)
        command.add_argument("url", help="the server, such as http://127.0.0.1:8181")
        default = os.path.join(os.environ.get("GLIDEPATH_CLIENTS_DIR", "."), "load.jsonl")
        command.add_argument("--record", default=default, help="the file with what was acknowledged [%(default)s]")
        command.add_argument("--namespace", default="load", help="where the tables are [%(default)s]")
        if name == "load":
            command.add_argument("--kind", choices=("appends", "overwrites"), default="appends")
            command.add_argument("--tables", choices=("hot", "own"), default="hot", help="one for all, or one for each writer")
            command.add_argument("--seconds", type=float, default=20)
            command.add_argument("--writers", type=int, default=4)
    options = parser.parse_args()
    (load if options.command == "load" else verify)(options)


if __name__ == "__main__":
    main()
