"""DuckDB: tables, transactions over two of them, concurrent inserts."""

import json
import threading
import urllib.request

import duckdb
from common import TOKEN, WAREHOUSE, Steps, each_once, equal, expect, refused
from duckdb_extensions import import_extension

steps = Steps("duckdb", __doc__)
ROUNDS, WRITERS = 10, 2


def connect():
    connection = duckdb.connect(config={"threads": 1})
    for extension in ("avro", "httpfs", "iceberg"):
        connection.execute(f"LOAD {extension}")
    access = f"TOKEN '{TOKEN}'" if TOKEN else "AUTHORIZATION_TYPE 'none'"
    connection.execute(f"ATTACH '{WAREHOUSE}' AS lake (TYPE iceberg, ENDPOINT '{steps.url}', {access})")
    return connection


for extension in ("avro", "httpfs", "iceberg"):
    import_extension(extension)
first = connect()
space = f"lake.{steps.name}"


def ask(query, connection=first):
    return connection.execute(query).fetchall()


def ids(table, connection=first):
    return sorted(row[0] for row in ask(f"SELECT id FROM {space}.{table}", connection))


def create():
    ask(f"CREATE SCHEMA {space}")
    for table in ("one", "two", "hot"):
        ask(f"CREATE TABLE {space}.{table} (id BIGINT, word VARCHAR)")
        equal(ids(table), [], f"a new table {table}")
    names = {row[0] for row in ask(f"SELECT table_name FROM duckdb_tables() WHERE schema_name = '{steps.name}'")}
    expect({"one", "two", "hot"} <= names, f"the schema lists {names}")


def insert():
    for number in range(3):
        ask(f"INSERT INTO {space}.one VALUES ({number}, 'w{number}')")
    equal(ids("one"), [0, 1, 2], "after three inserts")
    equal(ids("one", connect()), [0, 1, 2], "another connection, after three inserts")


def both_tables():
    before = len(ids("one")), len(ids("two"))
    ask("BEGIN")
    ask(f"INSERT INTO {space}.one VALUES (10, 'both')")
    ask(f"INSERT INTO {space}.two VALUES (10, 'both')")
    other = connect()
    equal((len(ids("one", other)), len(ids("two", other))), before, "another connection before COMMIT")
    ask("COMMIT")
    other = connect()
    for table in ("one", "two"):
        equal(ids(table, other).count(10), 1, f"the row in {table} after COMMIT")


def rollback():
    before = ids("one"), ids("two")
    ask("BEGIN")
    ask(f"INSERT INTO {space}.one VALUES (20, 'never')")
    ask(f"INSERT INTO {space}.two VALUES (20, 'never')")
    ask("ROLLBACK")
    equal((ids("one", connect()), ids("two", connect())), before, "after ROLLBACK")


def conflict_on_one_of_two():
    """A transaction over two tables, one of which has changed, changes neither."""
    other = connect()
    ask("BEGIN")
    ask(f"INSERT INTO {space}.two VALUES (30, 'torn')")
    ask(f"DELETE FROM {space}.one WHERE id = 1")
    ask(f"DELETE FROM {space}.one WHERE id = 0", other)
    why = refused("a COMMIT that deletes beside another delete", lambda: ask("COMMIT"), duckdb.Error)
    found = connect()
    equal(ids("two", found).count(30), 0, "rows of the refused transaction in the unchanged table")
    equal(ids("one", found).count(1), 1, "the row that the refused transaction deleted")
    equal(ids("one", found).count(0), 0, "the row that the other one deleted")
    return " ".join(why.split())[:250]


def update_and_delete():
    ask(f"UPDATE {space}.one SET word = 'new' WHERE id = 2")
    equal(ask(f"SELECT word FROM {space}.one WHERE id = 2"), [("new",)], "after UPDATE")
    ask(f"DELETE FROM {space}.one WHERE id = 2")
    equal(ids("one", connect()).count(2), 0, "the deleted row")


def concurrent(tables, key):
    """Two connections insert into these tables, each insert or transaction with one id."""
    acknowledged, unknown, conflicts, problems = [], [], [0], []

    def write(writer):
        connection = connect()
        for number in range(ROUNDS):
            row = key + writer * ROUNDS + number
            for _ in range(100):
                try:
                    ask("BEGIN", connection)
                    for table in tables:
                        ask(f"INSERT INTO {space}.{table} VALUES ({row}, 'concurrent')", connection)
                    ask("COMMIT", connection)
                except duckdb.Error as error:
                    try:
                        ask("ROLLBACK", connection)
                    except duckdb.Error:
                        pass  # The transaction has ended.
                    # DuckDB tells the server's answer in its message: 409 is the only one that is certainly a refusal.
                    if not any(sign in str(error) for sign in ("409", "Conflict", "CommitFailed")):
                        unknown.append(row)
                        problems.append(" ".join(str(error).split())[:200])
                        break
                    conflicts[0] += 1
                else:
                    acknowledged.append(row)
                    break

    writers = [threading.Thread(target=write, args=[number]) for number in range(WRITERS)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    found = connect()
    for table in tables:
        there = [row for row in ids(table, found) if row >= key]
        each_once(there, acknowledged, f"concurrent inserts into {table}", unknown)
    if len(tables) > 1:
        for row in unknown:
            there = {table for table in tables if row in ids(table, found)}
            expect(len(there) in (0, len(tables)), f"the transaction {row} is in {there} only")
    expect(acknowledged, f"no insert was acknowledged: {problems[:1]}")
    return f"{len(acknowledged)} acknowledged, {conflicts[0]} conflicts, {len(unknown)} of unknown outcome {problems[:1]}"


def create_as():
    """DuckDB stages a table that it fills in the transaction that creates it."""
    ask(f"CREATE TABLE {space}.filled AS SELECT range AS id FROM range(3)")
    ask("BEGIN")
    ask(f"CREATE TABLE {space}.later (id BIGINT)")
    ask(f"INSERT INTO {space}.later VALUES (7)")
    ask("COMMIT")
    found = connect()
    equal((ids("filled", found), ids("later", found)), ([0, 1, 2], [7]), "tables that were filled when they were created")
    for table in ("filled", "later"):
        ask(f"DROP TABLE {space}.{table}")


def concurrent_and_rebased():
    """With the property, the server puts appends of a transaction on those of others, in each of its tables."""
    for table in ("one", "two"):
        update = {"action": "set-properties", "updates": {"glidepath.append-rebase": "true"}}
        body = json.dumps({"requirements": [], "updates": [update]}).encode()
        url = f"{steps.url}/v1/namespaces/{steps.name}/tables/{table}"
        headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {TOKEN}"} if TOKEN else {})}
        request = urllib.request.Request(url, body, headers)
        with urllib.request.urlopen(request) as answer:
            answer.read()
    told = concurrent(["one", "two"], 3000)
    expect(" 0 conflicts" in told, f"appends are rebased: {told}")
    return told


def alter():
    ask(f"CREATE TABLE {space}.wide (id BIGINT)")
    ask(f"INSERT INTO {space}.wide VALUES (1)")
    ask(f"ALTER TABLE {space}.wide ADD COLUMN more VARCHAR")
    ask(f"INSERT INTO {space}.wide VALUES (2, 'x')")
    equal(sorted(ask(f"SELECT id, more FROM {space}.wide", connect())), [(1, None), (2, "x")], "rows of two schemas")


def drop():
    for table in ("one", "two", "hot"):
        ask(f"DROP TABLE {space}.{table}")
    ask(f"DROP TABLE IF EXISTS {space}.wide")
    refused("reading a dropped table", lambda: ids("one", connect()), duckdb.Error)
    ask(f"DROP SCHEMA {space}")


steps.step("create", create)
steps.step("insert", insert)
steps.step("transaction over two tables", both_tables)
steps.step("rollback", rollback)
steps.step("update and delete", update_and_delete)
steps.step("conflict on one of two tables", conflict_on_one_of_two)
steps.step("concurrent inserts", lambda: concurrent(["hot"], 1000))
steps.step("concurrent transactions", lambda: concurrent(["one", "two"], 2000))
steps.step("concurrent transactions that are rebased", concurrent_and_rebased)
steps.step("create table as", create_as)
steps.step("alter", alter)
steps.step("drop", drop)
steps.end()
