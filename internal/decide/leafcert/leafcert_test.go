package leafcert_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast/holdfast/internal/decide/leafcert"
	"github.com/holdfast/holdfast/internal/decide/rollout"
	"github.com/holdfast/holdfast/internal/model/state"
)

var noon = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

const (
	day  = 24 * time.Hour
	year = leafcert.Life
)

// leaf returns one of a host's leaf certificates, a year long, so long before its
// end.
func leaf(name string, left time.Duration) leafcert.File {
	i := slices.IndexFunc(leafcert.Leaves(), func(l leafcert.Leaf) bool { return strings.HasSuffix(l.Path, "/"+name) })
	ends := noon.Add(left)
	return leafcert.File{
		Leaf: leafcert.Leaves()[i], From: ends.Add(-year), Ends: ends, Written: noon.Add(-300 * day),
		Issuer: leafcert.Authority{From: noon.Add(-5 * year), Ends: noon.Add(5 * year)},
	}
}

func node(name string, ready bool, renewing time.Duration) state.Node {
	n := state.Node{Name: name, Ready: ready, Labels: map[string]string{state.LabelControlPlane: ""}, Annotations: map[string]string{}}
	if renewing > 0 {
		n.Annotations[state.AnnotationRenewal] = state.FormatAnnotation(state.CertificateRenewal{Since: noon.Add(-renewing)})
	}
	return n
}

// host returns cp-1 with some files, one of so many control planes that are well.
func host(controlPlanes int, files ...leafcert.File) leafcert.Host {
	h := leafcert.Host{Name: "cp-1", Now: noon, Life: year, Files: files, ControlPlanes: controlPlanes}
	if controlPlanes > 1 {
		h.Cluster = state.Known(leafcert.Cluster{Spare: rollout.Spare{Carries: state.Known(true)}})
		for _, name := range []string{"cp-1", "cp-2", "cp-3"}[:controlPlanes] {
			h.Cluster.Value.Nodes = append(h.Cluster.Value.Nodes, node(name, true, 0))
		}
		h.Cluster.Value.Nodes = append(h.Cluster.Value.Nodes, state.Node{Name: "w-1"})
	}
	return h
}

// said is a step as the table has it: its kind, what is renewed, what is
// restarted, and why.
func said(s leafcert.Step) []string {
	out := []string{string(s.Kind)}
	for _, l := range s.Renew {
		out = append(out, l.Path[strings.LastIndex(l.Path, "/")+1:])
	}
	for _, r := range s.Restart {
		out = append(out, "restart "+r)
	}
	if s.Why != "" {
		out = append(out, s.Why)
	}
	for _, p := range s.Problems {
		out = append(out, "problem: "+p)
	}
	return out
}

func TestWhenAControlPlaneRenewsItsLeafCertificates(t *testing.T) {
	with := func(h leafcert.Host, change func(*leafcert.Host)) leafcert.Host { change(&h); return h }
	nodes := func(list ...state.Node) func(*leafcert.Host) {
		return func(h *leafcert.Host) { h.Cluster.Value.Nodes = list }
	}
	unknown := func(h *leafcert.Host) { h.Cluster = state.Fact[leafcert.Cluster]{} }
	cannotCarry := func(h *leafcert.Host) {
		h.Cluster.Value.Spare = rollout.Spare{Carries: state.Known(false), Why: "cp-2 cannot be fenced"}
	}
	mine, well, off := node("cp-1", true, time.Minute), node("cp-2", true, 0), node("cp-2", false, 0)
	fresh, due, last := leaf("apiserver.crt", 122*day), leaf("apiserver.crt", 121*day), leaf("apiserver.crt", 60*day)
	expired := leaf("peer.crt", -60*day)
	manager, scheduler := leaf("controller-manager.conf", 121*day), leaf("scheduler.conf", 121*day)
	changed := func(f leafcert.File, change func(*leafcert.File)) leafcert.File { change(&f); return f }
	replaced := func(f leafcert.File, ago time.Duration) leafcert.File {
		f.From, f.Ends, f.Written, f.Replaced = noon.Add(-5*year), noon.Add(year-ago), noon.Add(-ago), true
		return f
	}
	torn := changed(leaf("server.crt", 300*day), func(f *leafcert.File) { f.Torn = true })
	keyless := changed(due, func(f *leafcert.File) { f.Issuer = leafcert.Authority{Problem: "ca.key is not there"} })
	withAuthority := changed(leaf("apiserver.crt", 5*day), func(f *leafcert.File) { f.Issuer.Ends = f.Ends })
	beforeAuthority := changed(leaf("apiserver.crt", 5*day), func(f *leafcert.File) { f.Issuer.Ends = f.Ends.Add(day) })
	future := changed(due, func(f *leafcert.File) { f.From = noon.Add(time.Hour) })
	futureAuthority := changed(due, func(f *leafcert.File) { f.Issuer.From = noon.Add(time.Hour) })
	renewed := changed(leaf("apiserver.crt", year), func(f *leafcert.File) { f.From, f.Written = noon.Add(-5*year), noon.Add(-time.Minute) })
	unread := changed(renewed, func(f *leafcert.File) { f.Written = noon.Add(-3 * time.Minute) })
	const clock = "the clock of this host says 2026-11-23T12:00:00Z, and /etc/kubernetes/pki/apiserver.crt is valid from 2026-11-23T13:00:00Z on: compare the clocks (date -u) and set the wrong one (chronyc makestep)"
	const shows = "the API server still shows another certificate than that in /etc/kubernetes/pki/apiserver.crt"

	for _, c := range []struct {
		sentence string
		host     leafcert.Host
		want     []string
	}{
		{"a host without any is no control plane yet", host(1), []string{"none"}},
		{"one is not renewed before two thirds of its life", host(1, fresh), []string{"none"}},
		{"one is renewed at two thirds of its life", host(1, due), []string{"work", "apiserver.crt"}},
		{"a renewed one is as old as its authority, and lives a year", host(1, renewed), []string{"none"}},
		{
			"whoever reads its file only at its start is restarted, each once", host(1, due, manager, scheduler),
			[]string{"work", "apiserver.crt", "controller-manager.conf", "scheduler.conf", "restart kube-controller-manager", "restart kube-scheduler"},
		},
		{"after a power cut between the file and the restart, the restart is left", host(1, fresh, replaced(manager, time.Minute)), []string{"work", "restart kube-controller-manager"}},
		{"a certificate beside another one's key is renewed at once", host(1, torn), []string{"work", "server.crt"}},
		{"without the authority's key a person is told", host(1, keyless, manager), []string{
			"work", "controller-manager.conf", "restart kube-controller-manager",
			"problem: /etc/kubernetes/pki/apiserver.crt expires on 2027-03-24 and cannot be renewed here: ca.key is not there",
		}},
		{"one that ends with its authority would gain nothing", host(1, withAuthority), []string{"none"}},
		{"one that ends before its authority gains the rest", host(1, beforeAuthority), []string{"work", "apiserver.crt"}},
		{"with a clock before a certificate nothing is judged", host(1, expired, future), []string{"none", "problem: " + clock + ", or if this one is right: sudo holdfast certificates clock --accept"}},
		{"with a clock before an authority nothing is judged", host(1, expired, futureAuthority), []string{"none", "problem: " + clock}},

		{"of two, a host takes its turn first", host(2, due), []string{"take"}},
		{"of three, a host takes its turn first", host(3, due), []string{"take"}},
		{"in its turn a host renews", with(host(2, due), nodes(mine, well)), []string{"work", "apiserver.crt"}},
		{"in its turn a host restarts what a power cut left", with(host(2, replaced(manager, time.Minute)), nodes(mine, well)), []string{"work", "restart kube-controller-manager"}},
		{"while another one renews, a host waits", with(host(2, due), nodes(node("cp-1", true, 0), node("cp-2", true, time.Minute))), []string{"wait", "renewing certificates now: cp-2"}},
		{"of two that took their turns together, each gives it back", with(host(2, due), nodes(mine, node("cp-2", true, time.Second))), []string{"release", "renewing certificates now: cp-2"}},
		{"nothing is renewed while another control plane is away", with(host(2, due), nodes(node("cp-1", true, 0), off)), []string{"wait", "not ready: cp-2"}},
		{"nor while the API has no Node of it", with(host(3, due), nodes(node("cp-1", true, 0), well)), []string{"wait", "only 2 of 3 control planes have a Node"}},
		{"nor while a Node is only known from before", with(host(2, due), nodes(node("cp-1", true, 0), state.Node{Name: "cp-2", Ready: true, Absent: true, Labels: well.Labels})), []string{"wait", "not ready: cp-2"}},
		{"nor while the other one of two could not carry on alone", with(host(2, due), cannotCarry), []string{"wait", "the other control plane could not carry on alone: cp-2 cannot be fenced"}},
		{"nor while it is unknown whether it could", with(host(2, due), func(h *leafcert.Host) { h.Cluster.Value.Spare = rollout.Spare{} }), []string{"wait", "the other control plane could not carry on alone"}},
		{"of three, Pacemaker's status counts for nothing", with(host(3, due), cannotCarry), []string{"take"}},
		{"nor while the API does not answer", with(host(2, due), unknown), []string{"wait", "the API does not say how the other control planes are"}},
		{"a turn is given back when redundancy is lost", with(host(2, due), nodes(mine, off)), []string{"release", "not ready: cp-2"}},
		{"the readiness of the host itself does not count", with(host(2, due), nodes(node("cp-1", false, 0), well)), []string{"take"}},
		{"a worker's readiness does not count", with(host(2, due), nodes(node("cp-1", true, 0), well, state.Node{Name: "w-1"})), []string{"take"}},

		{"with a sixth of its life left, it is renewed whoever is away", with(host(2, last), nodes(node("cp-1", true, 0), off)), []string{"work", "apiserver.crt"}},
		{"and whoever else renews", with(host(2, last), nodes(node("cp-1", true, 0), node("cp-2", true, day))), []string{"work", "apiserver.crt"}},
		{"and all that is due with it", with(host(2, last, manager), unknown), []string{"work", "apiserver.crt", "controller-manager.conf", "restart kube-controller-manager"}},
		{"after fourteen months off, before the API answers", with(host(2, expired), unknown), []string{"work", "peer.crt"}},
		{"what cannot be renewed hurries nobody", with(host(2, changed(last, func(f *leafcert.File) { f.Issuer.Problem = "no key" }), manager), nodes(node("cp-1", true, 0), off)), []string{
			"wait", "not ready: cp-2", "problem: /etc/kubernetes/pki/apiserver.crt expires on 2027-01-22 and cannot be renewed here: no key",
		}},
		{"a restart waits for redundancy too", with(host(2, replaced(manager, 59*time.Minute)), nodes(node("cp-1", true, 0), off)), []string{"wait", "not ready: cp-2"}},
		{"but no longer than an hour", with(host(2, replaced(manager, time.Hour)), nodes(node("cp-1", true, 0), off)), []string{"work", "restart kube-controller-manager"}},

		{"a host whose work is done gives its turn back", with(host(2, renewed), nodes(mine, well)), []string{"release"}},
		{"also while another one is away", with(host(2, renewed), nodes(mine, off)), []string{"release"}},
		{"it keeps its turn until the API server shows the new certificate", with(with(host(2, renewed), nodes(mine, well)), func(h *leafcert.Host) { h.Shows = state.Known(false) }), []string{"wait", shows}},
		{"a person is told if it does not", with(with(host(2, unread), nodes(mine, well)), func(h *leafcert.Host) { h.Shows = state.Known(false) }), []string{"wait", shows, "problem: " + shows}},
		{"once it shows it, the turn is given back", with(with(host(2, renewed), nodes(mine, well)), func(h *leafcert.Host) { h.Shows = state.Known(true) }), []string{"release"}},
	} {
		if diff := cmp.Diff(c.want, said(leafcert.Decide(c.host))); diff != "" {
			t.Errorf("%s:\n%s", c.sentence, diff)
		}
	}
}

func TestShortLivesHaveTheSameThirds(t *testing.T) {
	const life = 12 * time.Minute
	file := func(left time.Duration) leafcert.File {
		f := leaf("apiserver.crt", left)
		f.From = f.Ends.Add(-life)
		return f
	}
	restart := leaf("scheduler.conf", life)
	restart.Replaced, restart.Written = true, noon.Add(-2*time.Minute)
	for _, c := range []struct {
		sentence string
		file     leafcert.File
		want     leafcert.Kind
	}{
		{"before two thirds", file(4*time.Minute + time.Second), leafcert.None},
		{"at two thirds it waits for redundancy", file(4 * time.Minute), leafcert.Wait},
		{"at five sixths it waits for nobody", file(2 * time.Minute), leafcert.Work},
		{"a restart waits for a sixth", restart, leafcert.Work},
	} {
		h := host(2, c.file)
		h.Life, h.Cluster = life, state.Fact[leafcert.Cluster]{}
		if got := leafcert.Decide(h); got.Kind != c.want {
			t.Errorf("%s: %+v", c.sentence, got)
		}
	}
}

// TestTwoHostsNeverRenewTogether walks through every order in which two hosts
// publish, look and work.
func TestTwoHostsNeverRenewTogether(t *testing.T) {
	type place struct {
		flag, looked [2]bool
		sees         [2]leafcert.Kind
	}
	decide := func(p place, self int) leafcert.Kind {
		h := host(2, leaf("apiserver.crt", 121*day))
		h.Name = []string{"cp-1", "cp-2"}[self]
		for i, up := range p.flag {
			if up {
				h.Cluster.Value.Nodes[i] = node(h.Cluster.Value.Nodes[i].Name, true, time.Minute)
			}
		}
		return leafcert.Decide(h).Kind
	}
	seen, work := map[place]bool{}, 0
	var walk func(place)
	walk = func(p place) {
		if seen[p] {
			return
		}
		seen[p] = true
		if p.looked[0] && p.looked[1] && p.sees[0] == leafcert.Work && p.sees[1] == leafcert.Work {
			t.Fatalf("both work: %+v", p)
		}
		for self := range p.flag {
			next := p
			if !p.looked[self] { // look
				next.looked[self], next.sees[self] = true, decide(p, self)
				walk(next)
				continue
			}
			next.looked[self] = false // act, and look again later
			switch p.sees[self] {
			case leafcert.Take:
				next.flag[self] = true
			case leafcert.Release:
				next.flag[self] = false
			case leafcert.None, leafcert.Wait:
			case leafcert.Work: // it ends with a release
				work++
				next.flag[self] = false
			}
			walk(next)
		}
	}
	walk(place{})
	if work == 0 {
		t.Error("nobody ever works")
	}
}

func TestOnlyAHostWithSomethingToDoAsksTheAPI(t *testing.T) {
	for sentence, c := range map[string]struct {
		file leafcert.File
		want bool
	}{
		"a fresh certificate": {leaf("apiserver.crt", 300*day), false},
		"one that is due":     {leaf("apiserver.crt", 100*day), true},
		"a pod that has not read its file": {func() leafcert.File {
			f := leaf("scheduler.conf", 300*day)
			f.Replaced = true
			return f
		}(), true},
	} {
		if got := host(2, c.file).Pending(); got != c.want {
			t.Errorf("%s: %t", sentence, got)
		}
	}
}

func TestEveryLeafOfKubeadmIsInTheTable(t *testing.T) {
	var got []string
	for _, l := range leafcert.Leaves() {
		got = append(got, strings.TrimSpace(strings.Join([]string{l.Path, l.Key, l.Authority, l.Restart}, " ")))
	}
	want := []string{
		"/etc/kubernetes/pki/etcd/server.crt /etc/kubernetes/pki/etcd/server.key /etc/kubernetes/pki/etcd/ca",
		"/etc/kubernetes/pki/etcd/peer.crt /etc/kubernetes/pki/etcd/peer.key /etc/kubernetes/pki/etcd/ca",
		"/etc/kubernetes/pki/etcd/healthcheck-client.crt /etc/kubernetes/pki/etcd/healthcheck-client.key /etc/kubernetes/pki/etcd/ca",
		"/etc/kubernetes/pki/apiserver-etcd-client.crt /etc/kubernetes/pki/apiserver-etcd-client.key /etc/kubernetes/pki/etcd/ca",
		"/etc/kubernetes/pki/apiserver-kubelet-client.crt /etc/kubernetes/pki/apiserver-kubelet-client.key /etc/kubernetes/pki/ca",
		"/etc/kubernetes/pki/front-proxy-client.crt /etc/kubernetes/pki/front-proxy-client.key /etc/kubernetes/pki/front-proxy-ca",
		"/etc/kubernetes/pki/apiserver.crt /etc/kubernetes/pki/apiserver.key /etc/kubernetes/pki/ca",
		"/etc/kubernetes/super-admin.conf  /etc/kubernetes/pki/ca",
		"/etc/kubernetes/admin.conf  /etc/kubernetes/pki/ca",
		"/etc/kubernetes/kubelet.conf  /etc/kubernetes/pki/ca",
		"/etc/kubernetes/controller-manager.conf  /etc/kubernetes/pki/ca kube-controller-manager",
		"/etc/kubernetes/scheduler.conf  /etc/kubernetes/pki/ca kube-scheduler",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestACertificateIsLateWithASixthOfItsLifeLeft(t *testing.T) {
	torn := leaf("apiserver.crt", year)
	torn.Torn = true
	short := leaf("front-proxy-client.crt", 30*day)
	short.From = short.Ends.Add(-60 * day)
	h := host(1, leaf("etcd/server.crt", 100*day), torn, short)
	late := h.Late()
	if len(late) != 3 || !late[torn.Path].Equal(h.Now) {
		t.Fatalf("%v", late)
	}
	for _, f := range h.Files {
		at, is := late[f.Path]
		if !is || f.Torn { // that one is renewed at once
			continue
		}
		h.Now = at.Add(-time.Second)
		before := leafcert.Decide(h)
		h.Now = at
		if s := leafcert.Decide(h); s.Kind != leafcert.Work || before.Kind != leafcert.Work {
			t.Errorf("%s: %+v, %+v", f.Path, before, s) // one control plane waits for nobody
		}
	}
	for path, want := range map[string]time.Time{h.Files[0].Path: h.Files[0].Ends.Add(-year / 6), short.Path: short.Ends.Add(-10 * day)} {
		if !late[path].Equal(want) {
			t.Errorf("%s: %s, want %s", path, late[path], want)
		}
	}
}
