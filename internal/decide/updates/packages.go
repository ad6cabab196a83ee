package updates

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// etcdPackages lists the packages whose update restarts Corosync, Pacemaker or what
// runs etcd, each as the expression that its name begins with
// (docs/facts/machine-config.md#updates, U1 and U2).
//
// The libraries are those that corosync and pacemaker build: each of their programs
// wants those of its own version.
var etcdPackages = []string{
	"conmon", "containernetworking-plugins", "corosync", "crun", "fence-agents", "libcfg[0-9]", "libcib[0-9]", "libcmap[0-9]",
	"libcorosync-common", "libcpg[0-9]", "libcrm(cluster|common|service)", "libknet", "liblrmd[0-9]", "libnozzle", "libpacemaker",
	"libpe-(rules|status)", "libqb", "libquorum[0-9]", "libsam[0-9]", "libstonithd", "libvotequorum", "netavark",
	"pacemaker", "pcs$", "podman", "resource-agents", "runc$",
}

// releasePackages are those of programs that the release brings: another version of
// them on the host is a mistake.
var releasePackages = []string{"containerd", "cri-tools$", "kubeadm$", "kubectl$", "kubelet$", "kubernetes-cni$"}

// EtcdPackages returns the expressions of what etcd runs on, of two control planes.
func EtcdPackages() []string { return slices.Clone(etcdPackages) }

// Holds returns whether a package is left out on a host. pair is true on one of two
// control planes whose etcd Pacemaker runs.
func Holds(pair bool) func(name string) bool {
	if !pair {
		return begins(releasePackages)
	}
	return begins(slices.Concat(releasePackages, etcdPackages))
}

// Change is what a package manager would do.
type Change struct {
	// Installs are the packages that would get another version, or be new.
	Installs []string
	// Removes are those that would go.
	Removes []string
}

// AptChange reads what apt-get says when it only simulates. Names have no
// architecture.
func AptChange(said []byte) Change {
	var c Change
	for line := range strings.Lines(string(said)) {
		words := strings.Fields(line)
		if len(words) < 2 {
			continue
		}
		name, _, _ := strings.Cut(words[1], ":")
		switch words[0] {
		case "Inst":
			c.Installs = append(c.Installs, name)
		case "Remv":
			c.Removes = append(c.Removes, name)
		}
	}
	return c.sorted()
}

func (c Change) sorted() Change {
	slices.Sort(c.Installs)
	slices.Sort(c.Removes)
	return Change{slices.Compact(c.Installs), slices.Compact(c.Removes)}
}

// Without returns the packages that are not left out, and those that are.
func (c Change) Without(holds func(string) bool) (updates, held []string) {
	for _, name := range c.Installs {
		if holds(name) {
			held = append(held, name)
		} else {
			updates = append(updates, name)
		}
	}
	return updates, held
}

// Refusal returns why a change is not made; empty if it may be.
func (c Change) Refusal(holds func(string) bool) string {
	_, held := c.Without(holds)
	switch {
	case len(c.Removes) > 0:
		return "refused: the updates would remove " + few(c.Removes)
	case len(held) > 0:
		return "refused: the updates would bring " + few(held) + " with them, which are left out"
	default:
		return ""
	}
}

// Preferences returns the part of apt's preferences that leaves packages as they are.
func Preferences(held []string) []byte {
	var out bytes.Buffer
	for _, name := range held {
		fmt.Fprintf(&out, "Package: %s\nPin: version *\nPin-Priority: -1\n\n", name)
	}
	return out.Bytes()
}

// AptBytes adds the sizes of the files that apt-get says it would fetch, from
// `--print-uris`: address, name, size and checksum.
func AptBytes(said []byte) uint64 {
	var sum uint64
	for line := range strings.Lines(string(said)) {
		words := strings.Fields(line)
		if len(words) < 3 || !strings.HasPrefix(words[0], "'") {
			continue
		}
		if n, err := strconv.ParseUint(words[2], 10, 64); err == nil {
			sum += n
		}
	}
	return sum
}

// The room that an installation needs beside its packages, in bytes: a disk that
// becomes full in the middle leaves packages that do not work.
const (
	spareRoom = 512 << 20
	// bootRoom is that of a kernel and its first file system.
	bootRoom = 128 << 20
	// unpacked is how much larger packages become, with the files that they come in.
	unpacked = 5
)

// Room returns why there is too little room, by the free bytes of folders; empty if
// there is enough. fetched is the size of the packages, in bytes.
func Room(updates []string, fetched uint64, free map[string]uint64) string {
	var short []string
	for _, folder := range []string{"/", "/boot", "/usr", "/var"} {
		need := spareRoom + unpacked*fetched
		if folder == "/boot" {
			need = 0
			if slices.ContainsFunc(updates, kernel) {
				need = bootRoom
			}
		}
		if have, known := free[folder]; known && have < need {
			short = append(short, fmt.Sprintf("%s has %d MiB free and needs %d", folder, have>>20, need>>20))
		}
	}
	if len(short) == 0 {
		return ""
	}
	return "too little room: " + strings.Join(short, "; ")
}

func kernel(name string) bool {
	return strings.HasPrefix(name, "linux-image") || strings.HasPrefix(name, "kernel")
}
