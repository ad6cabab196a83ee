package twonode

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/decide/twonode"
	"github.com/holdfast/holdfast/internal/host"
	"github.com/holdfast/holdfast/internal/pacemaker"
)

// errKilled stands for kill -9.
var errKilled = errors.New("killed")

const recorded = "../../decide/twonode/testdata/"

func fixture(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(recorded + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// site is two hosts whose pcs does what the real one does, as far as setup
// sees it.
type site struct {
	*stand
	files    string // corosync.conf, on both hosts
	peerOnly bool   // an earlier setup reached the peer only
	running  bool
	cib      string // what Pacemaker has
	staged   int    // commands that went into the copy of the CIB
}

func newSite(t *testing.T) *site {
	s := &site{stand: newStand(t), cib: fixture(t, "empty.xml")}
	s.programs["pcs cluster setup"] = s.setUp
	s.programs["pcs cluster start --all"] = func([]string) (string, error) {
		s.running = s.files != ""
		return "", nil
	}
	s.programs["cibadmin --query"] = func([]string) (string, error) {
		if !s.running {
			return "", errors.New("not connected")
		}
		return s.cib, nil
	}
	s.programs["pcs -f "] = func([]string) (string, error) { s.staged++; return "", nil }
	s.programs["pcs cluster cib-push"] = func([]string) (string, error) { s.cib = fixture(t, "ours.xml"); return "", nil }
	s.Status = func(context.Context) (pacemaker.Status, error) {
		if !s.running {
			return pacemaker.Status{}, errors.New("not connected")
		}
		return pacemaker.Status{Online: []string{"cp-1", "cp-2"}, Running: placement(twonode.Wanted(input()))}, nil
	}
	return s
}

func (s *site) setUp(args []string) (string, error) {
	if s.peerOnly && args[len(args)-1] != "--force" {
		return "", errors.New("Error: cp-2: The host seems to be in a cluster already as cluster configuration files have been found on the host")
	}
	s.files = fixture(s.t, "corosync.conf")
	s.put(corosyncConf, s.files)
	return "", nil
}

func TestSetupMakesTheClusterOnceAndAllOfItsConfigurationAtOnce(t *testing.T) {
	s := newSite(t)
	if err := s.do(twonode.Setup); err != nil {
		t.Fatal(err)
	}
	pushes := 0
	for _, line := range s.runs {
		if strings.HasPrefix(line, "pcs cluster cib-push") {
			pushes++
		}
	}
	if want, _ := twonode.Steps(twonode.Config{}, twonode.Wanted(input())); pushes != 1 || s.staged != len(want) {
		t.Errorf("%d pushes of %d commands, want 1 of %d", pushes, s.staged, len(want))
	}
	if err := s.do(twonode.Setup); err != nil || len(s.runs) != 2 || s.ran("pcs -f") || s.ran("pcs cluster cib-push") {
		t.Errorf("the second run: %v, ran %v", err, s.runs)
	}
	if left := tree(t, s.Root+work); left != "" {
		t.Errorf("left behind: %s", left)
	}
}

func TestNobodyCanBeFencedBeforeBothHostsMeetAgainAfterABoot(t *testing.T) {
	s := newSite(t)
	enabled := false
	s.programs["pcs cluster enable --all"] = func([]string) (string, error) { enabled = true; return "", nil }
	push := s.programs["pcs cluster cib-push"]
	s.programs["pcs cluster cib-push"] = func(args []string) (string, error) {
		if !enabled {
			t.Error("a host can be fenced, and would come back without Corosync")
		}
		return push(args)
	}
	if err := s.do(twonode.Setup); err != nil || !enabled {
		t.Errorf("%v, enabled %v", err, enabled)
	}
}

func TestASetupThatIsCutOffAnywhereIsFinishedByTheNext(t *testing.T) {
	whole := newSite(t)
	if err := whole.do(twonode.Setup); err != nil {
		t.Fatal(err)
	}
	for cut := range whole.runs {
		for _, when := range []string{"before", "after"} {
			s := newSite(t)
			n := 0
			real := s.Run
			s.Run = func(ctx context.Context, c host.Cmd) ([]byte, error) {
				if n++; n-1 == cut && when == "before" {
					return nil, errKilled
				}
				out, err := real(ctx, c)
				if n-1 == cut {
					return nil, errKilled
				}
				return out, err
			}
			ctx, kill := context.WithCancelCause(t.Context())
			s.Sleep = func(context.Context, time.Duration) error { kill(errKilled); return errKilled }
			_ = s.Do(ctx, twonode.Setup, input())
			s.Run, s.Sleep = real, newStand(t).Sleep
			if err := s.do(twonode.Setup); err != nil || s.cib != fixture(t, "ours.xml") {
				t.Errorf("cut off %s %s: %v", when, whole.runs[cut], err)
			}
		}
	}
}

func TestASetupThatReachedThePeerOnlyIsDoneAgain(t *testing.T) {
	s := newSite(t)
	s.peerOnly = true
	if err := s.do(twonode.Setup); err != nil || !strings.HasSuffix(s.runs[1], "--force") {
		t.Errorf("%v, ran %v", err, s.runs)
	}
}

func TestARunningClusterIsNeverSetUpByForce(t *testing.T) {
	for _, services := range []string{"services are found to be running: 'corosync', 'pacemaker'", "service is found to be running: 'pacemaker'"} {
		s := newSite(t)
		s.programs["pcs cluster setup"] = func([]string) (string, error) {
			return "", errors.New("Error: cp-2: The host seems to be in a cluster already as the following " + services +
				". If the host is not part of a cluster, stop the services and retry\n" +
				"Error: cp-2: The host seems to be in a cluster already as cluster configuration files have been found on the host")
		}
		err := s.do(twonode.Setup)
		if err == nil || len(s.runs) != 1 || !strings.Contains(err.Error(), "found to be running") {
			t.Errorf("%v, ran %v", err, s.runs)
		}
	}
}

func TestAPushThatCollidesIsTriedAgainFromWhatIsThere(t *testing.T) {
	s := newSite(t)
	collisions := 2
	push := s.programs["pcs cluster cib-push"]
	s.programs["pcs cluster cib-push"] = func(args []string) (string, error) {
		if collisions--; collisions >= 0 {
			return "", errors.New("Error: unable to push cib: Update was older than existing configuration")
		}
		return push(args)
	}
	if err := s.do(twonode.Setup); err != nil {
		t.Error(err)
	}
	s = newSite(t)
	s.programs["pcs cluster cib-push"] = func([]string) (string, error) { return "", nil } // and nothing happens
	if err := s.do(twonode.Setup); err == nil || !strings.Contains(err.Error(), "is not what it should be: pcs property set") {
		t.Error(err)
	}
}

func TestSetupSaysWhatDoesNotRunAndWhy(t *testing.T) {
	s := newSite(t)
	look := s.Status
	s.Status = func(ctx context.Context) (pacemaker.Status, error) {
		st, err := look(ctx)
		delete(st.Running, "cp-2_redfish")
		st.Failures = []string{"cp-2_redfish_start_0 on cp-1: error the BMC does not take the account"}
		return st, err
	}
	s.Sleep = func(context.Context, time.Duration) error { return errors.New("not so in 1m0s") }
	err := s.do(twonode.Setup)
	if err == nil || !strings.Contains(err.Error(), "cp-2_redfish does not run on cp-1; cp-2_redfish_start_0 on cp-1: error the BMC does not take the account") {
		t.Error(err)
	}
}
