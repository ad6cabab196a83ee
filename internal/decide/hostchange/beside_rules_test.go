package hostchange

import (
	"fmt"
	"slices"
	"testing"

	"github.com/coreos/ignition/v2/config/v3_5/types"
	operatorv1 "github.com/openshift/api/operator/v1"

	"github.com/holdfast/holdfast/internal/decide/machineconfig"
	"github.com/holdfast/holdfast/internal/model/ignition"
)

// piece is a part of a configuration before and after a step. What it lacks is nil.
type piece struct {
	words   string
	was, is *types.File
	from    *types.Unit
	to      *types.Unit
}

func fileOf(path, text string) *types.File {
	f := &types.File{Node: types.Node{Path: path}}
	f.Contents.Source = new(ignition.DataURL([]byte(text)))
	return f
}

// pieces lists a step for each kind of row of the table.
func pieces() []piece {
	var out []piece
	file := func(path, was, is string) {
		p := piece{words: fmt.Sprintf("%s from %q to %q", path, was, is)}
		if was != "" {
			p.was = fileOf(path, was)
		}
		if is != "" {
			p.is = fileOf(path, is)
		}
		out = append(out, p)
	}
	file("/etc/chrony.conf", "a", "b")
	file("/etc/containerd/certs.d/r/hosts.toml", "", "b")
	file("/etc/modules-load.d/a.conf", "", "sctp")
	file("/etc/motd", "a", "")
	file("/etc/site/a", "a", "b")
	file("/etc/ssh/sshd_config.d/a.conf", "a", "b")
	file("/etc/sysctl.d/a.conf", "a.b=1", "a.b=2")
	file("/etc/sysctl.d/b.conf", "a.b=1", "")
	file("/etc/systemd/journald.conf", "", "b")
	unit := func(words string, from, to *types.Unit) {
		out = append(out, piece{words: words, from: from, to: to})
	}
	unit("a unit that is enabled", nil, &types.Unit{Name: "a.service", Enabled: new(true)})
	unit("a unit that is off", &types.Unit{Name: "b.service", Enabled: new(true)}, &types.Unit{Name: "b.service", Enabled: new(false)})
	unit("a unit that is gone", &types.Unit{Name: "c.service", Contents: new("[Service]")}, nil)
	unit("a unit that changed", &types.Unit{Name: "d.service", Contents: new("[Service]")}, &types.Unit{Name: "d.service", Contents: new("[Unit]")})
	unit("a mount", nil, &types.Unit{Name: "e.mount", Enabled: new(true)})
	return out
}

// configs returns the configurations before and after the named parts have changed.
func configs(list ...piece) (from, to machineconfig.Config) {
	for _, p := range list {
		if p.was != nil {
			from.Ignition.Storage.Files = append(from.Ignition.Storage.Files, *p.was)
		}
		if p.is != nil {
			to.Ignition.Storage.Files = append(to.Ignition.Storage.Files, *p.is)
		}
		if p.from != nil {
			from.Ignition.Systemd.Units = append(from.Ignition.Systemd.Units, *p.from)
		}
		if p.to != nil {
			to.Ignition.Systemd.Units = append(to.Ignition.Systemd.Units, *p.to)
		}
	}
	return from, to
}

// TestWhatAChangeNeedsDoesNotDependOnWhatChangesBesideIt steps over each pair of
// changes: the plan of both is that of each, and a reboot of one is a reboot of both.
func TestWhatAChangeNeedsDoesNotDependOnWhatChangesBesideIt(t *testing.T) {
	table, all, reboots := Table(nil), pieces(), 0
	plan := func(list ...piece) Plan {
		from, to := configs(list...)
		return Compare(from, to, table)
	}
	for i, a := range all {
		for _, b := range all[i+1:] {
			first, second, both := plan(a), plan(b), plan(a, b)
			if len(first.Changes) != 1 || len(second.Changes) != 1 || len(both.Changes) != 2 {
				t.Fatalf("%s and %s: %+v", a.words, b.words, both.Changes)
			}
			for _, c := range slices.Concat(first.Changes, second.Changes) {
				k := slices.IndexFunc(both.Changes, func(o Change) bool { return o.Kind == c.Kind && o.Name == c.Name })
				if k < 0 || both.Changes[k].Rule != c.Rule || !slices.Equal(both.Changes[k].Needs, c.Needs) {
					t.Errorf("%s beside %s: %+v, alone %+v", a.words, b.words, both.Changes, c)
				}
			}
			if boots := first.Reboots() || second.Reboots(); boots {
				reboots++
				if !both.Reboots() || len(both.Before)+len(both.After) != 2 {
					t.Errorf("%s and %s: before %v, after %v", a.words, b.words, both.Before, both.After)
				}
				continue
			}
			before, after := sequence(slices.Concat(first.Before, first.After, second.Before, second.After))
			if !slices.Equal(both.Before, before) || !slices.Equal(both.After, after) {
				t.Errorf("%s and %s: before %v, after %v, want %v and %v", a.words, b.words, both.Before, both.After, before, after)
			}
		}
	}
	if reboots == 0 {
		t.Error("no change needs a reboot")
	}
}

// TestEachDifferenceIsNamedOnce changes some 2,300 sets of pieces: exactly what differs is
// a change, each once, in the order of its kind and name.
func TestEachDifferenceIsNamedOnce(t *testing.T) {
	all := pieces()
	for have := 0; have < 1<<len(all); have += 7 { // which of them do not change
		var before, after machineconfig.Config
		var want []string
		for i, p := range all {
			p.was, p.from = p.is, p.to // the same on both sides, where it is
			if have&(1<<i) == 0 {
				p = all[i]
				if p.was != nil || p.is != nil {
					want = append(want, "file")
				} else {
					want = append(want, "unit")
				}
			}
			from, to := configs(p)
			before.Ignition.Storage.Files = append(before.Ignition.Storage.Files, from.Ignition.Storage.Files...)
			after.Ignition.Storage.Files = append(after.Ignition.Storage.Files, to.Ignition.Storage.Files...)
			before.Ignition.Systemd.Units = append(before.Ignition.Systemd.Units, from.Ignition.Systemd.Units...)
			after.Ignition.Systemd.Units = append(after.Ignition.Systemd.Units, to.Ignition.Systemd.Units...)
		}
		changes := Compare(before, after, Table(nil)).Changes
		var got []string
		for i, c := range changes {
			got = append(got, string(c.Kind))
			if i > 0 && c.Kind == changes[i-1].Kind && c.Name <= changes[i-1].Name {
				t.Fatalf("%b: %s after %s", have, c.Name, changes[i-1].Name)
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%b: %q, want %q", have, got, want)
		}
	}
}

// TestTheOrderInWhichPoliciesAreWrittenChangesNothing: of several that fit a file the
// longest path counts.
func TestTheOrderInWhichPoliciesAreWrittenChangesNothing(t *testing.T) {
	policy := func(path, service string) operatorv1.NodeDisruptionPolicySpecFile {
		return operatorv1.NodeDisruptionPolicySpecFile{Path: path, Actions: []operatorv1.NodeDisruptionPolicySpecAction{{
			Type: operatorv1.RestartSpecAction, Restart: &operatorv1.RestartService{ServiceName: operatorv1.NodeDisruptionPolicyServiceName(service)},
		}}}
	}
	list := []operatorv1.NodeDisruptionPolicySpecFile{
		policy("/etc/site", "folder.service"), policy("/etc/site/a", "inner.service"), policy("/etc/site/a/b.conf", "file.service"), policy("/etc/motd", "motd.service"),
	}
	want := map[string]string{
		"/etc/site/x": "folder.service", "/etc/site/a/x": "inner.service", "/etc/site/a/b.conf": "file.service", "/etc/motd": "motd.service", "/etc/site/a/b.conf/c": "file.service",
		"/etc/sites": "", "/etc/site.d/a": "", "/etc/motd.d/a": "",
	}
	tried := 0
	permuted(list, 0, func(files []operatorv1.NodeDisruptionPolicySpecFile) {
		tried++
		rows, err := Policies(operatorv1.NodeDisruptionPolicyConfig{Files: files})
		if err != nil {
			t.Fatal(err)
		}
		for path, service := range want {
			row := find(Table(rows), Change{Kind: File, Name: path})
			var got string
			if len(row.Needs) == 1 && row.Needs[0].Do == Restart {
				got = row.Needs[0].Unit
			}
			if got != service {
				t.Errorf("%s by %v: %+v", path, files, row)
			}
		}
	})
	if tried != 24 {
		t.Errorf("%d orders", tried)
	}
}

func permuted[T any](list []T, from int, f func([]T)) {
	if from == len(list) {
		f(list)
		return
	}
	for i := from; i < len(list); i++ {
		next := slices.Clone(list)
		next[from], next[i] = next[i], next[from]
		permuted(next, from+1, f)
	}
}
