package deleted

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
)

var now = time.Date(2026, 11, 25, 9, 0, 0, 0, time.UTC)

// whole is a control plane of two that lacks nothing.
func whole() Input {
	in := Input{Now: now, Host: "cp-1", Peer: "cp-2", Pair: &Pair{Listed: []string{"cp-1", "cp-2"}, Kept: []string{"cp-2", "cp-1"}, Key: true, CIB: true, Running: true}}
	for _, s := range Specs(Kind{ControlPlane: true, Pacemaker: true, Encrypts: true}) {
		in.Files = append(in.Files, File{Spec: s, There: true, Kept: s.Back})
	}
	return in
}

func (in Input) without(gone time.Duration, paths ...string) Input {
	in.Files = slices.Clone(in.Files)
	for i, f := range in.Files {
		if slices.Contains(paths, f.Path) {
			in.Files[i].There, in.Files[i].Gone = false, gone
		}
	}
	return in
}

func TestAHostThatLacksNothingIsLeftAlone(t *testing.T) {
	if v := Decide(whole()); len(v.Put)+len(v.Lost) > 0 {
		t.Errorf("%+v", v)
	}
}

// TestEachFileIsPutBackOrToldWithACommand goes through the whole table, L34, L35, L37.
func TestEachFileIsPutBackOrToldWithACommand(t *testing.T) {
	for _, k := range []Kind{{}, {ControlPlane: true}, {ControlPlane: true, Pacemaker: true}} {
		for _, s := range Specs(k) {
			in := whole()
			in.Files = nil
			for _, o := range Specs(k) {
				in.Files = append(in.Files, File{Spec: o, There: true, Kept: o.Back})
			}
			v := Decide(in.without(Settles, s.Path))
			switch {
			case s.Back:
				if !slices.Equal(v.Put, []string{s.Path}) || len(v.Lost) > 0 {
					t.Errorf("%s: %+v", s.Path, v)
				}
			case len(v.Lost) != 1 || v.Lost[0].What != s.Path || v.Lost[0].Meaning == "" || len(v.Put) > 0:
				t.Errorf("%s: %+v", s.Path, v)
			case s.Common && v.Lost[0].Command != "ssh cp-2 sudo cat "+s.Path+" | sudo install -m 0600 /dev/stdin "+s.Path:
				t.Errorf("%s: %+v", s.Path, v)
			}
		}
	}
}

// L35.
func TestAllManifestsAtOnceArePutBack(t *testing.T) {
	v := Decide(whole().without(Settles, manifests+"kube-apiserver.yaml", manifests+"kube-controller-manager.yaml", manifests+"kube-scheduler.yaml"))
	if len(v.Put) != 3 || len(v.Lost) > 0 {
		t.Errorf("%+v", v)
	}
}

func TestEtcdsManifestIsKubeletsOnlyWherePacemakerRunsNoEtcd(t *testing.T) {
	for pacemaker, want := range map[bool]bool{true: false, false: true} {
		got := slices.ContainsFunc(Specs(Kind{ControlPlane: true, Pacemaker: pacemaker}), func(s Spec) bool { return s.Path == manifests+"etcd.yaml" })
		if got != want {
			t.Errorf("with Pacemaker %v: %v", pacemaker, got)
		}
	}
}

func TestWhenNothingIsPutBack(t *testing.T) {
	const path = manifests + "kube-scheduler.yaml"
	change := func(do func(*File)) Input {
		in := whole().without(time.Hour, path)
		for i := range in.Files {
			if in.Files[i].Path == path {
				do(&in.Files[i])
			}
		}
		return in
	}
	for name, c := range map[string]struct {
		in   Input
		told string // part of the meaning or the command, empty if nobody is told
	}{
		"an editor replaces it":                            {whole().without(Settles-1, path), ""},
		"there is no copy":                                 {change(func(f *File) { f.Kept = false }), "no copy"},
		"it was put back three times, and a copy is there": {change(func(f *File) { f.Put = []time.Time{now, now, now} }), "sudo cp -p /etc/holdfast/kept" + path + " " + path},
		"it was put back three times":                      {change(func(f *File) { f.Put = []time.Time{now.Add(-9 * time.Minute), now.Add(-time.Minute), now} }), LeavePath},
		"an administrator said so":                         {func() Input { in := whole().without(time.Hour, path); in.Leave = []string{path}; return in }(), ""},
		"the host is taken apart":                          {whole().without(time.Hour, path, kubernetes+"kubelet.conf"), "takes this host apart"},
		"one that this host never had":                     {func() Input { in := change(func(f *File) { f.Kept, f.Optional = false, true }); return in }(), ""},
		"the authority of a lone host":                     {func() Input { in := whole().without(time.Hour, pki+"ca.key"); in.Peer = ""; return in }(), "from a backup"},
		"the identity, by an administrator": {func() Input {
			in := whole().without(time.Hour, pki+"ca.crt")
			in.Leave = []string{pki + "ca.crt"}
			return in
		}(), ""},
	} {
		v := Decide(c.in)
		var words string
		for _, l := range v.Lost {
			words += l.Meaning + l.Command
		}
		if len(v.Put) > 0 || c.told == "" && words != "" || !strings.Contains(words, c.told) {
			t.Errorf("%s: %+v", name, v)
		}
	}
	later := change(func(f *File) { f.Put = []time.Time{now.Add(-Within), now.Add(-time.Minute), now} })
	if v := Decide(later); len(v.Put) != 1 {
		t.Errorf("after its time: %+v", v)
	}
}

// L37: also where the agent had no time to make a copy, or somebody took that away too.
func TestL37KeysThatAreGoneAreToldWithWhatToType(t *testing.T) {
	specs := func(encrypts, kept bool) Input {
		in := Input{Now: now, Host: "cp-1", Peer: "cp-2"}
		for _, s := range Specs(Kind{ControlPlane: true, Encrypts: encrypts}) {
			in.Files = append(in.Files, File{Spec: s, There: true, Kept: kept})
		}
		return in.without(Settles, encryption)
	}
	for name, c := range map[string]struct {
		in   Input
		told string
	}{
		"no copy":                             {specs(true, false), "ssh cp-2 sudo cat " + encryption + " | sudo install -m 0600 /dev/stdin " + encryption},
		"no copy, and the only control plane": {func() Input { in := specs(true, false); in.Peer = ""; return in }(), "take it from a backup"},
		"it was put back three times": {func() Input {
			in := specs(true, true)
			for i := range in.Files {
				in.Files[i].Put = []time.Time{now, now, now}
			}
			return in
		}(), "sudo cp -p /etc/holdfast/kept" + encryption + " " + encryption},
	} {
		v := Decide(c.in)
		if len(v.Put) > 0 || len(v.Lost) != 1 || v.Lost[0].What != encryption || !strings.Contains(v.Lost[0].Meaning+v.Lost[0].Command, c.told) {
			t.Errorf("%s: %+v", name, v)
		}
	}
	if v := Decide(specs(false, false)); len(v.Put)+len(v.Lost) > 0 {
		t.Errorf("a site without keys: %+v", v)
	}
}

func TestWhatIsMissingOfTheTwoHostsConfigurationIsToldWithTheCommand(t *testing.T) {
	for name, c := range map[string]struct {
		change        func(*Pair)
		problem, does string
	}{
		"pcs cluster node remove":        {func(p *Pair) { p.Listed = []string{"cp-1"} }, "corosync.conf lists cp-1; it had cp-2 and cp-1", PutBack},
		"this one removed":               {func(p *Pair) { p.Listed = []string{"cp-2"} }, "corosync.conf lists cp-2", PutBack},
		"a third one":                    {func(p *Pair) { p.Listed = []string{"cp-1", "cp-2", "cp-3"} }, "cp-3", PutBack},
		"pcs cluster destroy":            {func(p *Pair) { *p = Pair{Kept: p.Kept} }, "corosync.conf is gone", PutBack},
		"the key":                        {func(p *Pair) { p.Key = false }, "authkey is gone", PutBack},
		"a file that nobody can read":    {func(p *Pair) { p.Broken = "line 3" }, "line 3", PutBack},
		"without a copy":                 {func(p *Pair) { p.Listed, p.Kept = nil, nil }, "corosync.conf is gone", ""},
		"/var/lib/pacemaker":             {func(p *Pair) { p.CIB = false }, "/var/lib/pacemaker/cib is gone", "hacluster"},
		"/var/lib/pacemaker, it is down": {func(p *Pair) { p.CIB, p.Running = false, false }, "", ""},
		"no copy, and all is there":      {func(p *Pair) { p.Kept = nil }, "", ""},
	} {
		in := whole()
		c.change(in.Pair)
		v := Decide(in)
		if c.problem == "" {
			if len(v.Lost) > 0 {
				t.Errorf("%s: %+v", name, v)
			}
			continue
		}
		if len(v.Lost) != 1 || !strings.Contains(v.Lost[0].Problem, c.problem) || !strings.Contains(v.Lost[0].Command, c.does) {
			t.Errorf("%s: %+v", name, v)
			continue
		}
		if v.Lost[0].What == Membership && !strings.Contains(v.Lost[0].Meaning, "is not off because of that") {
			t.Errorf("%s: nobody is told that a host which is not listed may run: %+v", name, v.Lost[0])
		}
	}
	in := whole()
	in.Pair = nil
	if v := Decide(in); !slices.Equal(v.Lost, []state.Deleted(nil)) {
		t.Errorf("%+v", v)
	}
}
