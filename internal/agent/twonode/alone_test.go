package twonode

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/decide/twonode"
	"github.com/holdfast/holdfast/internal/model/corosync"
)

func TestALoneHostEntersAClusterOfItsOwnOnce(t *testing.T) {
	s := newSite(t)
	if err := s.EnterAlone(t.Context(), input()); err != nil {
		t.Fatal(err)
	}
	conf, err := corosync.Parse([]byte(s.text(corosyncConf)))
	if err != nil {
		t.Fatal(err)
	}
	if len(conf.Nodes) != 1 || conf.Nodes[0].Name != "cp-1" || conf.TwoNode || twonode.CorosyncOf(conf).Plain() != "" {
		t.Errorf("corosync.conf: %+v", conf)
	}
	if s.text(CorosyncKey) == "" || !s.running || !s.ran("systemctl enable --quiet corosync.service pacemaker.service") {
		t.Errorf("there is no key, or the services do not run, now and at boot: %v", s.runs)
	}
	if strings.Contains(s.out.String(), token) {
		t.Error("the secret of the hosts is in the output")
	}
	s.runs = nil
	if err := s.EnterAlone(t.Context(), input()); err != nil || s.ran("pcs cluster setup") || s.ran("pcs cluster destroy") {
		t.Errorf("the second run: %v, ran %v", err, s.runs)
	}
}

func TestALoneHostNeverLeavesAClusterOfOthers(t *testing.T) {
	s := entered(t)
	before := s.text(corosyncConf)
	s.runs = nil
	if err := s.EnterAlone(t.Context(), input()); err == nil || s.text(corosyncConf) != before || s.ran("pcs cluster destroy") {
		t.Errorf("error %v, ran %v", err, s.runs)
	}
}

// A file that names a peer would make Pacemaker fence that peer, which was never there.
func TestAPowerCutNeverLeavesALoneHostWithACorosyncConfOfTwo(t *testing.T) {
	s := newSite(t)
	s.programs["systemctl enable --quiet corosync.service"] = func([]string) (string, error) { return "", errKilled }
	if err := s.EnterAlone(t.Context(), input()); !errors.Is(err, errKilled) {
		t.Fatal(err)
	}
	conf, err := corosync.Parse([]byte(s.text(corosyncConf)))
	if err != nil || len(conf.Nodes) != 1 {
		t.Errorf("corosync.conf: %+v, %v", conf, err)
	}
}

// etcd waits up to 7 s for clients that do not hang up, and nobody can write meanwhile.
func TestAnEtcdThatDoesNotEndIsKilledOnceAndOnlyWhileItIsKubelets(t *testing.T) {
	for name, c := range map[string]struct {
		closes, ends int // the pauses of 200 ms until it closes its port, and until it ends by itself
		kills        int
		after        time.Duration // until it is killed
	}{
		"it ends by itself":        {closes: 9, ends: 9},
		"it waits for its clients": {closes: 3, ends: 30, kills: 1, after: 600 * time.Millisecond},
		"kubelet does not ask it":  {closes: 30, ends: 30, kills: 1, after: endTime},
	} {
		s := withEtcd(t, pair)
		looks, kills := 0, 0
		began := time.Unix(0, 0)
		at := began
		s.Now = func() time.Time { return at }
		s.Listens = func(_ context.Context, address string) bool { return address == etcdServer && looks < c.closes }
		s.programs["kill -KILL 99"] = func([]string) (string, error) {
			if kills++; at.Sub(began) != c.after {
				t.Errorf("%s: it is killed after %s", name, at.Sub(began))
			}
			return "", nil
		}
		s.Sleep = func(_ context.Context, pause time.Duration) error {
			at = at.Add(pause)
			if looks++; looks == c.ends {
				s.put(fileLocks, "")
			}
			return nil
		}
		if err := s.TakeEtcd(t.Context()); err != nil || kills != c.kills {
			t.Errorf("%s: %v, killed %d times after %d looks", name, err, kills, looks)
		}
		if has, err := s.KubeletHasEtcd(); has || err != nil || s.text(keptPod) != "kind: Pod\n" {
			t.Errorf("%s: kubelet has etcd: %t, %v; kept is %q", name, has, err, s.text(keptPod))
		}
		s.put(fileLocks, lock(t, s, etcdPID)) // the successor runs
		at = at.Add(time.Hour)
		if err := s.TakeEtcd(t.Context()); err != nil || kills != c.kills || s.ran("kill -KILL 4711") {
			t.Errorf("%s: the second run: %v", name, err)
		}
	}
}

func TestAHostWithoutAPeerHasNoDeviceOfOne(t *testing.T) {
	alone, both := twonode.Alone(input()), twonode.Wanted(input())
	if len(alone.Resources) != len(both.Resources)-1 || len(alone.Constraints) != len(both.Constraints)-1 || len(alone.Corosync.Nodes) != 1 {
		t.Errorf("%d resources, %d constraints", len(alone.Resources), len(alone.Constraints))
	}
	for _, r := range alone.Resources {
		if r.ID == twonode.DeviceOf("cp-2") {
			t.Errorf("%s is there", r.ID)
		}
	}
	// and the peer's parts are added without a change to the others
	steps, err := twonode.Steps(alone, both)
	if err != nil || len(steps) != 2 {
		t.Errorf("%d steps lead to two hosts: %+v, %v", len(steps), steps, err)
	}
}
