#!/bin/sh
# Fails with 3 if a change of PostgreSQL costs more than DELTA percent (default 5), measured on HOST:
#
#     HOST=db1 docs/pipeline.sh settings.postgresql.synchronous_commit=off,on
#
# The value before the comma is the old one, the value after it the new one. Further arguments go to `proving run`. proving must
# be on the PATH and logged in, or PROVING_URL and PROVING_TOKEN set, as a tuner. docs/reference/cli.md has the exit codes.
set -eu

: "${HOST:?set HOST to the name of a host; see: proving hosts}"
change=${1:?name the change, for example settings.postgresql.work_mem=4MB,64MB}
shift

proving import "$(dirname "$0")/pipeline.yaml"    # importing the same version again changes nothing
started=$(proving run pipeline --host "$HOST" --set "$change" --delta "${DELTA:-5}" \
    --repetitions "${REPETITIONS:-5}" --name "${NAME:-$change}" "$@")
campaign=${started%% *}
printf '%s\n' "$started"

# A cancelled job frees the host.
trap 'trap - INT TERM; proving cancel "$campaign" || true; exit 130' INT TERM
proving watch "$campaign"
proving export "$campaign" report.html --output "${REPORT:-report.html}"
proving compare "$campaign"
