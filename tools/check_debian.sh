#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# `make check` on a bare Debian: a system made anew in a folder, into which nothing but packages.txt
# is installed, a copy of this tree at another path, a user without root. Only downloaded packages
# are kept between runs. Root is needed to make the folder; without it: skipped, exit status 77.
# `check-engines` alone runs as root.
#
#     tools/check_debian.sh trixie [make's words; default: check]
#
# The system has mounts, processes and an IPC namespace of its own; all of them end with it. It is
# entered by pivot_root, not chroot: who is in a chroot may make no user namespaces, as labs do.
set -u
cd "$(dirname "$0")/.." || exit 1
release=${1:?usage: tools/check_debian.sh RELEASE [make words]}
shift
work=$PWD/build/debian-$release
root=$work/root

skip() {
    echo "check_debian: $1"
    echo "0 passed, 0 failed, 1 skipped"
    exit 77
}
[ "$(id -u)" -eq 0 ] || skip "a bare system is made by root only; this is user $(id -un)"
unshare --mount true 2>/dev/null || skip "this machine allows root no mount namespace"
tools/deps.sh packages-debian.txt || exit 1

# in the namespaces: the folder becomes /
if [ "${SHOAL_BARE_ROOT:-}" = "$root" ]; then
    mount --bind "$root" "$root"
    mount --bind "$work/archives" "$root/var/cache/apt/archives"
    mount -t proc proc "$root/proc"
    mount -t sysfs -o ro sys "$root/sys" 2>/dev/null || mount --rbind /sys "$root/sys"
    mount --rbind /dev "$root/dev"
    mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
    cd "$root" && pivot_root . . && umount -l . && cd / || exit 1
    exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 CI="${CI:-}" \
        SHOAL_SKIP_COMBOS="${SHOAL_SKIP_COMBOS:-}" \
        bash -c '
            cd /home/user/a/shoal && tools/deps.sh packages.txt || exit 1
            # hosts with daemons of their own need root
            [ "$1" != check-engines ] || HOME=/root exec make "$@"
            export HOME=/home/user USER=user
            exec setpriv --reuid 1000 --regid 1000 --clear-groups --inh-caps=-all make "$@"
        ' bare "$@"
fi

[ $# -gt 0 ] || set -- check
mkdir -p "$work/archives"
rm -rf "$root"
trap 'rm -rf "$root"' EXIT
echo "check_debian: making a bare $release"
if ! mmdebstrap --mode=root --variant=minbase --quiet "$release" "$root" >"$work/log" 2>&1; then
    tail -n 5 "$work/log"
    grep -qE 'Temporary failure|Could not (resolve|connect)|Failed to fetch' "$work/log" &&
        skip "no network to Debian's packages"
    exit 1
fi
cp -L /etc/resolv.conf "$root/etc/resolv.conf"
mkdir -p "$root/home/user/a"
echo 'user:x:1000:1000:user:/home/user:/bin/bash' >>"$root/etc/passwd"
echo 'user:x:1000:' >>"$root/etc/group"
# the tree as a clone of it would be: what git knows, and its history (claims name commits)
git clone --quiet --no-local --no-hardlinks . "$root/home/user/a/shoal" || exit 1
git diff HEAD --binary | git -C "$root/home/user/a/shoal" apply --allow-empty || exit 1
chown -R 1000:1000 "$root/home/user"
SHOAL_BARE_ROOT=$root unshare --mount --pid --ipc --fork --kill-child --propagation private \
    "$0" "$release" "$@"
