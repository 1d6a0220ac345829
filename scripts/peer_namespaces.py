#!/usr/bin/env python3
"""Creates namespaces in a Lance directory catalog in a closed loop; prints a line per case.

Each case has its own catalog. It is filled with rows (a third namespaces, the rest tables) by writing the rows of its
manifest table directly, as one version. Writers are processes.
"""

import argparse
import multiprocessing
import resource
import shutil
import time


def fill(root, rows):
    import lance
    import pyarrow as pa

    if rows == 0:
        return
    spaces = rows // 3
    tables = rows - spaces
    key = {"lance-schema:unenforced-primary-key:position": "0"}
    schema = pa.schema([
        pa.field("object_id", pa.string(), False, metadata=key),
        pa.field("object_type", pa.string(), False),
        pa.field("location", pa.string()),
        pa.field("metadata", pa.string()),
        pa.field("base_objects", pa.list_(pa.field("object_id", pa.string()))),
    ])
    columns = [
        [f"ns_{n}" for n in range(spaces)] + [f"table_{n}" for n in range(tables)],
        ["namespace"] * spaces + ["table"] * tables,
        [None] * spaces + [f"table_{n}" for n in range(tables)],
        [None] * spaces + ['{"bench":"true"}'] * tables,
        pa.array([None] * rows, type=schema.field("base_objects").type),
    ]
    lance.write_dataset(pa.table(columns, schema=schema), f"{root}/__manifest")


def write(root, tag, seconds, barrier, results):
    import lance.namespace
    from lance_namespace import CreateNamespaceRequest

    options = {"root": root, "manifest_enabled": "true", "dir_listing_enabled": "false"}
    catalog = lance.namespace.DirectoryNamespace(**options, inline_optimization_enabled="false")
    barrier.wait()
    began, number, latencies, errors = time.perf_counter(), 0, [], 0
    used = resource.getrusage(resource.RUSAGE_SELF)
    while time.perf_counter() - began < seconds:
        sent = time.perf_counter()
        try:
            catalog.create_namespace(CreateNamespaceRequest(id=[f"{tag}-{number:08}"], properties={"bench": "true"}))
            latencies.append(time.perf_counter() - sent)
        except Exception:  # Every exception of the peer counts as an error.
            errors += 1
        number += 1
    now = resource.getrusage(resource.RUSAGE_SELF)
    processor = now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime
    results.put((latencies, errors, time.perf_counter() - began, processor))


def run(spawned, arguments, rows, writers):
    """Latencies in order, errors, commits a second, and milliseconds of processor time for each."""
    shutil.rmtree(arguments.root, ignore_errors=True)
    fill(arguments.root, rows)
    barrier, results = spawned.Barrier(writers), spawned.Queue()
    workers = [
        spawned.Process(target=write, args=(arguments.root, f"w{n}", arguments.seconds, barrier, results))
        for n in range(writers)
    ]
    for worker in workers:
        worker.start()
    done = [results.get() for _ in workers]
    for worker in workers:
        worker.join()
    latencies = sorted(latency for one in done for latency in one[0])
    rate = len(latencies) / max(one[2] for one in done)
    processor = 1000 * sum(one[3] for one in done) / max(1, len(latencies))
    return latencies, sum(one[1] for one in done), rate, processor


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", required=True)
    parser.add_argument("--rows", default="0,1000")
    parser.add_argument("--writers", default="1,16")
    parser.add_argument("--seconds", type=float, default=10)
    arguments = parser.parse_args()
    print(f"{'entries':>9} {'writers':>8} {'commits/s':>10} {'p50 ms':>9} {'p99 ms':>9} {'errors':>7} {'CPU ms':>9}", flush=True)
    spawned = multiprocessing.get_context("spawn")
    rows_first, writers_first = (int(counts.split(",")[0]) for counts in (arguments.rows, arguments.writers))
    # The first case runs twice and only the second run counts, because an idle machine is slow at first.
    run(spawned, arguments, rows_first, writers_first)
    for rows in map(int, arguments.rows.split(",")):
        for writers in map(int, arguments.writers.split(",")):
            latencies, errors, rate, processor = run(spawned, arguments, rows, writers)
            quantile = lambda share: 1000 * latencies[min(len(latencies) - 1, int(share * len(latencies)))] if latencies else float("nan")
            print(
                f"{rows:>9} {writers:>8} {rate:>10.2f} {quantile(0.5):>9.2f} {quantile(0.99):>9.2f} {errors:>7} {processor:>9.2f}",
                flush=True,
            )
    shutil.rmtree(arguments.root, ignore_errors=True)


if __name__ == "__main__":
    main()
