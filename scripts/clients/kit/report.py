#!/usr/bin/env python3
"""report.py JUNIT-XML NOT-PASSED JSON: writes the kit's results as JSON and tells them; fails if a test failed that is not
among those that are expected not to pass."""

import json
import sys
import xml.etree.ElementTree


def expected(path):
    """The reasons of the tests that are expected not to pass, by their names."""
    reasons = {}
    for number, line in enumerate(open(path, encoding="utf-8"), 1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        name, _, reason = line.partition(" ")
        if not reason:
            sys.exit(f"{path}:{number}: {name} has no reason; write it after the name")
        reasons[name] = reason.strip()
    return reasons


def results(path):
    for case in xml.etree.ElementTree.parse(path).getroot().iter("testcase"):
        name = case.get("name").replace("()", "")
        result = {"class": case.get("classname").rpartition(".")[2], "test": name, "seconds": float(case.get("time", 0))}
        problem = next((case.find(kind) for kind in ("failure", "error") if case.find(kind) is not None), None)
        if problem is not None:
            text = problem.get("message") or problem.text or "no message"
            yield {**result, "result": "failed", "why": text.strip()[:2000]}
        elif case.find("skipped") is not None:
            why = case.find("skipped").text or "no reason given"
            yield {**result, "result": "skipped", "why": why.rpartition("due to:")[2].split("Expecting")[0].strip()[:300]}
        else:
            yield {**result, "result": "passed"}


def main():
    junit, listed, report = sys.argv[1:]
    reasons, tests = expected(listed), sorted(results(junit), key=lambda test: (test["class"], test["test"]))
    surprises, counts = [], {}
    for test in tests:
        # A test with parameters is listed by its name without them.
        method = test["test"].partition("(")[0].partition("[")[0]
        test["expected"] = reasons.get(method)
        count = counts.setdefault(test["class"], {"passed": 0, "failed": 0, "skipped": 0})
        count[test["result"]] += 1
        if test["result"] == "failed" and test["expected"] is None:
            surprises.append(test)
        if test["result"] != "passed":
            why = test["expected"] or " ".join(test["why"].split())
            print(f"{test['result']:8} {test['class']}.{test['test']}: {why[:160]}")
    passed = {test["test"] for test in tests if test["result"] == "passed"}
    for name in sorted(passed & set(reasons)):
        print(f"passed although listed in {listed}: {name}")
    with open(report, "w", encoding="utf-8") as file:
        json.dump({"counts": counts, "unexpected": len(surprises), "tests": tests}, file, indent=1)
    for name, count in sorted(counts.items()):
        print(f"{name}: {sum(count.values())} tests, " + ", ".join(f"{number} {what}" for what, number in count.items()))
    print(f"report: {report}")
    if not tests:
        sys.exit("no test ran")
    if surprises:
        sys.exit(f"{len(surprises)} tests failed that are not listed in {listed}")


main()
