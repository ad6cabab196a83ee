package twonode

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/model/state"
)

// stopping returns a host of two without a peer whose etcd podman runs. The keeper is asked to stop
// it at the look asked, and etcd closes its port at the look closes and ends at the look ends.
func stopping(t *testing.T, asked, closes, ends int) (s *stand, kills *int) {
	s = withEtcd(t, pair)
	s.put(staticPod+".gone", "")
	if err := host.RemoveFile(s.path(staticPod)); err != nil {
		t.Fatal(err)
	}
	s.put(fileLocks, lock(t, s, etcdPID))
	s.programs["cibadmin"] = func([]string) (string, error) { return "<cib/>", nil }
	looks, at, n := 0, time.Unix(0, 0), 0
	s.Now = func() time.Time { return at }
	s.programs["kill -KILL"] = func([]string) (string, error) { n++; s.put(fileLocks, ""); return "", nil }
	s.Listens = func(_ context.Context, address string) bool { return address == etcdServer && looks < closes }
	s.Report = func(context.Context) (state.EtcdReport, error) {
		if looks < asked {
			return state.EtcdReport{Wish: state.EtcdStarted}, nil
		}
		return state.EtcdReport{Wish: state.EtcdStopped}, nil
	}
	s.Sleep = func(context.Context, time.Duration) error {
		at = at.Add(time.Second)
		if looks++; looks == ends {
			s.put(fileLocks, "")
		}
		return nil
	}
	return s, &n
}

func TestAnEtcdThatPacemakerStopsIsKilledOnceItHasClosedItsPortOrIsLate(t *testing.T) {
	for name, c := range map[string]struct{ asked, closes, ends, kills, looks int }{
		"it ends by itself":                   {asked: 1, closes: 9, ends: 2},
		"it waits for its clients":            {asked: 1, closes: 1, ends: 9, kills: 1, looks: 1},
		"it listens on":                       {asked: 1, closes: 9, ends: 9, kills: 1, looks: 3},
		"the keeper is asked late":            {asked: 5, closes: 9, ends: 6},
		"asked late, and it remains":          {asked: 5, closes: 6, ends: 20, kills: 1, looks: 6},
		"the keeper is silent as it stops it": {asked: 99, closes: 4, ends: 20, kills: 1, looks: 4},
	} {
		s, kills := stopping(t, c.asked, c.closes, c.ends)
		began := s.Now()
		if err := s.StopEtcd(t.Context()); err != nil || *kills != c.kills {
			t.Errorf("%s: %v, killed %d times", name, err, *kills)
		}
		if after := s.Now().Sub(began); c.kills > 0 && after != time.Duration(c.looks+1)*time.Second {
			t.Errorf("%s: it is over after %s", name, after)
		}
		if s.ran("pkill --signal KILL --exact kube-apiserver") {
			t.Errorf("%s: the API server was ended, too: %v", name, s.runs)
		}
		if !s.ran("pcs resource disable etcd-clone") {
			t.Errorf("%s: Pacemaker may start it again: %v", name, s.runs)
		}
	}
}

// TestPacemakerIsNotToldToStopEtcdInMaintenance: it would stop etcd whenever a person ends that. What
// does not run needs nobody who stops it.
func TestPacemakerIsNotToldToStopEtcdInMaintenance(t *testing.T) {
	cib := func(value string) string {
		return `<cib><configuration><crm_config><cluster_property_set id="x"><nvpair id="y" name="maintenance-mode" value="` + value + `"/></cluster_property_set></crm_config></configuration></cib>`
	}
	for name, c := range map[string]struct {
		cib  string
		err  error
		down bool
		want string // of the error, none where it is empty
	}{
		"in maintenance":                 {cib: cib("true"), want: "sudo pcs property set maintenance-mode=false"},
		"as a person may write it":       {cib: cib("Yes"), want: "maintenance"},
		"the maintenance has ended":      {cib: cib("false")},
		"nobody knows":                   {err: errors.New("not connected"), want: "not connected"},
		"half of an answer":              {cib: "<cib>", want: "CIB"},
		"in maintenance, and it is down": {cib: cib("true"), down: true},
	} {
		s, _ := stopping(t, 0, 1, 1)
		s.programs["cibadmin"] = func([]string) (string, error) { return c.cib, c.err }
		if c.down {
			s.put(fileLocks, "")
		}
		err := s.StopEtcd(t.Context())
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
		if s.ran("pcs resource disable") != (c.want == "") {
			t.Errorf("%s: ran %v", name, s.runs)
		}
	}
}

func TestKubeletsFileOfEtcdIsMadeBesideItsFolderAndMovedOnce(t *testing.T) {
	s, pod := newStand(t), []byte("kind: Pod\n")
	ready := func(want bool) {
		t.Helper()
		if is, err := s.PodReady(pod); err != nil || is != want {
			t.Errorf("ready: %t, %v", is, err)
		}
	}
	ready(false)
	s.put(keptPod, "kind: Pod # of an earlier life\n")
	ready(false)
	if err := errors.Join(s.PutPod(pod), s.PutPod(pod)); err != nil {
		t.Fatal(err)
	}
	ready(true)
	if err := errors.Join(s.GivePod(t.Context()), s.GivePod(t.Context())); err != nil || s.text(staticPod) != string(pod) || s.text(keptPod) != "" || s.ran("pkill") {
		t.Errorf("%v, kubelet has %q", err, s.text(staticPod))
	}
	ready(true)
	s.Listens = func(_ context.Context, address string) bool { return address == "127.0.0.1:6443" }
	if err := s.GivePod(t.Context()); err != nil || !s.ran("pkill --signal KILL --exact kube-apiserver") {
		t.Errorf("an API server listens, and keeps kubelet waiting: %v, ran %v", err, s.runs)
	}
	s.programs["pkill"] = func([]string) (string, error) { return "", errors.New("no process") }
	if err := s.GivePod(t.Context()); err != nil {
		t.Errorf("where no API server runs: %v", err)
	}
}

// ring is a host in a cluster of one, whose services run.
func ring(t *testing.T) (s *stand, on, active map[string]bool) {
	s = newStand(t)
	on, active = map[string]bool{}, map[string]bool{}
	for _, u := range units {
		on[u], active[u] = true, true
	}
	s.put(corosyncConf, "totem {\n}\n")
	said := func(of map[string]bool) func([]string) (string, error) {
		return func(args []string) (string, error) {
			if !of[args[len(args)-1]] {
				return "", errors.New("exit status 3")
			}
			return "", nil
		}
	}
	s.programs["systemctl is-enabled"], s.programs["systemctl is-active"] = said(on), said(active)
	s.programs["systemctl disable"] = func(args []string) (string, error) {
		for _, u := range args {
			delete(on, u)
		}
		return "", nil
	}
	s.programs["pcs cluster destroy"] = func([]string) (string, error) {
		clear(active)
		return "", host.RemoveFile(s.path(corosyncConf))
	}
	return s, on, active
}

func TestPacemakerEndsWithoutStoppingWhatItStarted(t *testing.T) {
	s, _, _ := ring(t)
	if runs, err := s.RingRuns(t.Context()); err != nil || !runs {
		t.Fatalf("runs: %t, %v", runs, err)
	}
	if err := s.EndRing(t.Context()); err != nil {
		t.Fatal(err)
	}
	log := strings.Join(s.runs, "\n")
	off, maintain, destroy := strings.Index(log, "systemctl disable"), strings.Index(log, "pcs property set maintenance-mode=true"), strings.Index(log, "pcs cluster destroy")
	if off < 0 || maintain < off || destroy < maintain {
		t.Errorf("the order is wrong:\n%s", log)
	}
	if runs, err := s.RingRuns(t.Context()); err != nil || runs {
		t.Errorf("runs: %t, %v", runs, err)
	}
}

// A host that was booted between both steps has a Pacemaker that does not run.
func TestARingThatIsHalfGoneIsEnded(t *testing.T) {
	s, on, active := ring(t)
	clear(on)
	clear(active)
	if runs, err := s.RingRuns(t.Context()); err != nil || !runs {
		t.Fatalf("a corosync.conf without services: runs %t, %v", runs, err)
	}
	if err := s.EndRing(t.Context()); err != nil || s.ran("pcs property set") {
		t.Errorf("%v, ran %v", err, s.runs)
	}
}

func TestAHostForgetsThatItWasOneOfTwo(t *testing.T) {
	s := newStand(t)
	if paired, err := s.Paired(); err != nil || paired {
		t.Fatalf("a fresh host: %t, %v", paired, err)
	}
	for _, path := range pairFiles() {
		s.put(path+map[bool]string{true: "/cp-2.json"}[path == state.FencingDir || path == state.FencingPendingDir], "x")
	}
	s.put(state.FencingHistoryPath, "history\n")
	s.put(etcdDB, "db")
	s.put(KeptDir+"/etc/kubernetes/pki/ca.crt", "a copy of what every control plane has")
	if paired, err := s.Paired(); err != nil || !paired {
		t.Fatalf("one of two: %t, %v", paired, err)
	}
	if err := errors.Join(s.EndPair(t.Context()), s.EndPair(t.Context())); err != nil {
		t.Fatal(err)
	}
	if paired, err := s.Paired(); err != nil || paired || !strings.HasPrefix(s.runs[0], "systemctl disable --now --quiet podman-etcd.service") {
		t.Errorf("%t, %v, ran %v", paired, err, s.runs)
	}
	if s.text(KeptDir+"/etc/kubernetes/pki/ca.crt") == "" || s.text(state.FencingHistoryPath) == "" || s.text(etcdDB) == "" {
		t.Error("history or data are gone")
	}
}

func TestKubeletStartsAtBootWithoutPacemaker(t *testing.T) {
	s, on, _ := ring(t)
	if s.KubeletBoots(t.Context()) {
		t.Error("Pacemaker starts it")
	}
	s.programs["systemctl enable"] = func(args []string) (string, error) { on[args[len(args)-1]] = true; return "", nil }
	if err := s.BootKubelet(t.Context()); err != nil || !s.KubeletBoots(t.Context()) {
		t.Error(err)
	}
}
