"""Lance's own REST server before its directory namespace, in the foreground: PORT FOLDER."""

import signal
import sys

from lance.namespace import RestAdapter

port, folder = sys.argv[1:]
with RestAdapter("dir", {"root": folder}, host="127.0.0.1", port=int(port)):
    signal.sigwait({signal.SIGINT, signal.SIGTERM})
