"""Short-lived credentials: pyiceberg, DuckDB and Lance with a token of the server only, on MinIO.

Starts MinIO and the server. No client is given a credential of the storage: it gets them from the server, and the storage
refuses what they are not for."""

import argparse
import contextlib
import hashlib
import json
import os
import pathlib
import re
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

for name in [name for name in os.environ if name.startswith("AWS_")]:
    del os.environ[name]
# What a client would look for if it had no credentials: nothing.
os.environ["AWS_EC2_METADATA_DISABLED"] = "true"

import duckdb
import lance
import lance_namespace
import pyarrow as pa
from common import Steps, catalog, equal, expect, refused
from duckdb_extensions import import_extension
from lance_namespace import CreateNamespaceRequest, DescribeTableRequest
from pyarrow import fs
from pyiceberg.exceptions import ForbiddenError
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

parser = argparse.ArgumentParser(prog="scripts/clients/run credentials", description=__doc__)
parser.add_argument("program", help="glidepath, built with the feature serve")
parser.add_argument("minio", help="the program minio")
parser.add_argument("--only", action="append", metavar="STEP", help="run this step only; may be repeated")
options = parser.parse_args()

OWNER = {"MINIO_ROOT_USER": "glidepath", "MINIO_ROOT_PASSWORD": "glidepath-tests"}
SERVER = {"AWS_ACCESS_KEY_ID": "glidepath", "AWS_SECRET_ACCESS_KEY": "glidepath-tests", "AWS_REGION": "us-east-1"}
USERS = {"root": ("*", "admin"), "writer": ("a", "write"), "reader": ("a", "read"), "other": ("b", "write")}
SCHEMA = Schema(NestedField(1, "id", LongType(), required=False))
KEYS = ("s3.access-key-id", "s3.secret-access-key", "s3.session-token")
FREE_PORTS = pathlib.Path(__file__).resolve().parents[1] / "free-ports"


def token(user):
    return f"token-of-{user}-0123456789"


def await_that(what, holds, seconds=60):
    for _ in range(seconds * 10):
        with contextlib.suppress(Exception):
            found = holds()
            if found:
                return found
        time.sleep(0.1)
    raise SystemExit(f"{what} did not start within {seconds} s")


class Servers:
    """MinIO and the server, which end with this object."""

    def __init__(self, folder):
        self.folder, self.processes = folder, {}
        port, console = subprocess.check_output([FREE_PORTS, "2"], text=True).split()
        self.storage = f"http://127.0.0.1:{port}"
        self.start("minio", [options.minio, "server", f"{folder}/minio", "--address", f"127.0.0.1:{port}",
                             "--console-address", f"127.0.0.1:{console}"], OWNER)
        await_that("MinIO", lambda: urllib.request.urlopen(f"{self.storage}/minio/health/live", timeout=2).status == 200)
        self.owner = self.files({"s3.access-key-id": "glidepath", "s3.secret-access-key": "glidepath-tests"})
        self.owner.create_dir("lake")
        self.serve()

    def start(self, name, command, environment):
        with open(f"{self.folder}/{name}.out", "w") as out, open(f"{self.folder}/{name}.log", "w") as log:
            self.processes[name] = subprocess.Popen(command, stdout=out, stderr=log, env={**os.environ, **environment})

    def serve(self):
        with open(f"{self.folder}/access.toml", "w") as access:
            for user, (on, right) in USERS.items():
                digest = hashlib.sha256(token(user).encode()).hexdigest()
                access.write(f'[[token]]\nname = "{user}"\nsha256 = "{digest}"\n')
                access.write(f'[[grant]]\nto = "user:{user}"\non = "{on}"\nright = "{right}"\n')
        settings = {"s3.endpoint": self.storage, "s3.region": "us-east-1", "s3.path-style-access": "true"}
        self.start("server", [
            options.program, "serve", f"file://{self.folder}/catalog", "--listen", "127.0.0.1:0",
            "--warehouse", f"s3://lake/tables?endpoint={self.storage}&region=us-east-1",
            "--access", f"{self.folder}/access.toml", "--sts", self.storage, "--sts-duration", "900s",
            *(f"--client-setting={key}={value}" for key, value in settings.items()),
        ], SERVER)
        self.url = await_that("the server", lambda: re.search(r"on (http:\S+)", self.said("server.out"))[1])

    def said(self, file):
        with open(f"{self.folder}/{file}") as text:
            return text.read()

    def files(self, config):
        """The storage, with these credentials."""
        return fs.S3FileSystem(
            access_key=config["s3.access-key-id"], secret_key=config["s3.secret-access-key"],
            session_token=config.get("s3.session-token"), endpoint_override=self.storage.removeprefix("http://"),
            scheme="http", region="us-east-1", allow_bucket_creation=True)

    def stop(self, *names):
        for name in names:
            process = self.processes.pop(name, None)
            if process:
                process.terminate()
                process.wait(20)


def ask(user, path, headers=None, body=None):
    """The status, the headers and the JSON of an answer."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(servers.url + path, data, {
        "Authorization": f"Bearer {token(user)}", "Content-Type": "application/json", **(headers or {})})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.headers, json.loads(answer.read() or "null")
    except urllib.error.HTTPError as answer:
        return answer.code, answer.headers, json.loads(answer.read() or "null")


VENDED = {"X-Iceberg-Access-Delegation": "vended-credentials"}


def lake(user):
    return catalog(servers.url, token=token(user))


def credentials(user, table, namespace="a"):
    """What the server gives this user for a table: the folder, without its scheme, and the storage with it."""
    status, _, answer = ask(user, f"/v1/namespaces/{namespace}/tables/{table}/credentials")
    equal(status, 200, "asking for credentials")
    (found,) = answer["storage-credentials"]
    expect(found["config"]["s3.session-token"] and int(found["config"]["s3.session-token-expires-at-ms"]), "no end")
    return found["prefix"].removeprefix("s3://"), servers.files(found["config"])


def put(files, path):
    with files.open_output_stream(path) as out:
        out.write(b"x")


def get(files, path):
    with files.open_input_stream(path) as source:
        return source.read()


def denied(what, call):
    why = refused(what, call, OSError)
    expect("ACCESS_DENIED" in why or "AccessDenied" in why or "403" in why, f"{what} was refused for another reason: {why}")


def names(files, folder):
    return [entry.base_name for entry in files.get_file_info(fs.FileSelector(folder))]


def rows(ids):
    return pa.table({"id": pa.array(ids, pa.int64())})


def ids(user, name):
    return sorted(lake(user).load_table(name).scan().to_arrow()["id"].to_pylist())


def write_and_read():
    for namespace in ("a", "b"):
        lake("root").create_namespace(namespace)
    for number in range(3):
        table = lake("writer").create_table("a.one", SCHEMA) if number == 0 else lake("writer").load_table("a.one")
        table.append(rows([number]))
    equal(ids("writer", "a.one"), [0, 1, 2], "what the writer reads")
    equal(ids("reader", "a.one"), [0, 1, 2], "what the reader reads")
    lake("other").create_table("b.theirs", SCHEMA).append(rows([7]))
    equal(ids("other", "b.theirs"), [7], "what another writer reads")


def create_transaction():
    with lake("writer").create_table_transaction("a.staged", SCHEMA) as change:
        change.append(rows([1]))
    equal(ids("reader", "a.staged"), [1], "rows of a table made and filled in one commit")


def readers_cannot_write():
    folder, files = credentials("reader", "one")
    (data, *_) = names(files, f"{folder}/data")
    expect(get(files, f"{folder}/data/{data}"), "the reader reads an empty file")
    denied("a PUT by the reader", lambda: put(files, f"{folder}/data/new"))
    denied("a DELETE by the reader", lambda: files.delete_file(f"{folder}/data/{data}"))
    refused("an append by the reader", lambda: lake("reader").load_table("a.one").append(rows([9])), OSError, ForbiddenError)
    equal(ids("writer", "a.one"), [0, 1, 2], "rows after it")


def another_folder_is_refused():
    theirs, _ = credentials("other", "theirs", "b")
    (stored, *_) = names(servers.owner, f"{theirs}/data")
    for user in ("reader", "writer"):
        folder, files = credentials(user, "one")
        denied(f"a GET of another table's file by the {user}", lambda: get(files, f"{theirs}/data/{stored}"))
        denied(f"a listing of another table by the {user}", lambda: names(files, theirs))
        denied(f"a listing of the warehouse by the {user}", lambda: names(files, "lake/tables"))
        denied(f"a PUT into another table by the {user}", lambda: put(files, f"{theirs}/data/new"))
        # The folder next to it, whose name begins with the same letters.
        denied(f"a PUT beside the table by the {user}", lambda: put(files, f"{folder}2/data/new"))
    status, _, _ = ask("writer", "/v1/namespaces/b/tables/theirs/credentials")
    equal(status, 404, "credentials for a table that one cannot read")


def metadata_is_the_servers():
    folder, files = credentials("writer", "one")
    (current,) = names(files, f"{folder}/metadata")[:1]
    put(files, f"{folder}/data/more")
    files.delete_file(f"{folder}/data/more")
    metadata = [name for name in names(files, f"{folder}/metadata") if name.endswith(".metadata.json")]
    expect(metadata, f"no metadata file beside {current}")
    denied("a PUT of a metadata file", lambda: put(files, f"{folder}/metadata/{metadata[0]}"))
    denied("a DELETE of a metadata file", lambda: files.delete_file(f"{folder}/metadata/{metadata[0]}"))
    put(files, f"{folder}/metadata/mine.json")
    body = {"name": "mine", "metadata-location": f"s3://{folder}/metadata/mine.json"}
    status, _, answer = ask("writer", "/v1/namespaces/a/register", body=body)
    equal(status, 400, f"registering a file that clients can write: {answer}")


def only_who_asks_gets_them():
    path = "/v1/namespaces/a/tables/one"
    _, plain, answer = ask("writer", path)
    expect(not set(KEYS) & set(answer["config"]) and "storage-credentials" not in answer, "credentials without asking")
    _, headers, answer = ask("writer", path, VENDED)
    expect(set(KEYS) <= set(answer["config"]) and answer["storage-credentials"], f"none: {list(answer['config'])}")
    equal(headers["Cache-Control"], "no-store", "Cache-Control")
    expect(headers["ETag"] != plain["ETag"], "answers with and without credentials have one ETag")
    status, _, _ = ask("writer", path, {**VENDED, "If-None-Match": headers["ETag"]})
    equal(status, 304, "the same again")
    status, _, _ = ask("writer", path, {**VENDED, "If-None-Match": plain["ETag"]})
    equal(status, 200, "again, by one who has no credentials yet")
    status, _, _ = ask("reader", path, {**VENDED, "If-None-Match": headers["ETag"]})
    equal(status, 200, "again, by one with another right")


def strange_locations():
    """A location that would be a pattern in a policy gets no credentials, and opens no other table."""
    folder, _ = credentials("writer", "one")
    namespace = folder.rsplit("/", 1)[0]
    field = {"id": 1, "name": "id", "required": False, "type": "long"}
    for number, name in enumerate(("*", "o*", "${aws:username}", "{one}", "$", "${*}")):
        body = {"name": f"strange{number}", "location": f"s3://{namespace}/{name}",
                "schema": {"type": "struct", "schema-id": 0, "fields": [field]}}
        status, _, answer = ask("writer", "/v1/namespaces/a/tables", VENDED, body)
        equal(status, 200, f"creating a table at {name}: {answer}")
        expect(not set(KEYS) & set(answer["config"]), f"credentials for a table at {name}")
        _, _, answer = ask("writer", f"/v1/namespaces/a/tables/strange{number}/credentials")
        equal(answer, {"storage-credentials": []}, f"credentials for a table at {name}")


def renamed():
    lake("root").create_table("a.moving", SCHEMA).append(rows([5]))
    lake("root").rename_table("a.moving", "b.moved")
    equal(ids("other", "b.moved"), [5], "a table that was renamed into another namespace")


def in_duckdb():
    for extension in ("avro", "httpfs", "iceberg"):
        import_extension(extension)

    def connect(user):
        connection = duckdb.connect(config={"threads": 1})
        for extension in ("avro", "httpfs", "iceberg"):
            connection.execute(f"LOAD {extension}")
        connection.execute(f"ATTACH '' AS lake (TYPE iceberg, ENDPOINT '{servers.url}', TOKEN '{token(user)}')")
        return connection

    writer = connect("writer")
    writer.execute("CREATE TABLE lake.a.ducks (id BIGINT)")
    writer.execute("INSERT INTO lake.a.ducks VALUES (1), (2)")
    query = "SELECT id FROM lake.a.ducks ORDER BY id"
    equal(connect("reader").execute(query).fetchall(), [(1,), (2,)], "what DuckDB reads")
    refused("an INSERT by the reader", lambda: connect("reader").execute("INSERT INTO lake.a.ducks VALUES (3)"), duckdb.Error)
    equal(connect("writer").execute(query).fetchall(), [(1,), (2,)], "what DuckDB reads after it")


def in_lance():
    def connect(user):
        return lance_namespace.connect("rest", {"uri": servers.url, "header.Authorization": f"Bearer {token(user)}"})

    connect("root").create_namespace(CreateNamespaceRequest(id=["a", "l"]))
    writer, reader, name = connect("writer"), connect("reader"), ["a", "l", "vectors"]
    lance.write_dataset(rows([1]), namespace_client=writer, table_id=name, mode="create")
    lance.write_dataset(rows([2]), namespace_client=writer, table_id=name, mode="append")
    found = lance.dataset(namespace_client=reader, table_id=name).to_table()["id"].to_pylist()
    equal(sorted(found), [1, 2], "what Lance reads")
    refused("an append by the reader",
            lambda: lance.write_dataset(rows([3]), namespace_client=reader, table_id=name, mode="append"))
    told = reader.describe_table(DescribeTableRequest(id=name))
    expect(int(told.storage_options["expires_at_millis"]) > time.time() * 1000, f"no end: {list(told.storage_options)}")
    kept = told.storage_options
    files = servers.files({"s3.access-key-id": kept["aws_access_key_id"], "s3.session-token": kept["aws_session_token"],
                           "s3.secret-access-key": kept["aws_secret_access_key"]})
    denied("a PUT by the reader", lambda: put(files, told.location.removeprefix("s3://") + "/data/new"))


def without_the_token_service():
    """Whoever asks for credentials gets 503, not broken ones; whoever does not goes on."""
    lake("writer").create_table("a.late", SCHEMA)
    # The server reads the metadata file, and keeps it in memory.
    equal(ask("writer", "/v1/namespaces/a/tables/late", VENDED)[0], 200, "a load before")
    servers.stop("minio")
    status, headers, answer = ask("reader", "/v1/namespaces/a/tables/late", VENDED)
    equal(status, 503, f"a load with credentials: {answer}")
    expect(headers["Retry-After"], "no Retry-After")
    equal(ask("reader", "/v1/namespaces/a/tables/late/credentials")[0], 503, "asking for credentials")
    equal(ask("reader", "/v1/namespaces/a/tables/late")[0], 200, "a load without credentials")
    # Those of before live for half an hour.
    equal(ask("writer", "/v1/namespaces/a/tables/late", VENDED)[0], 200, "a load with credentials that were given before")


def logs_have_no_secrets():
    _, _, answer = ask("writer", "/v1/namespaces/a/tables/late/credentials")
    config = answer["storage-credentials"][0]["config"]
    log = servers.said("server.log")
    expect(log.count("\n") > 20, "the log is empty")
    for key in KEYS:
        expect(config[key] not in log, f"the log has {key}")
    expect("glidepath-tests" not in log, "the log has the secret of the server")


with tempfile.TemporaryDirectory() as folder:
    servers = Servers(folder)
    steps = Steps("credentials", __doc__, servers.url, options)
    try:
        for run in (write_and_read, create_transaction, readers_cannot_write, another_folder_is_refused,
                    metadata_is_the_servers, only_who_asks_gets_them, strange_locations, renamed, in_duckdb, in_lance,
                    without_the_token_service, logs_have_no_secrets):
            steps.step(run.__name__.replace("_", " "), run)
    finally:
        servers.stop("server", "minio")
steps.end()
