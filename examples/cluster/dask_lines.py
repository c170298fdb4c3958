#!/usr/bin/env python3
"""Dask: requests go to the workers as lines, answers come back as lines. A worker that dies leaves its chunk to another.
    python3 examples/cluster/dask_lines.py SCHEDULER:PORT REQUESTS.jsonl ANSWERS.jsonl MODEL [OPTION…]
ANSWERS.jsonl gets what one process would have written to stdout; the same command goes on behind what is there. RUN names the
program as workers find it (./run). Requests need ids: one without is named by its line, which is another in a chunk.
"""
import os
import subprocess
import sys

from distributed import Client

CHUNK = 64  # requests


def answer(lines, command):
    return subprocess.run(command, input=b"".join(lines), stdout=subprocess.PIPE, check=True).stdout


scheduler, requests, answers, model, *options = sys.argv[1:]
command = [os.environ.get("RUN", "./run"), model, "--batch", "-", "--in-order", *options]
with open(requests, "rb") as file, open(answers, "ab+") as out, Client(scheduler) as client:
    out.seek(0)
    whole = [len(line) for line in out if line.endswith(b"\n")]
    out.truncate(sum(whole))
    lines = [line for line in file if line.strip(b" \t\r\n")][len(whole):]
    futures = client.map(answer, [lines[i:i + CHUNK] for i in range(0, len(lines), CHUNK)], command=command, pure=False)
    for _ in range(len(futures)):
        out.write(futures.pop(0).result())
        out.flush()
