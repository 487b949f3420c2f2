#!/bin/sh
# Four shards at once with GNU parallel, then the run that collects. `--sshlogin` spreads them over machines that share the
# directory; `--retries` starts a shard again, which goes on where it was.
set -e
seq 0 3 | parallel --jobs 4 --retries 2 --halt now,fail=1 \
  stride-pipe run pipelines/sweep/sweep.yaml --shard {}/4 --threads 1 --log-format json
exec stride-pipe run pipelines/sweep/sweep.yaml --log-format json
