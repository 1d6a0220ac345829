"""The load of `cloud_overhead -- load` from a small client of the standard library alone, and then from ours, on one server.

    scripts/servers exec python3 crates/stores/examples/cloud_load.py PATH-TO-cloud_overhead

Prints pairs of put-if-match and get per second, and the processor time that server and client took.
"""

import datetime, hashlib, hmac, http.client, multiprocessing, os, resource, subprocess, sys, time
from urllib.parse import parse_qs, urlsplit

WRITERS, SECONDS, ROUNDS, SIZE = 16, 5, 3, 200
URL = urlsplit(os.environ["GLIDEPATH_S3"])
SERVER = urlsplit(parse_qs(URL.query)["endpoint"][0])
KEY, SECRET = os.environ["AWS_ACCESS_KEY_ID"], os.environ["AWS_SECRET_ACCESS_KEY"]


def sign(key, text):
    return hmac.new(key, text.encode(), hashlib.sha256).digest()


def send(connection, method, path, body=b"", etag=None):
    now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%dT%H%M%SZ")
    digest = hashlib.sha256(body).hexdigest()
    headers = {"host": SERVER.netloc, "x-amz-content-sha256": digest, "x-amz-date": now}
    if etag:
        headers["if-match"] = etag
    names = ";".join(sorted(headers))
    lines = "".join(f"{name}:{headers[name]}\n" for name in sorted(headers))
    canonical = f"{method}\n{path}\n\n{lines}\n{names}\n{digest}"
    scope = f"{now[:8]}/us-east-1/s3/aws4_request"
    text = f"AWS4-HMAC-SHA256\n{now}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
    key = ("AWS4" + SECRET).encode()
    for part in scope.split("/"):
        key = sign(key, part)
    signature = sign(key, text).hex()
    headers["authorization"] = f"AWS4-HMAC-SHA256 Credential={KEY}/{scope}, SignedHeaders={names}, Signature={signature}"
    connection.request(method, path, body or None, headers)
    answer = connection.getresponse()
    content = answer.read()
    if answer.status >= 300:
        raise RuntimeError(f"{answer.status} {content[:200]}")
    return answer.headers.get("etag")


def writer(number, until, pairs):
    connection = http.client.HTTPConnection(SERVER.hostname, SERVER.port)
    path = f"/{URL.netloc}/load/python-{number}"
    etag, done = send(connection, "PUT", path, bytes(SIZE)), 0
    while time.time() < until:
        done += 1
        etag = send(connection, "PUT", path, done.to_bytes(8, "big") + b"x" * (SIZE - 8), etag)
        send(connection, "GET", path)
    send(connection, "DELETE", path)
    pairs.put(done)


def python():
    pairs, until = multiprocessing.Queue(), time.time() + SECONDS
    writers = [multiprocessing.Process(target=writer, args=(number, until, pairs)) for number in range(WRITERS)]
    for process in writers:
        process.start()
    done = sum(pairs.get() for _ in writers)
    for process in writers:
        process.join()
    return done / SECONDS


def ours():
    output = subprocess.run([sys.argv[1], "load", str(SECONDS)], check=True, capture_output=True, text=True).stdout
    return float(output.split()[0])


def server_process():
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/cmdline") as file:
                words = file.read().split("\0")
        except OSError:
            continue
        if words[0].endswith("versitygw") and SERVER.netloc in words:
            return name
    raise RuntimeError("there is no versitygw at " + SERVER.netloc)


def server_time(process):
    with open(f"/proc/{process}/stat") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def client_time():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def keep_apart(process):
    """The server on one processor, both clients on the others: who is at its limit shows, whatever the other does."""
    first, *others = sorted(os.sched_getaffinity(0))
    if not others:
        raise RuntimeError("one processor for both would not show which of them is at its limit")
    for thread in os.listdir(f"/proc/{process}/task"):
        os.sched_setaffinity(int(thread), {first})
    os.sched_setaffinity(0, others)


process = server_process()
keep_apart(process)
print(f"{WRITERS} writers, {SECONDS} s each; CPU in processors: the server has one, the clients {os.cpu_count() - 1}")
print("client   pairs/s  server CPU  client CPU  client's share  client CPU per pair")
for _ in range(ROUNDS):
    for name, load in (("python", python), ("ours", ours)):
        before, server, client = time.time(), server_time(process), client_time()
        rate = load()
        took = time.time() - before
        server, client = server_time(process) - server, client_time() - client
        print(f"{name:<8}{rate:>8.0f}{server / took:>12.2f}{client / took:>12.2f}{client / (client + server):>15.0%}"
              f"{client / took / rate * 1e6:>18.0f} us", flush=True)
