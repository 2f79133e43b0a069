"""Run llama.cpp's own HTTP server, from the xllamacpp wheel, on loopback until SIGTERM.

    python tests/real/llama_server.py --model DIR/model.gguf --port 8081

With `--with-parent` also until its standard input ends: whoever started it cannot leave it behind, however it ends.

One thread, because two of them spin against each other on two busy cores; no prompt cache, because equal prompts would
cost nothing and hide the load; as many HTTP threads as there may be callers, because by default most are not even read.
"""

from __future__ import annotations

import argparse
import signal
import sys
import threading

ALIAS = "random-llama"


def main() -> None:
    parser = argparse.ArgumentParser(description="Serve a GGUF model on 127.0.0.1.")
    parser.add_argument("--model", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--slots", type=int, default=4, help="requests decoded together")
    parser.add_argument("--context", type=int, default=4096, help="tokens in each slot")
    parser.add_argument("--callers", type=int, default=512, help="connections served at once")
    parser.add_argument("--with-parent", action="store_true", help="stop when standard input ends")
    arguments = parser.parse_args()

    stopped = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopped.set())
    if arguments.with_parent:
        threading.Thread(target=_follow_parent, args=(stopped,), daemon=True).start()

    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = arguments.model
    params.model_alias = {ALIAS}
    params.hostnames = ["127.0.0.1"]
    params.port = arguments.port
    params.offline = True
    params.n_parallel = arguments.slots
    params.n_ctx = arguments.context * arguments.slots
    params.cont_batching = True
    for cpu in (params.cpuparams, params.cpuparams_batch):
        cpu.n_threads = 1
        cpu.poll = 0
    params.n_threads_http = arguments.callers
    params.cache_prompt = False
    params.cache_ram_mib = 0
    params.endpoint_metrics = True
    params.endpoint_slots = True
    params.ui = False
    params.verbosity = 2
    server = xllamacpp.Server(params)
    print(f"listening on {server.listening_address}", flush=True)
    stopped.wait()


def _follow_parent(stopped: threading.Event) -> None:
    sys.stdin.read()
    stopped.set()


if __name__ == "__main__":
    main()
