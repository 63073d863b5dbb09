#!/usr/bin/env bash
# Becomes the systemd of a folder that holds a Debian, in namespaces that the caller made: package_boot.bash ROOT
set -euo pipefail
root="$1"
mount --make-rprivate /
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount --rbind /sys "$root/sys"
for folder in run tmp dev sys/fs/cgroup; do mount -t tmpfs -o mode=755 tmpfs "$root/$folder"; done
chmod 1777 "$root/tmp"
for device in null zero full random urandom tty; do
  touch "$root/dev/$device"
  mount --bind "/dev/$device" "$root/dev/$device"
done
mkdir "$root/dev/pts" "$root/dev/shm" "$root/sys/fs/cgroup/systemd"
mount -t devpts -o newinstance,ptmxmode=666 devpts "$root/dev/pts"
ln -s pts/ptmx "$root/dev/ptmx"
mount -t tmpfs tmpfs "$root/dev/shm"
if mount -t cgroup -o none,name=systemd cgroup "$root/sys/fs/cgroup/systemd" 2>/dev/null; then
  mkdir "$root/sys/fs/cgroup/unified"
  mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup/unified" || true
else
  umount "$root/sys/fs/cgroup"
  mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
fi
# Not chroot(2): a process below one may make no user namespace, which the sandbox of commands needs.
cd "$root"
mkdir -p tmp/before
pivot_root . tmp/before
exec /usr/bin/env -i container=other PATH=/usr/sbin:/usr/bin:/sbin:/bin /bin/sh -c \
  'umount -l /tmp/before && rmdir /tmp/before && exec /lib/systemd/systemd --system'
