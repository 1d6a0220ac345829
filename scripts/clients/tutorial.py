"""Makes one shell script of the code blocks of a page. See `scripts/clients/tutorial`."""

import pathlib
import re
import subprocess
import sys

FREE_PORTS = pathlib.Path(__file__).resolve().parents[1] / "free-ports"
BLOCK = re.compile(r"^```(\S+)( install)?\n(.*?)^```$", re.DOTALL | re.MULTILINE)
# What becomes of processes in the background when a command fails, or at the end: the page kills its server by itself.
HEAD = """set -euo pipefail
trap 'ended=$?; [ $ended = 0 ] || tail -n 20 *.log >&2 || true; kill $(jobs -p) 2>/dev/null || true; exit $ended' EXIT
"""


def blocks(page):
    found = list(BLOCK.finditer(page))
    if page.count("```") != 2 * len(found):
        sys.exit("a code block of the page has no language, or does not end")
    return [(match[1], bool(match[2]), match[3]) for match in found]


def main():
    page, folder = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    port, script = subprocess.check_output([FREE_PORTS, "1"], text=True).strip(), [HEAD]
    kept = [block for block in blocks(page.read_text()) if not (block[1] and "--no-install" in sys.argv)]
    for number, (language, _, text) in enumerate(kept):
        if language == "text":
            continue
        text = text.replace("8191", port)
        expected = kept[number + 1][2] if number + 1 < len(kept) and kept[number + 1][0] == "text" else None
        script.append(f"echo '-- step {number}: '{quoted(text.splitlines()[0])}")
        if expected is None:
            script.append(text)
            continue
        # In the same shell, as the block may set variables.
        pattern, said = folder / f"expected-{number}", folder / f"said-{number}"
        pattern.write_text(expected)
        checker = f"python3 {quoted(str(pathlib.Path(__file__).resolve()))} --compare {pattern} {said}"
        script.append(f"{{\n{text}}} >{said}\ncat {said}\n{checker}")
    (folder / "run").write_text("\n".join(script) + "\necho 'tutorial: all steps passed'\n")


def compare(expected, said):
    """Whether a block printed what the page says."""
    pattern = ".*".join(re.escape(part) for part in pathlib.Path(expected).read_text().split("..."))
    found = pathlib.Path(said).read_text()
    if not re.fullmatch(pattern, found):
        sys.exit(f"found:\n{found}\nexpected, with any text for ...:\n{pathlib.Path(expected).read_text()}")


def quoted(text):
    return "'" + text.replace("'", "'\\''") + "'"


if __name__ == "__main__":
    if sys.argv[1] == "--compare":
        compare(*sys.argv[2:])
    else:
        main()
