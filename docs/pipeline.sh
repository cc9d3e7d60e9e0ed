#!/bin/sh
# Fails with 3 when a change of PostgreSQL costs more than DELTA percent (5 unless said), measured on HOST:
#
#     HOST=db1 docs/pipeline.sh settings.postgresql.synchronous_commit=off,on
#
# Before the comma it is as it was, behind it as it is to be; what follows goes to `proving run`. The program proving is on the
# PATH and logged in, or PROVING_URL and PROVING_TOKEN are set; the token is that of a tuner. docs/cli.md tells the exit codes.
set -eu

: "${HOST:?say on which host, as proving hosts calls it}"
change=${1:?say what changes, for example settings.postgresql.work_mem=4MB,64MB}
shift

proving import "$(dirname "$0")/pipeline.yaml"    # the same version twice is one
started=$(proving run pipeline --host "$HOST" --set "$change" --delta "${DELTA:-5}" \
    --repetitions "${REPETITIONS:-5}" --name "${NAME:-$change}" "$@")
campaign=${started%% *}
printf '%s\n' "$started"

# Who cancels the job wants the host free again.
trap 'trap - INT TERM; proving cancel "$campaign" || true; exit 130' INT TERM
proving watch "$campaign"
proving export "$campaign" report.html --output "${REPORT:-report.html}"
proving compare "$campaign"
