"""What the checks of all clients share: arguments, steps, and the account of what was acknowledged."""

import argparse
import os
import sys
import time
import traceback
import uuid

TOKEN = os.environ.get("GLIDEPATH_TOKEN") or None
WAREHOUSE = os.environ.get("GLIDEPATH_WAREHOUSE", "")


def expect(condition, message):
    if not condition:
        raise AssertionError(message)


def equal(found, expected, what):
    expect(found == expected, f"{what}: found {found!r}, expected {expected!r}")


def refused(what, call, *exceptions):
    """The message with which `call` is refused; it is a failure if it is not."""
    try:
        call()
    except exceptions or (Exception,) as error:
        return str(error)
    raise AssertionError(f"{what} was not refused")


def each_once(found, acknowledged, what, unknown=()):
    """Every acknowledged id is found exactly once, and nothing is found that was not written. Those of unknown outcome
    may be there, once."""
    counts = {}
    for key in found:
        counts[key] = counts.get(key, 0) + 1
    lost = sorted(set(acknowledged) - set(counts))
    twice = sorted(key for key, count in counts.items() if count > 1)
    foreign = sorted(set(counts) - set(acknowledged) - set(unknown))
    problems = [f"{len(keys)} {kind} (such as {keys[:3]})" for kind, keys in
                (("acknowledged and lost", lost), ("there more than once", twice), ("there and never acknowledged", foreign))
                if keys]
    expect(not problems, f"{what}: of {len(set(acknowledged))} acknowledged: " + "; ".join(problems))
    return len(set(acknowledged))


def catalog(url, **properties):
    """pyiceberg's catalog at this URL."""
    from pyiceberg.catalog import load_catalog

    settings = {"type": "rest", "uri": url, **properties}
    if TOKEN:
        settings["token"] = TOKEN
    if WAREHOUSE:
        settings["warehouse"] = WAREHOUSE
    return load_catalog("server", **settings)


class Steps:
    """Runs steps one after another, also after a failure, and tells how each ended."""

    def __init__(self, client, description, url=None, options=None):
        if options is None:
            parser = argparse.ArgumentParser(prog=f"scripts/clients/run {client}", description=description)
            parser.add_argument("url", help="the server, such as http://127.0.0.1:8181")
            parser.add_argument("--only", action="append", metavar="STEP", help="run this step only; may be repeated")
            options = parser.parse_args()
        self.options = options
        self.url, self.failed, self.passed, self.client = (url or options.url).rstrip("/"), [], 0, client
        # Of this run alone, so that a server can be checked again and again.
        self.name = f"{client}_{uuid.uuid4().hex[:8]}"

    def step(self, name, run):
        if self.options.only and name not in self.options.only:
            return
        started = time.monotonic()
        try:
            note = run()
        except Exception as error:
            # The place in these scripts; the rest, hundreds of lines of a client's own, is for a debugger.
            frames = traceback.extract_tb(error.__traceback__)
            frame = next(frame for frame in reversed(frames) if os.path.dirname(frame.filename) == os.path.dirname(__file__))
            self.failed.append(name)
            where = f"{os.path.basename(frame.filename)}:{frame.lineno}"
            outcome, note = "FAILED", f"{where}: {type(error).__name__}: {' '.join(str(error).split())[:400]}"
        else:
            self.passed += 1
            outcome = "passed"
        print(f"{outcome} {name} ({time.monotonic() - started:.1f} s){': ' + note if note else ''}", flush=True)

    def end(self):
        print(f"{self.client}: {self.passed} steps passed, {len(self.failed)} failed {' '.join(self.failed)}".rstrip())
        sys.exit(1 if self.failed else 0)
