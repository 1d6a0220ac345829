"""Spark: inserts, MERGE, UPDATE, compaction beside appends, views, renames, drops."""

import logging
import os
import sys
import tempfile
import threading

from common import TOKEN, WAREHOUSE, Steps, each_once, equal, expect, refused
from pyspark.sql import SparkSession

steps = Steps("spark", __doc__)
APPENDS = 12
os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
# It reports what these checks provoke.
logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL + 1)
settings = {
    "spark.jars": os.environ["SPARK_JAR"],
    "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
    "spark.sql.catalog.lake.type": "rest",
    "spark.sql.catalog.lake.uri": steps.url,
    # Or a table is what it was when this session first read it.
    "spark.sql.catalog.lake.cache-enabled": "false",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "1",
    "spark.log.level": "ERROR",
    # Of Spark's own catalog, which is not used.
    "spark.sql.warehouse.dir": os.path.join(tempfile.gettempdir(), "spark-warehouse"),
}
if TOKEN:
    settings["spark.sql.catalog.lake.token"] = TOKEN
if WAREHOUSE:
    settings["spark.sql.catalog.lake.warehouse"] = WAREHOUSE
builder = SparkSession.builder.master("local[1]").appName("checks")
for key, value in settings.items():
    builder = builder.config(key, value)
spark = builder.getOrCreate()
space = f"lake.{steps.name}"


def ask(query):
    return [tuple(row) for row in spark.sql(query).collect()]


def ids(table):
    return sorted(row[0] for row in ask(f"SELECT id FROM {space}.{table}"))


def snapshots(table):
    return ask(f"SELECT operation FROM {space}.{table}.snapshots ORDER BY committed_at")


def create_and_insert():
    ask(f"CREATE NAMESPACE {space}")
    ask(f"CREATE TABLE {space}.one (id BIGINT, word STRING) USING iceberg TBLPROPERTIES ('format-version' = '2')")
    ask(f"INSERT INTO {space}.one VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    equal(ids("one"), [1, 2, 3], "rows")
    equal([row[1] for row in ask(f"SHOW TABLES IN {space}")], ["one"], "tables")


def create_as_select():
    """Stages the table, then commits it with its rows."""
    ask(f"CREATE TABLE {space}.copy USING iceberg AS SELECT * FROM {space}.one")
    equal(ids("copy"), [1, 2, 3], "rows of the copy")
    ask(f"CREATE OR REPLACE TABLE {space}.copy USING iceberg AS SELECT id + 10 AS id FROM {space}.one")
    equal(ids("copy"), [11, 12, 13], "rows of the replaced copy")


def merge():
    ask(f"""MERGE INTO {space}.one t USING (SELECT 2 AS id, 'merged' AS word UNION ALL SELECT 4, 'new') s ON t.id = s.id
            WHEN MATCHED THEN UPDATE SET word = s.word WHEN NOT MATCHED THEN INSERT *""")
    equal(ask(f"SELECT id, word FROM {space}.one ORDER BY id"), [(1, "a"), (2, "merged"), (3, "c"), (4, "new")], "after MERGE")


def update_and_delete():
    ask(f"UPDATE {space}.one SET word = 'up' WHERE id = 3")
    ask(f"DELETE FROM {space}.one WHERE id = 1")
    equal(ask(f"SELECT id, word FROM {space}.one ORDER BY id"), [(2, "merged"), (3, "up"), (4, "new")], "rows")


def merge_on_read():
    mode = ", ".join(f"'write.{what}.mode' = 'merge-on-read'" for what in ("update", "delete", "merge"))
    ask(f"CREATE TABLE {space}.deltas (id BIGINT, word STRING) USING iceberg TBLPROPERTIES ('format-version' = '2', {mode})")
    ask(f"INSERT INTO {space}.deltas SELECT id, 'a' FROM range(100)")
    ask(f"UPDATE {space}.deltas SET word = 'b' WHERE id < 10")
    ask(f"DELETE FROM {space}.deltas WHERE id >= 50")
    equal(ask(f"SELECT word, count(*) FROM {space}.deltas GROUP BY word ORDER BY word"), [("a", 40), ("b", 10)], "rows")


def compaction_beside_appends():
    """A stream appends while files are rewritten again and again."""
    ask(f"CREATE TABLE {space}.hot (id BIGINT) USING iceberg TBLPROPERTIES ('commit.retry.num-retries' = '50')")
    acknowledged, unknown, problems, compacted, done = [], [], [], [0], threading.Event()

    def append():
        for number in range(APPENDS):
            try:
                ask(f"INSERT INTO {space}.hot VALUES ({number})")
            except Exception as error:
                unknown.append(number)
                problems.append(" ".join(str(error).split())[:200])
            else:
                acknowledged.append(number)
        done.set()

    stream = threading.Thread(target=append)
    stream.start()
    while not done.is_set():
        try:
            ask(f"CALL lake.system.rewrite_data_files(table => '{steps.name}.hot', options => map('min-input-files', '2'))")
            compacted[0] += 1
        except Exception as error:
            problems.append(" ".join(str(error).split())[:200])
    stream.join()
    each_once(ids("hot"), acknowledged, "appends beside compaction", unknown)
    made = [row[0] for row in snapshots("hot")]
    appended = made.count("append")
    most = len(acknowledged) + len(unknown)
    expect(len(acknowledged) <= appended <= most, f"{len(acknowledged)} to {most} appends made {appended} snapshots")
    return f"{len(acknowledged)} acknowledged, {made.count('replace')} compactions, {len(problems)} exceptions {problems[:1]}"


def structured_stream():
    """Spark's own streaming: rows in, in as many commits as there are batches."""
    ask(f"CREATE TABLE {space}.stream (value BIGINT) USING iceberg")
    with tempfile.TemporaryDirectory(dir=os.environ.get("GLIDEPATH_CLIENTS_DIR")) as folder:
        for number in range(3):
            spark.range(number * 10, number * 10 + 10).toDF("value").coalesce(1).write.mode("append").parquet(f"{folder}/in")
        source = spark.readStream.schema("value BIGINT").option("maxFilesPerTrigger", 1).parquet(f"{folder}/in")
        sink = source.writeStream.format("iceberg").option("checkpointLocation", f"{folder}/checkpoint").trigger(availableNow=True)
        sink.toTable(f"{space}.stream").awaitTermination()
    found = [row[0] for row in ask(f"SELECT value FROM {space}.stream")]
    each_once(found, range(30), "rows of a stream")
    return f"{len(snapshots('stream'))} commits"


def maintenance():
    before = ids("hot")
    ask(f"CALL lake.system.rewrite_manifests('{steps.name}.hot')")
    ask(f"CALL lake.system.expire_snapshots(table => '{steps.name}.hot', older_than => now(), retain_last => 1)")
    equal(len(snapshots("hot")), 1, "snapshots that are left")
    equal(ids("hot"), before, "rows after expiry")


def time_travel_and_rollback():
    oldest = ask(f"SELECT snapshot_id FROM {space}.one.snapshots ORDER BY committed_at LIMIT 1")[0][0]
    equal(sorted(row[0] for row in ask(f"SELECT id FROM {space}.one VERSION AS OF {oldest}")), [1, 2, 3], "the oldest snapshot")
    ask(f"CALL lake.system.rollback_to_snapshot('{steps.name}.one', {oldest})")
    equal(ids("one"), [1, 2, 3], "rows after the rollback")


def schema_and_partitions():
    ask(f"ALTER TABLE {space}.one ADD COLUMN more INT")
    ask(f"ALTER TABLE {space}.one ADD PARTITION FIELD bucket(4, id)")
    ask(f"ALTER TABLE {space}.one SET TBLPROPERTIES ('a' = '1')")
    ask(f"INSERT INTO {space}.one VALUES (9, 'i', 7)")
    equal(ask(f"SELECT id, more FROM {space}.one ORDER BY id"), [(1, None), (2, None), (3, None), (9, 7)], "rows")


def version_3():
    """Types that the server keeps without knowing them, and partitions by days beside months."""
    table = f"{space}.third"
    ask(f"CREATE TABLE {table} (id BIGINT, any VARIANT, at TIMESTAMP) USING iceberg TBLPROPERTIES ('format-version' = '3')")
    ask(f"""INSERT INTO {table} VALUES (1, parse_json('{{"a": 7}}'), TIMESTAMP '2026-11-01 10:00:00')""")
    ask(f"ALTER TABLE {table} ADD PARTITION FIELD months(at)")
    ask(f"ALTER TABLE {table} ADD PARTITION FIELD days(at)")
    ask(f"ALTER TABLE {table} ADD COLUMN other VARIANT")
    ask(f"""INSERT INTO {table} VALUES (2, parse_json('[1]'), TIMESTAMP '2026-11-02 10:00:00', parse_json('"b"'))""")
    ask(f"UPDATE {table} SET id = 3 WHERE id = 1")
    equal(ids("third"), [2, 3], "rows")
    equal(ask(f"SELECT variant_get(any, '$.a', 'int') FROM {table} WHERE id = 3"), [(7,)], "the variant")
    equal([row[1] for row in ask(f"DESCRIBE {table}")[:4]], ["bigint", "variant", "timestamp", "variant"], "types")
    transforms = [row[1] for row in ask(f"DESCRIBE {table}") if row[0].startswith("Part ")]
    equal(transforms, ["months(at)", "days(at)"], "partitions")


def views():
    ask(f"CREATE VIEW {space}.seen AS SELECT id FROM {space}.one WHERE id > 2")
    equal(ids("seen"), [3, 9], "rows of the view")
    ask(f"CREATE OR REPLACE VIEW {space}.seen AS SELECT id FROM {space}.one WHERE id > 8")
    equal(ids("seen"), [9], "rows of the replaced view")
    equal([row[1] for row in ask(f"SHOW VIEWS IN {space}")], ["seen"], "views")
    ask(f"ALTER VIEW {space}.seen RENAME TO {space}.watched")
    equal(ids("watched"), [9], "rows of the renamed view")
    ask(f"DROP VIEW {space}.watched")
    equal(ask(f"SHOW VIEWS IN {space}"), [], "views in the end")


def rename():
    ask(f"ALTER TABLE {space}.copy RENAME TO {steps.name}.moved")
    equal(ids("moved"), [11, 12, 13], "rows of the renamed table")
    refused("reading the old name", lambda: ids("copy"))


def drop():
    refused("dropping a namespace with tables", lambda: ask(f"DROP NAMESPACE {space}"))
    for row in ask(f"SHOW TABLES IN {space}"):
        ask(f"DROP TABLE {space}.{row[1]} PURGE")
    equal(ask(f"SHOW TABLES IN {space}"), [], "tables in the end")
    ask(f"DROP NAMESPACE {space}")


for run in (create_and_insert, create_as_select, merge, update_and_delete, merge_on_read, compaction_beside_appends,
            structured_stream, maintenance, time_travel_and_rollback, schema_and_partitions, version_3, views, rename, drop):
    steps.step(run.__name__.replace("_", " "), run)
sys.stdout.flush()
spark.stop()
steps.end()
