"""pyiceberg: namespaces, schemas, overwrites, renames, views, concurrent appends, time travel."""

import threading

import pyarrow as pa
from common import Steps, catalog, each_once, equal, expect, refused
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType

steps = Steps("pyiceberg", __doc__)
lake = catalog(steps.url)
space = (steps.name,)
SCHEMA = Schema(NestedField(1, "id", LongType(), required=False), NestedField(2, "word", StringType(), required=False))
APPENDS, WRITERS, EACH = 12, 4, 8


def rows(ids, word="w"):
    return pa.table({"id": pa.array(ids, pa.int64()), "word": pa.array([word] * len(ids), pa.string())})


def ids(table, **scan):
    return sorted(lake.load_table((*space, table)).scan(**scan).to_arrow()["id"].to_pylist())


def namespaces():
    lake.create_namespace(space, {"owner": "checks"})
    refused("creating it again", lambda: lake.create_namespace(space), NamespaceAlreadyExistsError)
    expect(space in lake.list_namespaces(), "the namespace is not listed")
    equal(lake.load_namespace_properties(space).get("owner"), "checks", "its property")
    summary = lake.update_namespace_properties(space, removals={"owner", "none"}, updates={"more": "1"})
    equal((summary.removed, summary.updated, summary.missing), (["owner"], ["more"], ["none"]), "changed properties")
    properties = lake.load_namespace_properties(space)
    expect("owner" not in properties and properties.get("more") == "1", f"properties after the change: {properties}")
    refused("loading a missing one", lambda: lake.load_namespace_properties((steps.name + "x",)), NoSuchNamespaceError)
    refused("dropping a missing one", lambda: lake.drop_namespace((steps.name + "x",)), NoSuchNamespaceError)


def nested():
    inner, innermost = (*space, "inner"), (*space, "inner", "most")
    lake.create_namespace(inner)
    lake.create_namespace(innermost)
    equal(lake.list_namespaces(space), [inner], "children")
    equal(lake.list_namespaces(inner), [innermost], "grandchildren")
    refused("dropping a parent", lambda: lake.drop_namespace(inner), NamespaceNotEmptyError)
    lake.create_table((*innermost, "deep"), SCHEMA)
    equal(lake.list_tables(innermost), [(*innermost, "deep")], "tables of the innermost")
    refused("dropping a namespace with a table", lambda: lake.drop_namespace(innermost), NamespaceNotEmptyError)
    lake.drop_table((*innermost, "deep"))
    lake.drop_namespace(innermost)
    lake.drop_namespace(inner)
    equal(lake.list_namespaces(space), [], "children in the end")


def appends():
    table = lake.create_table((*space, "appended"), SCHEMA, properties={"owner": "checks"})
    refused("creating it again", lambda: lake.create_table((*space, "appended"), SCHEMA), TableAlreadyExistsError)
    for number in range(APPENDS):
        table.append(rows([number]))
    equal(ids("appended"), list(range(APPENDS)), "rows")
    snapshots = lake.load_table((*space, "appended")).metadata.snapshots
    equal(len(snapshots), APPENDS, "snapshots")
    numbers = [snapshot.sequence_number for snapshot in snapshots]
    equal(numbers, sorted(set(numbers)), "sequence numbers, each once and growing")


def time_travel():
    for number, snapshot in enumerate(lake.load_table((*space, "appended")).metadata.snapshots):
        equal(ids("appended", snapshot_id=snapshot.snapshot_id), list(range(number + 1)), f"snapshot {number}")


def refs():
    table = lake.load_table((*space, "appended"))
    oldest = table.metadata.snapshots[0].snapshot_id
    table.manage_snapshots().create_tag(oldest, "oldest").create_branch(oldest, "side").commit()
    table = lake.load_table((*space, "appended"))
    expect({"oldest", "side", "main"} <= set(table.metadata.refs), f"refs: {set(table.metadata.refs)}")
    table.append(rows([100]), branch="side")
    equal(ids("appended"), list(range(APPENDS)), "main after an append to a branch")
    table = lake.load_table((*space, "appended"))
    side = sorted(table.scan().use_ref("side").to_arrow()["id"].to_pylist())
    equal(side, [0, 100], "the branch")


def schema_evolution():
    table = lake.create_table((*space, "evolved"), SCHEMA)
    table.append(rows([1]))
    with table.update_schema() as update:
        update.add_column("more", LongType())
        update.rename_column("word", "term")
    with table.update_spec() as update:
        update.add_identity("term")
    with table.transaction() as change:
        change.set_properties({"a": "1", "b": "2"})
    with table.transaction() as change:
        change.remove_properties("a")
    table = lake.load_table((*space, "evolved"))
    equal(table.schema().column_names, ["id", "term", "more"], "columns")
    equal([field.name for field in table.spec().fields], ["term"], "partitioned by")
    expect("a" not in table.properties and table.properties.get("b") == "2", f"properties: {table.properties}")
    table.append(pa.table({"id": [2], "term": ["t"], "more": [7]}))
    found = sorted(zip(*(lake.load_table((*space, "evolved")).scan().to_arrow()[name].to_pylist() for name in ("id", "more"))))
    equal(found, [(1, None), (2, 7)], "rows of both schemas")


def overwrites():
    table = lake.create_table((*space, "overwritten"), SCHEMA)
    table.append(rows([1, 2, 3]))
    table.overwrite(rows([2, 20]), overwrite_filter="id == 2")
    equal(ids("overwritten"), [1, 2, 3, 20], "after an overwrite of one row")
    table.delete("id < 3")
    equal(ids("overwritten"), [3, 20], "after a delete")
    table.overwrite(rows([9]))
    equal(ids("overwritten"), [9], "after an overwrite of all")


def stale_overwrites():
    """Of two overwrites of the same row that both began with one snapshot, one is refused."""
    lake.create_table((*space, "contended"), SCHEMA, properties={"commit.retry.num-retries": "0"}).append(rows([5]))
    one, other = lake.load_table((*space, "contended")), lake.load_table((*space, "contended"))
    one.overwrite(rows([5], "one"), overwrite_filter="id == 5")
    refused("an overwrite of a stale snapshot",
            lambda: other.overwrite(rows([5], "other"), overwrite_filter="id == 5"), CommitFailedException)
    words = lake.load_table((*space, "contended")).scan().to_arrow()["word"].to_pylist()
    equal(words, ["one"], "what the row holds")


def concurrent_appends():
    table = lake.create_table((*space, "hot"), SCHEMA, properties={"commit.retry.num-retries": "0"})
    acknowledged, unknown, conflicts, problems = [], [], [0], []

    def write(writer):
        own = catalog(steps.url)
        for number in range(EACH):
            row = writer * EACH + number
            # Our own retries, each of which begins with a fresh table, so that they can be counted.
            for _ in range(200):
                try:
                    own.load_table((*space, "hot")).append(rows([row]))
                except CommitFailedException:
                    conflicts[0] += 1
                except Exception as error:
                    unknown.append(row)
                    problems.append(f"{type(error).__name__}: {error}"[:200])
                    break
                else:
                    acknowledged.append(row)
                    break

    writers = [threading.Thread(target=write, args=[number]) for number in range(WRITERS)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    each_once(ids("hot"), acknowledged, "concurrent appends", unknown)
    snapshots = len(table.refresh().metadata.snapshots)
    most = len(acknowledged) + len(unknown)
    expect(len(acknowledged) <= snapshots <= most, f"{len(acknowledged)} to {most} appends made {snapshots} snapshots")
    expect(acknowledged, f"no append was acknowledged: {problems[:1]}")
    return f"{len(acknowledged)} acknowledged, {conflicts[0]} conflicts, {len(unknown)} of unknown outcome {problems[:1]}"


def default_retries():
    """pyiceberg's own retries, as users have them."""
    lake.create_table((*space, "warm"), SCHEMA, properties={"commit.retry.num-retries": "20"})
    acknowledged, unknown, problems = [], [], []

    def write(writer):
        table = catalog(steps.url).load_table((*space, "warm"))
        for number in range(EACH):
            row = writer * EACH + number
            try:
                table.append(rows([row]))
            except Exception as error:
                unknown.append(row)
                problems.append(f"{type(error).__name__}: {error}"[:200])
                table = table.refresh()
            else:
                acknowledged.append(row)

    writers = [threading.Thread(target=write, args=[number]) for number in range(WRITERS)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    each_once(ids("warm"), acknowledged, "appends with the client's retries", unknown)
    return f"{len(acknowledged)} acknowledged, {len(unknown)} exceptions {problems[:1]}"


def rename():
    table = lake.create_table((*space, "before"), SCHEMA)
    table.append(rows([1]))
    lake.create_table((*space, "taken"), SCHEMA)
    refused("a rename to a taken name", lambda: lake.rename_table((*space, "before"), (*space, "taken")), TableAlreadyExistsError)
    lake.rename_table((*space, "before"), (*space, "after"))
    equal(ids("after"), [1], "rows after the rename")
    refused("loading the old name", lambda: lake.load_table((*space, "before")), NoSuchTableError)
    refused("renaming a missing table", lambda: lake.rename_table((*space, "before"), (*space, "x")), NoSuchTableError)


def register():
    location = lake.load_table((*space, "after")).metadata_location
    lake.drop_table((*space, "after"))
    lake.register_table((*space, "registered"), location)
    equal(ids("registered"), [1], "rows of the registered table")


def create_transaction():
    with lake.create_table_transaction((*space, "staged"), SCHEMA) as change:
        expect(not lake.table_exists((*space, "staged")), "a staged table is there before its commit")
        change.append(rows([1]))
    equal(ids("staged"), [1], "rows of a table made and filled in one commit")


def views():
    equal(lake.list_views(space), [], "views of a namespace without any")


def drop():
    tables = lake.list_tables(space)
    for number, table in enumerate(tables):
        (lake.purge_table if number % 2 else lake.drop_table)(table)
        refused("loading a dropped table", lambda: lake.load_table(table), NoSuchTableError)
    refused("dropping it again", lambda: lake.drop_table(tables[0]), NoSuchTableError)
    lake.drop_namespace(space)
    expect(space not in lake.list_namespaces(), "the dropped namespace is listed")


for run in (namespaces, nested, appends, time_travel, refs, schema_evolution, overwrites, stale_overwrites, concurrent_appends,
            default_retries, rename, register, create_transaction, views, drop):
    steps.step(run.__name__.replace("_", " "), run)
steps.end()
