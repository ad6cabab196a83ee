package twonode

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/decide/twonode"
	"github.com/holdfast/holdfast/internal/model/state"
)

// drifted returns a host of a site whose settings somebody changed.
func drifted(t *testing.T) *site {
	s := newSite(t)
	s.running, s.cib = true, fixture(t, "drifted.xml")
	s.put(corosyncConf, fixture(t, "corosync.conf"))
	s.put(CIBFile, s.cib)
	return s
}

func TestSettingsAreSetBackWithoutTheAPIOrThePeer(t *testing.T) {
	s := drifted(t)
	if err := s.SetBack(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	text := strings.Join(s.runs, "\n")
	if !strings.Contains(text, " property set stonith-enabled=true ") || !s.ran("pcs cluster cib-push") {
		t.Error(text)
	}
	if strings.Contains(text, "node_ip_map=cp-1:10.98.0.11;cp-2:10.98.0.12") {
		t.Errorf("who the two are was changed, which restarts etcd on both:\n%s", text)
	}
	s.runs = nil
	if err := s.SetBack(t.Context(), true); err != nil || len(s.runs) != 1 {
		t.Errorf("where all is well: %v, ran %v", err, s.runs)
	}
}

func TestWhatCannotBeSetBackKeepsNothingElse(t *testing.T) {
	s := drifted(t)
	s.cib = strings.Replace(s.cib, `<primitive id="kubelet" class="systemd" type="kubelet">`, `<primitive id="kubelet" class="systemd" type="theirs">`, 1)
	err := s.SetBack(t.Context(), true)
	if err == nil || !strings.Contains(err.Error(), "kubelet is run by systemd:theirs") || !s.ran("pcs cluster cib-push") {
		t.Errorf("%v, ran %v", err, s.runs)
	}
}

func TestEachHostSetsItsOwnCorosyncBack(t *testing.T) {
	for _, decides := range []bool{true, false} {
		s := drifted(t)
		s.cib = fixture(t, "ours.xml")
		s.put(corosyncConf, strings.Replace(fixture(t, "corosync.conf"), "token: 1500", "token: 30000", 1))
		if err := s.SetBack(t.Context(), decides); err != nil || s.text(corosyncConf) != fixture(t, "corosync.conf") || !s.ran("corosync-cfgtool -R") {
			t.Errorf("%v, ran %v", err, s.runs)
		}
	}
	s := drifted(t)
	if err := s.SetBack(t.Context(), false); err != nil || len(s.runs) > 0 {
		t.Errorf("a host that does not decide touched Pacemaker: %v, ran %v", err, s.runs)
	}
}

func TestAClusterThatIsNotSetUpIsLeftAlone(t *testing.T) {
	s := drifted(t)
	s.cib = fixture(t, "empty.xml")
	if err := s.SetBack(t.Context(), true); err != nil || len(s.runs) != 1 {
		t.Errorf("%v, ran %v", err, s.runs)
	}
}

func TestSettingsAreReadFromTheHostsFiles(t *testing.T) {
	s := drifted(t)
	have, want, err := s.Settings()
	if err != nil || !have.SetUp() {
		t.Fatal(err)
	}
	var words []string
	for _, d := range twonode.Drift(have, want) {
		words = append(words, d.Words)
	}
	if text := strings.Join(words, "\n"); !strings.Contains(text, "stonith-enabled is false") || len(s.runs) > 0 {
		t.Errorf("%s\nran %v", text, s.runs)
	}
	if err := os.Remove(s.path(CIBFile)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Settings(); err == nil {
		t.Error("settings that nobody can read are known")
	}
}

// emptied returns a host of two from whose CIB everything vanished.
func emptied(t *testing.T) *site {
	s := drifted(t)
	s.cib = fixture(t, "empty.xml")
	s.put(CIBFile, s.cib)
	s.put(state.EtcdRecordPath, "{}")
	return s
}

// L33: what people had in it comes back with it, in one command.
func TestAnEmptiedConfigurationIsGivenBackAsItWas(t *testing.T) {
	s := emptied(t)
	s.put(KeptCIB, fixture(t, "ours.xml"))
	if err := s.SetBack(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	have, err := twonode.ParseCIB([]byte(s.cib))
	if err != nil || !have.Whole() || !s.ran("pcs cluster cib-push") {
		t.Errorf("%v, ran %v", err, s.runs)
	}
	for _, line := range s.runs {
		if strings.Contains(line, "pcs -f") {
			t.Errorf("one by one, which takes seconds each: %s", line)
		}
	}
}

func TestWithoutACopyAnEmptiedConfigurationIsMadeAnew(t *testing.T) {
	for _, copied := range []string{"", "half.xml"} {
		s := emptied(t)
		if copied != "" {
			s.put(KeptCIB, fixture(t, copied))
		}
		if err := s.SetBack(t.Context(), true); err != nil || !strings.Contains(strings.Join(s.runs, "\n"), "resource create etcd ") {
			t.Errorf("%q: %v, ran %v", copied, err, s.runs)
		}
	}
}

func TestBeforeTheHandOverAnEmptyConfigurationIsLeft(t *testing.T) {
	s := emptied(t)
	s.put(KeptCIB, fixture(t, "ours.xml"))
	if err := os.Remove(s.path(state.EtcdRecordPath)); err != nil {
		t.Fatal(err)
	}
	if err := s.SetBack(t.Context(), true); err != nil || s.ran("pcs") {
		t.Errorf("%v, ran %v", err, s.runs)
	}
}

// TestACIBThatChangesBetweenLookAndPushIsComparedAnew: Pacemaker lists its nodes again
// right after somebody erased them.
func TestACIBThatChangesBetweenLookAndPushIsComparedAnew(t *testing.T) {
	for refused, fails := range map[int]bool{1: false, 2: false, 3: true} {
		s := emptied(t)
		s.put(KeptCIB, fixture(t, "ours.xml"))
		push, tries := s.programs["pcs cluster cib-push"], 0
		s.programs["pcs cluster cib-push"] = func(args []string) (string, error) {
			if tries++; tries <= refused {
				return "", errors.New("ID 1 already defined")
			}
			return push(args)
		}
		err := s.SetBack(t.Context(), true)
		have, broken := twonode.ParseCIB([]byte(s.cib))
		if (err != nil) != fails || broken != nil || have.Whole() == fails {
			t.Errorf("refused %d times: %v, whole %v", refused, err, have.Whole())
		}
	}
}
