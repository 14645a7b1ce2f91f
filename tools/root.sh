# SPDX-License-Identifier: Apache-2.0
# Sourced. make_root ARCHITECTURE RELEASE FOLDER PACKAGES MARK WHO: libraries of Debian, unpacked
# into a folder that compiler and pkg-config look into; nothing of it runs or is installed.
# FOLDER/.packages says which package a file is of (`package version path`). Kept until MARK is
# another one.

skip() {
    echo "$who: $1"
    echo "0 passed, 0 failed, 1 skipped"
    exit 77
}

# Links that point to / would leave the folder, and those that a package's script makes (Debian's
# alternatives) are missing: nothing has run.
mend_links() {
    local root=$1 link target library
    find "$root" -lname '/*' -print0 | while IFS= read -r -d '' link; do
        target=$(readlink "$link")
        ln -sfn "$(realpath -sm --relative-to="$(dirname "$link")" "$root$target")" "$link"
    done
    for library in "$root"/usr/lib/*/openblas-pthread; do
        for link in "$library"/*.so*; do
            ln -sf "openblas-pthread/${link##*/}" "${library%/*}/${link##*/}"
        done
        ln -sf ../openblas-pthread/pkgconfig/openblas.pc "${library%/*}/pkgconfig/openblas.pc"
    done
}

make_root() {
    local architecture=$1 release=$2 root=$3 packages=$4 mark=$5 who=$6 list
    [ "$(cat "$root/.made" 2>/dev/null)" = "$mark" ] && return
    echo "$who: unpacking $architecture libraries of Debian $release"
    rm -rf --one-file-system "$root"
    mkdir -p build
    list='for deb in "$1"/var/cache/apt/archives/*.deb; do
        name=$(dpkg-deb --show --showformat "\${Package} \${Version}" "$deb")
        dpkg-deb --fsys-tarfile "$deb" | tar --list | sed "s|^\.||; s|^|$name |"
    done >"$1/.packages"'
    if ! mmdebstrap --variant=extract --architectures="$architecture" --quiet \
        --include="$packages" --extract-hook="$list" "$release" "$root" >"$root.log" 2>&1; then
        tail -n 5 "$root.log"
        rm -rf --one-file-system "$root"
        grep -qE 'Temporary failure|Could not (resolve|connect)|Failed to fetch' "$root.log" &&
            skip "no network to Debian's packages"
        exit 1
    fi
    mend_links "$root"
    echo "$mark" >"$root/.made"
}
