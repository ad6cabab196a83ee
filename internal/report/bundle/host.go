package bundle

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/hostconfig"
	"github.com/holdfast/holdfast/internal/adapter/pacemaker"
	"github.com/holdfast/holdfast/internal/decide/hostreport"
	"github.com/holdfast/holdfast/internal/decide/wiping"
	"github.com/holdfast/holdfast/internal/model/corosync"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/report/observer"
)

// Units lists the units whose journals are collected: each one that a wipe stops, which are all that
// Holdfast brings or uses, and what sets the clock. The last to be stopped are what the others stand on,
// and are read first, in case the bundle reaches its size limit.
func Units() []string {
	var out []string
	for _, unit := range slices.Backward(wiping.All().Stop) {
		if name, service := strings.CutSuffix(unit, ".service"); service {
			out = append(out, name)
		}
	}
	return append(out, "chronyd", "systemd-timesyncd")
}

// lines bounds the lines collected from each journal.
const lines = 20000

// command prints something about a host that holds no secret.
type command struct {
	path, what string
	line       []string
	tail       bool // the output is long, and its end matters
}

// commands lists the commands to run on a host. None of them uses a shell, so
// that each means the same on every way to the host.
func commands(since time.Duration) []command {
	out := []command{
		{"versions/holdfast.txt", "version of holdfast", []string{"holdfast", "version"}, false},
		{"versions/kernel.txt", "version of the kernel", []string{"uname", "-a"}, false},
		{"versions/os-release.txt", "operating system", []string{"cat", "/etc/os-release"}, false},
		{"versions/packages.txt", "versions of the cluster's packages", []string{"dpkg-query", "--show", "corosync*", "pacemaker*", "pcs*", "fence-agents*", "podman*", "keepalived*", "haproxy*", "libqb*"}, false},
		{"versions/packages-rpm.txt", "the same where packages are RPMs", []string{"rpm", "--query", "corosync", "pacemaker", "pcs", "fence-agents-common", "podman", "keepalived", "haproxy", "libqb"}, false},
		{"versions/kubelet.txt", "version of kubelet", []string{"kubelet", "--version"}, false},
		{"explain.txt", "what etcd does and why", []string{"holdfast", "explain", "-o", "json"}, false},
		{"report.json", "what the host reports about itself", observer.Line(hostreport.Parts()...), false},
	}
	for _, q := range pacemaker.DiagnosticQueries() {
		out = append(out, command{"pacemaker/" + q.File, q.Description, q.Command, false})
	}
	out = append(out, []command{
		{"etcd/containers.txt", "podman's containers", []string{"podman", "--cgroup-manager=cgroupfs", "ps", "--all"}, false},
		{"etcd/etcd.log", "log of etcd", []string{"tail", "--lines=5000", state.EtcdLogFile}, true},
		{"etcd/output.log", "etcd's output before it opened its log, or during a panic", []string{"podman", "--cgroup-manager=cgroupfs", "logs", "--timestamps", "--tail", "5000", "etcd"}, true},
		{"network/addresses.txt", "addresses", []string{"ip", "address"}, false},
		{"network/routes.txt", "routes", []string{"ip", "route", "show", "table", "all"}, false},
		{"network/routes6.txt", "routes of IPv6", []string{"ip", "-6", "route", "show", "table", "all"}, false},
		{"network/neighbours.txt", "neighbours", []string{"ip", "neighbour"}, false},
		{"network/sockets.txt", "listening sockets", []string{"ss", "--listening", "--tcp", "--udp", "--numeric", "--processes"}, false},
		{"network/nft.txt", "rules of nftables", []string{"nft", "list", "ruleset"}, false},
		{"disk/space.txt", "free space on disks", []string{"df", "--human-readable", "--print-type"}, false},
		{"disk/inodes.txt", "inodes on disks", []string{"df", "--inodes"}, false},
		{"disk/devices.txt", "disks", []string{"lsblk", "--fs"}, false},
		{"load/memory.txt", "memory", []string{"free", "--mebi"}, false},
		{"load/uptime.txt", "load and uptime", []string{"uptime"}, false},
		{"load/processes.txt", "names of processes, without their arguments", []string{"ps", "-e", "-o", "pid,ppid,stat,etimes,pcpu,rss,comm"}, false},
		{"time/clock.txt", "the clock and what sets it", []string{"timedatectl", "status"}, false},
		{"time/chrony.txt", "chrony's view of the clock", []string{"chronyc", "-n", "tracking"}, false},
		{"units.txt", "units of systemd", []string{"systemctl", "--no-pager", "list-units", "--all"}, false},
		{"containers.txt", "containers of Kubernetes", []string{"ctr", "--namespace", "k8s.io", "containers", "list"}, false},
		{"certificates.txt", "expiry of certificates", []string{"kubeadm", "certs", "check-expiration"}, false},
		{"files.txt", "names of files, without their contents", []string{"ls", "-laR", "/etc/kubernetes", "/etc/holdfast", "/var/lib/holdfast", "/run/holdfast"}, true},
		{"journal/kernel.log", "the kernel's messages", journal(since, "--dmesg"), true},
	}...)
	for _, unit := range Units() {
		out = append(out, command{"journal/" + unit + ".log", "journal of " + unit, journal(since, "--unit="+unit), true})
	}
	return out
}

func journal(since time.Duration, what string) []string {
	return []string{
		"journalctl", "--no-pager", "--quiet", "--output=short-iso-precise", "--utc", "--lines=" + strconv.Itoa(lines),
		"--since=-" + strconv.Itoa(int(since.Seconds())) + "s", what,
	}
}

// fileSet selects files of a host that hold no secret: one file, or the files
// of a folder whose path matches. It uses a regular expression because a shell
// on the way, as behind ssh, would expand a pattern.
type fileSet struct{ path, what, at, name string }

// files lists all files to collect. Others are not read: /etc/holdfast/fencing, site.json
// and join-key, the configurations and originals in /var/lib/holdfast/machineconfig, /etc/kubernetes/*.conf and pki, Corosync's authkey and pcsd's tokens.
func files() []fileSet {
	return []fileSet{
		{"pacemaker/corosync.conf", "Corosync's configuration", corosync.Path, ""},
		{"etcd/record.json", "the record of etcd", state.EtcdRecordPath, ""},
		{"etcd/parameters.txt", "parameters of etcd", filepath.Dir(state.EtcdParametersPath), `.+[.]json`},
		{"etcd/space.json", "the space of etcd, as the agent found it last", state.EtcdSpacePath, ""},
		{"etcd/run.txt", "the etcd keeper's state in this boot", filepath.Dir(state.EtcdWishPath), `.+[.]json`},
		{"fencing/history.jsonl", "fences by this host", state.FencingHistoryPath, ""},
		{"fencing/confirmations.jsonl", "what administrators confirmed on this host", state.ConfirmationsPath, ""},
		{"fencing/fenced.txt", "proofs of fences of this boot", state.FencedDir, `.+[.]json`},
		{"incidents.txt", "reports of incidents", "/var/lib/holdfast/incidents", `.+[.]json`},
		{"events.txt", "events of the host's programs", state.EventsDir, `.+[.]jsonl`},
		{"network/network.json", "status of the host's network", state.NetworkStatusPath, ""},
		{"agent/loops.json", "status of the agent's loops", state.LoopsStatusPath, ""},
		{"machine-config/journal.json", "how far the host is with its configuration", hostconfig.JournalPath, ""},
		{"machine-config/written.json", "what of it was written last, or could not be written", hostconfig.ResultPath, ""},
		{"network/kept.txt", "network state that outlives a boot", "/var/lib/holdfast/network", `.+[.]json`},
		{"network/keepalived.txt", "keepalived's configuration", "/etc/holdfast/keepalived", `.+[.]conf`},
		{"network/haproxy.txt", "haproxy's configuration", "/etc/holdfast/haproxy", `.+[.]cfg`},
		{"network/coredns.txt", "CoreDNS's configuration", "/etc/holdfast/coredns", `.+`},
		{"network/resolv.conf", "the resolver's configuration", "/etc/resolv.conf", ""},
		{"network/hosts", "the host's own names", "/etc/hosts", ""},
		{"pacemaker/holdfast.json", "the agent's report on Pacemaker", "/run/holdfast/pacemaker.json", ""},
		{"pacemaker/holdfast-kept.txt", "the agent's last report on Pacemaker that differed", "/var/lib/holdfast/pacemaker", `.+[.]json`},
		{"install/progress.txt", "progress of the installation", "/var/lib/holdfast/install", `.+/progress[.]json`},
		{"install/reported.json", "what hosts reported about their installation", "/run/holdfast/progress.json", ""},
		{"kubernetes/manifests.txt", "static pods", "/etc/kubernetes/manifests", `.+[.]yaml`},
		{"kubernetes/etcd-pod.txt", "the pod of etcd", "/etc/kubernetes/static-pod-resources", `.+/pod[.]yaml`},
		{"kubernetes/kubelet.yaml", "kubelet's configuration", "/var/lib/kubelet/config.yaml", ""},
		{"kubernetes/pods.txt", "ends of the logs of the cluster's own pods", podLogs, `.+/kube-system_.+[.]log`},
	}
}

// podLogs is the folder of kubelet's logs.
const podLogs = "/var/log/pods"

// fileBytes bounds the end of each file that is taken.
const fileBytes = "2097152"

// line returns the command that prints the files, each below its name.
func (f fileSet) line() []string {
	switch {
	case f.name == "":
		return []string{"tail", "--bytes=" + fileBytes, f.at}
	case f.at == podLogs:
		return []string{"find", f.at, "-regex", f.name, "-exec", "tail", "--verbose", "--bytes=131072", "{}", "+"}
	}
	return []string{"find", f.at, "-maxdepth", "3", "-type", "f", "-regex", f.name, "-exec", "tail", "--verbose", "--bytes=" + fileBytes, "{}", "+"}
}

// Host lists the items to collect from one host. since bounds the age of its
// journals.
func Host(name string, since time.Duration, run host.Runner) []Item {
	var out []Item
	run = reached(run)
	add := func(path, what string, tail, heavy bool, line []string) {
		out = append(out, Item{
			Path: "hosts/" + name + "/" + path, From: name, What: what, Tail: tail, Heavy: heavy,
			Collect: func(ctx context.Context) ([]byte, error) { return run(ctx, line...) },
		})
	}
	for _, c := range commands(since) {
		add(c.path, c.what, c.tail, c.tail, c.line)
	}
	for _, f := range files() {
		add(f.path, f.what, true, f.at == podLogs, f.line())
	}
	return out
}

// reached first checks whether a host answers: the other items do not wait
// again for a host that is off.
func reached(run host.Runner) host.Runner {
	var first sync.Once
	var gone error
	return func(ctx context.Context, line ...string) ([]byte, error) {
		first.Do(func() { _, gone = run(ctx, "true") })
		if gone != nil {
			return nil, fmt.Errorf("the host cannot be reached: %w", gone)
		}
		return run(ctx, line...)
	}
}

// sitePath is the file with the data that a host was installed with. Only its
// secrets are read, so that they can be redacted.
const sitePath = site.Path
