#!/bin/sh
# Has the package do what it does where it is installed on a running machine: bootctl
# install, and kernel-install for each kernel. The entry's arguments are those with which
# the machine runs.
set -eu
export DPKG_MAINTSCRIPT_PACKAGE=systemd-boot DPKG_MAINTSCRIPT_NAME=postinst
/var/lib/dpkg/info/systemd-boot.postinst configure ""
