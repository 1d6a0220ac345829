"""pylance and lancedb over a Lance REST namespace: namespaces, writes, concurrent appends, renames, drops."""

import os
import threading

import lance
import lance_namespace
import lancedb
import pyarrow as pa
from common import TOKEN, Steps, each_once, equal, expect, refused
from lance_namespace import (
    CreateNamespaceRequest,
    DeregisterTableRequest,
    DescribeNamespaceRequest,
    DescribeTableRequest,
    DropNamespaceRequest,
    DropTableRequest,
    ListNamespacesRequest,
    ListTablesRequest,
    NamespaceExistsRequest,
    RegisterTableRequest,
    RenameTableRequest,
    TableExistsRequest,
)

steps = Steps("lance", __doc__)
APPENDS, WRITERS, EACH = 8, 4, 8
# KEY=VALUE of the namespace, with blanks between.
PROPERTIES = dict(pair.split("=", 1) for pair in os.environ.get("GLIDEPATH_LANCE_PROPERTIES", "").split())
properties = {"uri": steps.url}
if TOKEN:
    properties["header.Authorization"] = f"Bearer {TOKEN}"


def connect():
    return lance_namespace.connect("rest", properties)


client = connect()
space = [steps.name]


def rows(ids):
    return pa.table({"id": pa.array(ids, pa.int64())})


def write(table, ids, mode, by=client):
    return lance.write_dataset(rows(ids), namespace_client=by, table_id=[*space, table], mode=mode)


def opened(table, by=client, **options):
    return lance.dataset(namespace_client=by, table_id=[*space, table], **options)


def ids(table, **options):
    return sorted(opened(table, **options).to_table()["id"].to_pylist())


def tables(within=None):
    listed, token = [], None
    while True:
        page = client.list_tables(ListTablesRequest(id=within or space, page_token=token, limit=2))
        expect(len(page.tables) <= 2, f"a page of {len(page.tables)} tables, where 2 were asked for")
        listed += page.tables
        token = page.page_token
        if not token:
            return sorted(listed)


def namespaces():
    client.create_namespace(CreateNamespaceRequest(id=space, properties={"owner": "checks", **PROPERTIES}))
    refused("creating it again", lambda: client.create_namespace(CreateNamespaceRequest(id=space, mode="create")))
    client.namespace_exists(NamespaceExistsRequest(id=space))
    refused("a missing namespace", lambda: client.namespace_exists(NamespaceExistsRequest(id=[steps.name + "x"])))
    equal(client.describe_namespace(DescribeNamespaceRequest(id=space)).properties.get("owner"), "checks", "its property")
    expect(steps.name in client.list_namespaces(ListNamespacesRequest(id=[])).namespaces, "the namespace is not listed")


def nested():
    inner = [*space, "inner"]
    client.create_namespace(CreateNamespaceRequest(id=inner))
    equal(client.list_namespaces(ListNamespacesRequest(id=space)).namespaces, ["inner"], "children")
    refused("dropping a parent", lambda: client.drop_namespace(DropNamespaceRequest(id=space)))
    lance.write_dataset(rows([1]), namespace_client=client, table_id=[*inner, "deep"], mode="create")
    equal(tables(inner), ["deep"], "tables of the inner namespace")
    refused("dropping a namespace with a table", lambda: client.drop_namespace(DropNamespaceRequest(id=inner)))
    client.drop_table(DropTableRequest(id=[*inner, "deep"]))
    client.drop_namespace(DropNamespaceRequest(id=inner))
    refused("a table in a missing namespace", lambda: lance.write_dataset(
        rows([1]), namespace_client=client, table_id=[*inner, "deep"], mode="create"))


def writes():
    write("one", [0], "create")
    refused("creating it again", lambda: write("one", [0], "create"))
    for number in range(1, APPENDS):
        write("one", [number], "append")
    equal(ids("one"), list(range(APPENDS)), "rows")
    equal(len(opened("one").versions()), APPENDS, "versions")
    equal(ids("one", version=3), [0, 1, 2], "version 3")
    write("one", [50, 51], "overwrite")
    equal(ids("one"), [50, 51], "rows after the overwrite")
    opened("one").delete("id = 50")
    equal(ids("one"), [51], "rows after a delete")


def describe_and_list():
    for name in ("two", "three"):
        write(name, [1], "create")
    equal(tables(), ["one", "three", "two"], "tables, page by page")
    expect(client.describe_table(DescribeTableRequest(id=[*space, "one"])).location, "a table has no location")
    client.table_exists(TableExistsRequest(id=[*space, "one"]))
    for request, call in ((TableExistsRequest, client.table_exists), (DescribeTableRequest, client.describe_table)):
        refused("a missing table", lambda: call(request(id=[*space, "none"])))


def names():
    """Unusual names are themselves. Not those with spaces, which the client writes in two ways in one request."""
    strange = ["dot.ted", "per%cent", "ünï"]
    for number, name in enumerate(strange):
        write(name, [number], "create")
    for number, name in enumerate(strange):
        equal(ids(name), [number], f"rows of {name!r}")
    expect(set(strange) <= set(tables()), f"tables: {tables()}")
    for name in strange:
        client.drop_table(DropTableRequest(id=[*space, name]))


def concurrent_appends():
    write("hot", [], "create")
    acknowledged, unknown, problems = [], [], []

    def append(writer):
        own = connect()
        for number in range(EACH):
            row = writer * EACH + number
            try:
                write("hot", [row], "append", own)
            except Exception as error:
                unknown.append(row)
                problems.append(" ".join(str(error).split())[:200])
            else:
                acknowledged.append(row)

    writers = [threading.Thread(target=append, args=[number]) for number in range(WRITERS)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    each_once(ids("hot"), acknowledged, "concurrent appends", unknown)
    versions = len(opened("hot").versions()) - 1
    most = len(acknowledged) + len(unknown)
    expect(len(acknowledged) <= versions <= most, f"{len(acknowledged)} to {most} appends made {versions} versions")
    return f"{len(acknowledged)} acknowledged, {len(unknown)} exceptions {problems[:1]}"


def rename():
    client.rename_table(RenameTableRequest(id=[*space, "two"], new_table_name="moved", new_namespace_id=space))
    equal(ids("moved"), [1], "rows of the renamed table")
    refused("opening the old name", lambda: ids("two"))
    refused("a rename to a taken name", lambda: client.rename_table(
        RenameTableRequest(id=[*space, "moved"], new_table_name="three", new_namespace_id=space)))


def deregister_and_register():
    location = client.describe_table(DescribeTableRequest(id=[*space, "three"])).location
    client.deregister_table(DeregisterTableRequest(id=[*space, "three"]))
    refused("opening a deregistered table", lambda: ids("three"))
    # A location within the root may be asked for without it.
    for form in (location, location.rstrip("/").rpartition("/")[2]):
        try:
            client.register_table(RegisterTableRequest(id=[*space, "again"], location=form))
            break
        except Exception as error:
            problem = error
    else:
        raise problem
    equal(ids("again"), [1], "rows of the registered table")


def through_lancedb():
    base = lancedb.connect_namespace("rest", properties)
    table = base.create_table("vectors", pa.table({"id": pa.array([1, 2], pa.int64())}), namespace_path=space)
    table.add(rows([3]))
    equal(sorted(base.open_table("vectors", namespace_path=space).to_arrow()["id"].to_pylist()), [1, 2, 3], "rows")
    refused("creating it again", lambda: base.create_table("vectors", rows([9]), namespace_path=space))
    base.create_table("vectors", rows([7]), namespace_path=space, mode="overwrite")
    equal(base.open_table("vectors", namespace_path=space).to_arrow()["id"].to_pylist(), [7], "rows after an overwrite")
    expect("vectors" in base.list_tables(namespace_path=space, limit=100).tables, "the table is not listed")
    base.drop_table("vectors", namespace_path=space)
    refused("opening a dropped table", lambda: base.open_table("vectors", namespace_path=space))


def drop():
    for name in tables():
        client.drop_table(DropTableRequest(id=[*space, name]))
        refused("opening a dropped table", lambda: ids(name))
    equal(tables(), [], "tables in the end")
    client.drop_namespace(DropNamespaceRequest(id=space))
    expect(steps.name not in client.list_namespaces(ListNamespacesRequest(id=[])).namespaces, "the dropped namespace is listed")


for run in (namespaces, nested, writes, describe_and_list, names, concurrent_appends, through_lancedb, rename,
            deregister_and_register, drop):
    steps.step(run.__name__.replace("_", " "), run)
steps.end()
