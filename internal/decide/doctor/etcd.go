package doctor

import (
	"time"

	"github.com/holdfast/holdfast/internal/decide/etcdspace"
	"github.com/holdfast/holdfast/internal/decide/finding"
	"github.com/holdfast/holdfast/internal/model/etcdpod"
	"github.com/holdfast/holdfast/internal/model/state"
)

// etcdChecks are about the disk and the space of etcd.
var etcdChecks = []Check{
	{
		ID: "etcd-disk", Title: "etcd's disk is fast enough", For: Everywhere, judge: judgeDisk,
		Meaning: "Each write waits until the log is on disk, with two hosts on both disks. etcd recommends that 99 of 100 such writes take less than 10 ms; at ten times that, elections and time-outs begin.",
		Lines: []string{
			"sudo holdfast doctor etcd-disk --disk     # measures now: for at most 2 s, with at most 8 MiB next to etcd's data",
			"iostat -x 1                               # other writers; etcd needs its own disk, with power-loss protection",
		},
	},
	{
		ID: "etcd-space", Title: "etcd is far from its quota", For: Everywhere, judge: judgeSpace,
		Meaning: "A database that reaches its quota takes no more writes: the cluster stands still although all hosts are healthy. The agents defragment it if enough of it is free; otherwise objects have to be deleted.",
		Lines: []string{
			"kubectl get --raw /metrics | grep '^apiserver_resource_objects{' | sort -t' ' -k2 -g | tail     # what fills it",
			"holdfast etcd status -o wide     # what the agents do by themselves, and what they would do for you",
			"holdfast etcd defragment         # has one do it now, if nothing is in the way; never by etcdctl, which the etcd keeper takes for an etcd that hangs",
		},
	},
}

// The bounds of the disk: etcd's recommendation, and ten times that.
const (
	fsyncWarning  = 10 * time.Millisecond
	fsyncCritical = 100 * time.Millisecond
	fewWrites     = 1000 // a histogram of fewer says nothing about 99 of 100
)

func judgeDisk(s *sheet) {
	for _, h := range s.Hosts {
		seen := false
		if d := h.Disk.Value; h.Disk.Known {
			s.say(slowness(d.P99), h.Name, "99 of 100 small writes to %s are durable within %s, the slowest of %d took %s", d.Path, rounded(d.P99), d.Writes, rounded(d.Worst))
			seen = true
		}
		if e := h.Etcd.Value; h.Etcd.Known && e.Writes >= fewWrites {
			s.say(slowness(e.FsyncP99), h.Name, "etcd reports that 99 of 100 of its %d writes took at most about %s", e.Writes, rounded(e.FsyncP99))
			seen = true
		}
		if !seen {
			s.notSeen("disk of %s: no usable figures from etcd; measure with --disk", h.Name)
		}
	}
}

func slowness(p99 time.Duration) finding.Severity {
	switch {
	case p99 > fsyncCritical:
		return finding.Critical
	case p99 > fsyncWarning:
		return finding.Warning
	}
	return finding.OK
}

func judgeSpace(s *sheet) {
	eachHost(s, "size of etcd's database", func(h Host) state.Fact[Etcd] { return h.Etcd }, func(h Host, e Etcd) {
		if e.Quota == 0 {
			s.notSeen("quota of etcd on %s", h.Name)
			return
		}
		percent := e.Size * 100 / e.Quota
		severity := finding.OK
		switch {
		case percent >= 95:
			severity = finding.Critical
		case percent >= 80:
			severity = finding.Warning
		}
		s.say(severity, h.Name, "%d MiB of %d MiB, %d %%", e.Size>>20, e.Quota>>20, percent)
		if severity == finding.OK && e.Size > 256<<20 && e.InUse < e.Size/2 {
			s.say(finding.Note, h.Name, "only %d of the %d MiB are in use: a defragmentation frees the rest", e.InUse>>20, e.Size>>20)
		}
		if need := etcdspace.Disk(etcdpod.Quota(e.Quota >> 30)); e.Disk > 0 && e.Disk < need {
			s.say(finding.Warning, h.Name, "the file system of %s has %d MiB: with this quota it must have %d MiB, %s", state.EtcdDataDir, e.Disk>>20, need>>20, etcdspace.DiskIsFor)
		}
	})
}
