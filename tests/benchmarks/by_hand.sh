#!/bin/sh
# What a DBA does by hand, run after run: start pinned, look whether it is, measure, stop.
# usage: by_hand.sh BIN_DIR PGDATA SOCKET_DIR DATABASE SECONDS CPULIST...
# Prints "CPULIST TPS" per run.
set -eu
bin=$1 data=$2 socket=$3 database=$4 seconds=$5
shift 5
export PGHOST="$socket" PGPORT=5432 PGUSER=postgres PGDATABASE="$database"
as_user() {
    if [ "$(id -u)" = 0 ]; then
        unshare --user --map-user=1000 --map-group=1000 "$@"
    else
        "$@"
    fi
}
for cpus; do
    as_user taskset -c "$cpus" "$bin/pg_ctl" -D "$data" -o "-k $socket -c listen_addresses=''" -l "$data/log" -w -s start
    pid=$(head -n 1 "$data/postmaster.pid")
    grep -q Cpus_allowed_list "/proc/$pid/status"
    as_user "$bin/pgbench" -n -S -M prepared -r -c 8 -j 2 -T "$seconds" -P 1 2>/dev/null |
        awk -v cpus="$cpus" '/^tps/ { print cpus, $3 }'
    as_user "$bin/pg_ctl" -D "$data" -m fast -w -s stop
done
