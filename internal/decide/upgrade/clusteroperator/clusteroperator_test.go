package clusteroperator_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/decide/upgrade/cluster"
	"github.com/holdfast/holdfast/internal/decide/upgrade/clusteroperator"
	"github.com/holdfast/holdfast/internal/decide/upgrade/gate"
	"github.com/holdfast/holdfast/internal/decide/upgrade/parts"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/model/workload"
	"github.com/holdfast/holdfast/internal/testkit/golden"
)

// good is a site of two control planes and a worker, of whose gates some are not known.
func good() clusteroperator.Input {
	v := func(minor, patch int) state.Fact[gate.Version] {
		return state.Known(gate.Version{Major: 1, Minor: minor, Patch: patch})
	}
	release := gate.Release{Digest: "sha256:1", Name: "R1", Version: gate.Version{Minor: 1}, Kubernetes: gate.Version{Major: 1, Minor: 36}}
	host := func(name string, worker bool) gate.Host {
		h := gate.Host{Name: name, Worker: worker, Ready: state.Known(true), Release: state.Known("sha256:1"), Kubelet: v(36, 3)}
		if !worker {
			h.APIServer, h.Emulates = v(36, 3), v(36, 0)
		}
		return h
	}
	member := func(host string) gate.Member {
		return gate.Member{Host: host, Voter: true, Started: true, Version: state.Known(gate.Version{Major: 3, Minor: 6, Patch: 14})}
	}
	well := state.Known(parts.Workload{Pods: workload.Pods{Wanted: 2, Available: 2, Updated: 2}})
	return clusteroperator.Input{
		Facts: gate.Facts{
			Now: time.Unix(0, 0), From: release, Level: gate.Version{Major: 1, Minor: 36}, Hosts: []gate.Host{host("cp-1", false), host("cp-2", false), host("w-1", true)},
			Etcd:    gate.Etcd{Members: state.Known([]gate.Member{member("cp-1"), member("cp-2")}), Alarms: state.Known([]string{})},
			Backups: state.Known(gate.Backups{}),
		},
		Step: cluster.Step{Phase: cluster.Idle}, Releases: map[string]gate.Release{"sha256:1": release, "sha256:2": {Digest: "sha256:2", Version: gate.Version{Minor: 2}}},
		Controllers: state.Known(true), Scheduler: state.Known(true),
		Workloads: parts.Workloads{Network: well, DNS: well, Proxy: well, Routers: state.Known(map[string]parts.Workload{"default": well.Value})}, Pools: state.Known([]clusteroperator.Pool{{Name: "master"}}),
	}
}

// upgraded has all hosts, and all parts, have the new release.
func upgraded(in *clusteroperator.Input) {
	for i := range in.Facts.Hosts {
		in.Facts.Hosts[i].Release = state.Known("sha256:2")
	}
	in.Step = cluster.Step{Phase: cluster.Parts, Why: "the parts follow"}
	in.Record = cluster.Record{Started: true, From: "sha256:1", To: "sha256:2"}
	for _, name := range parts.Order() {
		in.Parts = append(in.Parts, cluster.Part{Name: name, Release: state.Known("sha256:2"), Pending: state.Known("")})
	}
}

// TestWhatClusterOperatorsSayIsApproved plays situations. What is as on a good site is left
// out of the others.
func TestWhatClusterOperatorsSayIsApproved(t *testing.T) {
	var out strings.Builder
	usual := map[string]bool{}
	for _, s := range []struct {
		what   string
		change func(*clusteroperator.Input)
	}{
		{"a good site", func(*clusteroperator.Input) {}},
		{"nothing is known", func(in *clusteroperator.Input) { *in = clusteroperator.Input{} }},
		{"a control plane is away", func(in *clusteroperator.Input) {
			in.Facts.Hosts[1].Ready = state.Known(false)
			in.Facts.Etcd.Members.Value[1].Started = false
		}},
		{"a member copies", func(in *clusteroperator.Input) { in.Facts.Etcd.Members.Value[1].Voter = false }},
		{"data differ, and an alarm", func(in *clusteroperator.Input) {
			in.Facts.Etcd.Equal, in.Facts.Etcd.Alarms = state.Known(false), state.Known([]string{"NOSPACE"})
		}},
		{"half of the hosts have another release", func(in *clusteroperator.Input) {
			in.Step = cluster.Step{Phase: cluster.Hosts, Why: "waiting for cp-2"}
			in.Facts.Hosts[0].Release = state.Known("sha256:2")
			in.Facts.Hosts[0].APIServer = state.Known(gate.Version{Major: 1, Minor: 36, Patch: 4})
		}},
		{"no leader of the scheduler", func(in *clusteroperator.Input) { in.Scheduler = state.Known(false) }},
		{"pods are missing", func(in *clusteroperator.Input) {
			in.Workloads.Network = state.Known(parts.Workload{Pods: workload.Pods{Wanted: 3, Available: 2, Updated: 1}})
			in.Workloads.DNS = state.Known(parts.Workload{Pods: workload.Pods{Wanted: 2, Updated: 2}})
			in.Workloads.Routers.Value["default"] = parts.Workload{Pods: workload.Pods{Wanted: 2, Available: 1, Updated: 2}}
		}},
		{"kube-proxy crashes", func(in *clusteroperator.Input) {
			in.Workloads.Proxy = state.Known(parts.Workload{Pods: workload.Pods{Wanted: 3, Updated: 3}})
		}},
		{"all hosts have another release, and the pod network of it crashes", func(in *clusteroperator.Input) {
			upgraded(in)
			in.Parts[0].Pending = state.Known("the pod network: 1 of 3 pods are available")
		}},
		{"the parts have followed", upgraded},
		{"a pool", func(in *clusteroperator.Input) {
			in.Pools = state.Known([]clusteroperator.Pool{{Name: "master", Degraded: true, Message: "cp-1 failed"}, {Name: "worker", Updating: true}})
		}},
	} {
		in := good()
		s.change(&in)
		fmt.Fprintf(&out, "%s\n", s.what)
		for _, o := range clusteroperator.All(in) {
			for _, line := range lines(o) {
				if !usual[line] {
					out.WriteString("  " + line + "\n")
				}
				usual[line] = usual[line] || s.what == "a good site"
			}
		}
	}
	golden.Check(t, "operators.txt", []byte(out.String()))
}

func lines(o clusteroperator.Operator) []string {
	var versions, out []string
	for _, v := range o.Versions {
		versions = append(versions, v.Name+" "+v.Version)
	}
	out = append(out, o.Name+": versions "+strings.Join(versions, ", "))
	for _, c := range o.Conditions {
		out = append(out, strings.TrimSpace(fmt.Sprintf("%s: %s %s %s %s", o.Name, c.Type, c.Status, c.Reason, c.Message)))
	}
	return out
}
