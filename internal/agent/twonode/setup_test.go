package twonode

import (
	"context"
	"errors"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/pacemaker"
	"github.com/holdfast/holdfast/internal/decide/twonode"
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

// site plays two hosts whose programs do what the real ones do, as far as this
// host sees it. The peer has entered the cluster.
type site struct {
	*stand
	running bool   // Corosync and Pacemaker, here
	cib     string // what Pacemaker has
	staged  int    // commands that went into the copy of the CIB
}

func newSite(t *testing.T) *site {
	s := &site{stand: newStand(t), cib: fixture(t, "empty.xml")}
	s.programs["pcs cluster setup"] = func(args []string) (string, error) { return "", s.make(args) }
	s.programs["pcs cluster config update totem"] = func(args []string) (string, error) { return "", s.change(args) }
	s.programs["pcs cluster destroy"] = func([]string) (string, error) {
		s.running = false
		return "", errors.Join(s.discard(corosyncConf), s.discard(CorosyncKey))
	}
	s.programs["systemctl start corosync.service pacemaker.service"] = func([]string) (string, error) {
		if s.text(corosyncConf) == "" || s.text(CorosyncKey) == "" {
			return "", errors.New("Can't read file /etc/corosync/corosync.conf")
		}
		s.running = true
		return "", nil
	}
	s.programs["systemctl is-active"] = func([]string) (string, error) {
		if !s.running {
			return "", errors.New("exit status 3")
		}
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

// entered returns a host on which the step auth was done.
func entered(t *testing.T) *site {
	t.Helper()
	s := newSite(t)
	if err := s.do(twonode.Auth); err != nil {
		t.Fatal(err)
	}
	return s
}

// make plays 'pcs cluster setup ... --corosync_conf FILE', which overwrites
// nothing.
func (s *site) make(args []string) error {
	file := args[len(args)-1]
	if _, err := os.Stat(file); err == nil || args[len(args)-2] != "--corosync_conf" {
		return errors.New("Error: the file exists")
	}
	return os.WriteFile(file, []byte(fixture(s.t, "corosync.conf")), 0o644)
}

// change plays 'pcs cluster config update totem token=N --corosync_conf FILE'.
func (s *site) change(args []string) error {
	text, err := os.ReadFile(args[len(args)-1])
	if err != nil {
		return err
	}
	_, token, _ := strings.Cut(args[len(args)-3], "token=")
	return os.WriteFile(args[len(args)-1], regexp.MustCompile(`token: \d+`).ReplaceAll(text, []byte("token: "+token)), 0o644)
}

func TestSetupMakesTheClusterOnceAndAllOfItsConfigurationAtOnce(t *testing.T) {
	s := entered(t)
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
	if err := s.do(twonode.Setup); err != nil || s.ran("systemctl start") || s.ran("pcs -f") || s.ran("pcs cluster cib-push") {
		t.Errorf("the second run: %v, ran %v", err, s.runs)
	}
	if left := tree(t, s.Root+work); left != "" {
		t.Errorf("left behind: %s", left)
	}
}

func TestNobodyCanBeFencedBeforeAHostMeetsItsPeerAgainAfterABoot(t *testing.T) {
	s := entered(t)
	enabled := false
	s.programs["systemctl enable --quiet corosync.service pacemaker.service"] = func([]string) (string, error) { enabled = true; return "", nil }
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
	whole := entered(t)
	if err := whole.do(twonode.Setup); err != nil {
		t.Fatal(err)
	}
	cutOff(t, twonode.Setup, entered, whole.runs, func(s *site) string {
		if s.cib != fixture(t, "ours.xml") {
			return "the configuration is not there"
		}
		return ""
	})
}

// cutOff ends a step before and after each of its commands, and repeats it.
func cutOff(t *testing.T, step twonode.Step, begin func(*testing.T) *site, runs []string, lacks func(*site) string) {
	t.Helper()
	for cut := range runs {
		for _, when := range []string{"before", "after"} {
			s := begin(t)
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
			_ = s.Do(ctx, step, input())
			s.Run, s.Sleep = real, newStand(t).Sleep
			if err := s.do(step); err != nil || lacks(s) != "" {
				t.Errorf("cut off %s %s: %v %s", when, runs[cut], err, lacks(s))
			}
		}
	}
}

func TestASetupBeforeTheHostEnteredSaysSo(t *testing.T) {
	s := newSite(t)
	if err := s.do(twonode.Setup); err == nil || !strings.Contains(err.Error(), "run the step auth on both hosts first") || len(s.runs) > 0 {
		t.Errorf("%v, ran %v", err, s.runs)
	}
}

func TestASetupStartsAClusterThatDoesNotRunHere(t *testing.T) {
	s := entered(t)
	s.running = false
	if err := s.do(twonode.Setup); err != nil || !s.ran("systemctl start corosync.service pacemaker.service") {
		t.Errorf("%v, ran %v", err, s.runs)
	}
}

func TestAPushThatCollidesIsTriedAgainFromWhatIsThere(t *testing.T) {
	s := entered(t)
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
	s = entered(t)
	s.programs["pcs cluster cib-push"] = func([]string) (string, error) { return "", nil } // and nothing happens
	if err := s.do(twonode.Setup); err == nil || !strings.Contains(err.Error(), "was pushed but still needs: pcs property set") {
		t.Error(err)
	}
}

func TestSetupSaysWhatDoesNotRunAndWhy(t *testing.T) {
	s := entered(t)
	look := s.Status
	s.Status = func(ctx context.Context) (pacemaker.Status, error) {
		st, err := look(ctx)
		delete(st.Running, "cp-2_redfish")
		st.Failures = []string{"cp-2_redfish_start_0 on cp-1: error the BMC does not take the account"}
		return st, err
	}
	s.Sleep = func(context.Context, time.Duration) error { return errors.New("not within 1m0s") }
	err := s.do(twonode.Setup)
	if err == nil || !strings.Contains(err.Error(), "cp-2_redfish does not run on cp-1; cp-2_redfish_start_0 on cp-1: error the BMC does not take the account") {
		t.Error(err)
	}
}
