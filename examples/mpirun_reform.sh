#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# An mpirun (Open MPI 4.1 or 5, over ssh) that outlives a host, for commands that do:
#
#     examples/mpirun_reform.sh MPIRUN-OPTION... -- shoal train --on-loss reform ...
#
# mpirun ends all ranks when a rank or the ssh to a host has failed, unless neither says so, and
# waits for ever for ranks of a host that is gone. So no failure is shown to it, each rank writes
# how it has ended to a folder here, which all hosts have to see, and who waits for nobody is ended.
# --host and --hostfile have to call hosts as they call themselves.
# The code is 0 once a rank has ended with 0, else the lowest of theirs.
set -u

fail() {
    echo "mpirun_reform.sh: $1" >&2
    exit 2
}

options=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do
    options+=("$1")
    shift
done
[ $# -ge 2 ] || fail "usage: mpirun_reform.sh MPIRUN-OPTION... -- COMMAND..."
shift
[ -z "${SLURM_JOB_ID:-}" ] || fail "in a job of Slurm use shoal run --print-slurm"
kept=$(mktemp -d "$PWD/.mpirun-XXXXXX") || exit 2
trap 'rm -rf "$kept"' EXIT

# Once ranks run, the end of an ssh is that of its host, and no failure.
cat >"$kept/agent" <<END
#!/bin/sh
${PRTE_MCA_plm_ssh_agent:-${OMPI_MCA_plm_rsh_agent:-ssh}} "\$@"
code=\$?
[ ! -e "$kept/began" ] || { : >"$kept/lost.\${1%%.*}" && code=0; }
exit \$code
END
chmod 700 "$kept/agent"
# shellcheck disable=SC2016 # the rank's shell expands it
task=': >"$0/began"
hostname >"$0/host.$OMPI_COMM_WORLD_RANK"
"$@"
echo $? >"$0/ended.$OMPI_COMM_WORLD_RANK"'

case $(mpirun --version) in
*"Open MPI) 4."*) go_on=(--mca orte_enable_recovery 1 --mca plm_rsh_agent "$kept/agent") ;;
*"Open MPI) 5."*) go_on=(--runtime-options "recoverable,continuous" --prtemca plm_ssh_agent
    "$kept/agent") ;;
*) fail "mpirun is neither Open MPI 4 nor 5" ;;
esac

# A host is lost, and all ranks of the others have ended.
over() {
    local file host
    compgen -G "$kept/lost.*" >/dev/null || return 1
    for file in "$kept"/host.*; do
        host=$(cat "$file")
        [ -e "$kept/ended.${file##*.}" ] || [ -e "$kept/lost.${host%%.*}" ] || return 1
    done
}

mpirun "${go_on[@]}" "${options[@]}" sh -c "$task" "$kept" "$@" &
mpirun=$!
trap 'kill -TERM "$mpirun"' INT TERM
while kill -0 "$mpirun" 2>/dev/null; do
    if over; then
        kill -TERM "$mpirun" # to its daemons
        sleep 1
        kill -TERM "$mpirun" 2>/dev/null # it waits for that of the lost host
        sleep 1
        kill -KILL "$mpirun" 2>/dev/null
        break
    fi
    sleep 1
done
wait "$mpirun"
code=$?
ended=$(cat "$kept"/ended.* 2>/dev/null | sort -n | head -n 1)
exit "${ended:-$code}"
