package life_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/holdfast/holdfast/internal/adapter/hostconfig"
	"github.com/holdfast/holdfast/internal/decide/drain"
	"github.com/holdfast/holdfast/internal/decide/hostapply"
	"github.com/holdfast/holdfast/internal/decide/rollout"
	"github.com/holdfast/holdfast/internal/lab"
	"github.com/holdfast/holdfast/test/labsite"
)

// moment is a point on a host's way to a configuration, or back, at which a power cut
// strikes.
type moment struct {
	name string
	// way makes the configuration that is wished, and boots is true if hosts boot for it.
	way   func(text string) *mcfgv1.MachineConfig
	boots bool
	// back is what a host says that went back; empty on a way there. down is true if it
	// goes back because it does not stay up.
	back string
	down bool
	// is reports whether a host is there. asks is true if only its node tells that.
	is   func(seen) bool
	asks bool
}

// seen is what a host shows: its journal, and if that is asked for the annotations of
// its node. emptied is true if it has asked to be empty meanwhile.
type seen struct {
	hostapply.Journal
	node    map[string]string
	emptied bool
}

// moments lists those of a way without a boot, of a way with one, and of both ways back.
func moments() []moment {
	return []moment{
		{name: "writing, way there", way: good, is: inPhase(hostapply.Writing, false)},
		{name: "acting, way there", way: good, is: inPhase(hostapply.Acting, false)},
		{name: "checking, way there", way: good, is: inPhase(hostapply.Checking, false)},
		{name: "writing, way back", way: bad, back: unitName, is: inPhase(hostapply.Writing, true)},
		{name: "acting, way back", way: bad, back: unitName, is: inPhase(hostapply.Acting, true)},
		{name: "checking, way back", way: bad, back: unitName, is: inPhase(hostapply.Checking, true)},

		{name: "given, with a boot", way: rebooting, boots: true, asks: true, is: seen.given},
		{name: "draining, with a boot", way: rebooting, boots: true, asks: true, is: seen.draining},
		{name: "drained, with a boot", way: rebooting, boots: true, asks: true, is: seen.drained},
		{name: "booting, with a boot", way: rebooting, boots: true, is: inPhase(hostapply.Booting, false)},
		{name: "booted and not checked, with a boot", way: rebooting, boots: true, is: seen.booted},
		{name: "uncordoning, with a boot", way: rebooting, boots: true, asks: true, is: seen.uncordoning},
		{name: "booting, way back", way: unready, boots: true, back: "the host booted", down: true, is: inPhase(hostapply.Booting, true)},
	}
}

// inPhase is the moment of a host that has begun a phase of a way.
func inPhase(p hostapply.Phase, back bool) func(seen) bool {
	return func(s seen) bool { return s.Target != "" && s.Phase == p && s.Back == back }
}

// given: the host is to have another configuration, and has not begun with it.
func (s seen) given() bool {
	return s.Target == "" && s.node[rollout.DesiredConfig] != s.node[rollout.CurrentConfig]
}

// draining: it has asked to be empty. Where no other host takes pods it is so at once.
func (s seen) draining() bool { return drain.Empties(s.node[drain.Desired]) }

// drained: it was told that it is empty, and has not booted.
func (s seen) drained() bool {
	return s.draining() && s.node[drain.Applied] == s.node[drain.Desired] && !s.Booted
}

// booted: it has booted for its configuration, and its check begins.
func (s seen) booted() bool { return inPhase(hostapply.Checking, false)(s) && s.Booted }

// uncordoning: it has asked to take pods again.
func (s seen) uncordoning() bool {
	return s.emptied && s.Target == "" && !drain.Empties(s.node[drain.Desired])
}

// unready is a configuration for which hosts boot, and with which they do not become
// ready.
func unready(text string) *mcfgv1.MachineConfig {
	return machineConfig(text, "/usr/bin/false", file(bootFile, text+"\n"))
}

// cut is a moment and who loses its power then: the host on its way, or the other one.
type cut struct {
	moment
	other bool
}

func (c cut) String() string {
	who := "the host on its way"
	if c.other {
		who = "the other host"
	}
	return "power cut of " + who + ": " + c.name
}

// TestMachineConfigSurvivesPowerCuts cuts the power of a control plane at each moment of a
// way. Whatever happens, all control planes end with the same whole configuration, and
// no acknowledged write is lost. A single control plane has no other one to cut.
//
// A moment takes four minutes for each of the two hosts, with a boot six, on the way back
// with a boot ten: two and a half hours in all. One is played by its name:
// SCENARIOS='PowerCuts/other host: draining'.
func TestMachineConfigSurvivesPowerCuts(t *testing.T) {
	alone := len(open(t).ControlPlanes()) == 1
	var missed misses
	defer func() { missed.tell(t) }()
	for _, m := range moments() {
		for _, other := range []bool{false, true} {
			c := cut{m, other}
			switch {
			case t.Failed():
				return
			case other && alone:
				leaveOut(t, c.String(), "there is one control plane")
			default:
				missed.aim(t, c.String(), func(s *shot) { play(t, c.String(), func(tr *trial) { s.played, s.hit = true, tr.cutAt(c) }) })
			}
		}
	}
}

// cutAt has a configuration rolled out, and cuts the power once at a moment. It returns false
// if the moment was over by then.
func (tr *trial) cutAt(c cut) (hit bool) {
	tr.Helper()
	if !c.boots {
		tr.withoutBootFile()
	}
	text := fmt.Sprintf("cut-%d", time.Now().UnixMilli())
	began := tr.Now()
	tr.wish(c.way(text))
	if c.down {
		tr.doesNotStayUp()
	}
	onTheWay := tr.reached(c.moment)
	victim := onTheWay
	if c.other {
		victim = tr.peer(onTheWay)
	}
	tr.Inject(lab.Fault{Host: victim, Kind: lab.FaultReset})
	tr.Logf("%s loses its power, %s is %s", victim, onTheWay, c.name)
	hit = tr.hits(onTheWay, victim, c.onDisk)
	if c.back != "" {
		tr.failed(onTheWay, c.back)
		if c.boots {
			tr.wish(rebooting(text))
		} else {
			tr.wish(good(text))
		}
	}
	tr.settled(fmt.Sprintf("every control plane has %q", text), func(host string) error {
		if err := tr.has(host, text); err != nil || !c.boots {
			return err
		}
		data, err := tr.ReadFile(tr.Context(), host, bootFile)
		if err == nil && string(data) != text+"\n" {
			err = fmt.Errorf("%s: %s has %q, want %q", host, bootFile, data, text)
		}
		return err
	})
	tr.Trial.Took("until all control planes have it", time.Since(began))
	tr.Noticed("", began)
	return hit
}

// onDisk returns nil if the journal of a host below root is at the moment. Of a moment that
// only the node tells it says where the journal is, and no more.
func (m moment) onDisk(root string) error {
	j, err := journalBelow(root)
	switch {
	case err != nil:
		return err
	case m.asks:
		return fmt.Errorf("its disk does not tell; its journal is %+v", j)
	case !m.is(seen{Journal: j}):
		return fmt.Errorf("%w: its journal is %+v", errOver, j)
	}
	return nil
}

// withoutBootFile takes the configuration back if it has the file for which hosts boot:
// they would boot to lose it, and not go the way that is wanted.
func (tr *trial) withoutBootFile() {
	tr.Helper()
	for _, h := range tr.ControlPlanes() {
		switch _, err := tr.ReadFile(tr.Context(), h, bootFile); {
		case err == nil:
			tr.takeBack()
			tr.rolled("")
			return
		case !errors.Is(err, fs.ErrNotExist):
			tr.Fatal(err)
		}
	}
}

// doesNotStayUp has the host boot again and again that has booted for a configuration and
// is checked, as often as it takes until it goes back. By itself it would wait for ten
// minutes until it is ready.
func (tr *trial) doesNotStayUp() {
	tr.Helper()
	host := tr.reached(moment{name: "booted", is: seen.booted})
	w := &watched{}
	for boots := range hostapply.MaxBoots {
		tr.Eventually(5*time.Minute, fmt.Sprintf("%s was booted %d times", host, boots), func() error {
			if !tr.look(host, w, false) || w.Phase != hostapply.Checking || w.Boots < boots {
				return fmt.Errorf("its journal is %+v", w.Journal)
			}
			return nil
		})
		// A boot that has not ended would be another trouble.
		tr.On(host, "timeout 120 systemctl is-system-running --wait || true")
		tr.Logf("%s boots by hand, after %d boots of its check", host, boots)
		tr.On(host, "systemctl --no-block reboot")
	}
}

// The pauses between two looks at who is at a moment: at disks, and at nodes too.
const (
	diskEvery = 5 * time.Millisecond
	nodeEvery = 20 * time.Millisecond
)

// reached waits until a control plane is at a moment of its way, and returns it.
func (tr *trial) reached(m moment) string {
	tr.Helper()
	hosts := map[string]*watched{}
	for _, h := range tr.ControlPlanes() {
		hosts[h] = &watched{}
	}
	every := diskEvery
	if m.asks {
		every = nodeEvery
	}
	found, last := "", "none was on a way"
	err := labsite.Until(tr.Context(), rolledWithin, every, func() error {
		for h, w := range hosts {
			if !tr.look(h, w, m.asks) {
				continue
			}
			if m.is(w.seen) {
				found = h
				tr.Logf("%s is at the moment %q: %+v", h, m.name, w.Journal)
				if m.asks {
					tr.Logf("it asks the operator for %q, which has done %q", w.node[drain.Desired], w.node[drain.Applied])
				}
				return nil
			}
			if w.Target != "" || w.emptied {
				last = fmt.Sprintf("%s: %+v", h, w.Journal)
			}
		}
		return fmt.Errorf("no host was there, the last one that was on a way: %s", last)
	})
	if err != nil {
		tr.Fatal(err)
	}
	return found
}

// watched is a host at which the test looks again and again, also after it has booted.
type watched struct {
	seen
	root  string
	asked time.Time
}

// rootEvery is the pause between two questions where the files of a host are.
const rootEvery = 100 * time.Millisecond

// look brings up to date what a host shows. It reports false while that is unknown.
func (tr *trial) look(host string, w *watched, asks bool) bool {
	j, err := journalBelow(w.root)
	if err != nil {
		if now := time.Now(); now.Sub(w.asked) > rootEvery { // it has booted, or is off
			w.asked = now
			w.root, _ = tr.Lab.Root(tr.Context(), tr.Power, host)
		}
		return false
	}
	w.Journal = j
	if !asks {
		return true
	}
	n, err := tr.node(host)
	if err != nil {
		return false
	}
	w.node = n.Annotations
	w.emptied = w.emptied || drain.Empties(w.node[drain.Desired])
	return true
}

// journalBelow returns the journal of a host whose files are in a folder. One that never
// had a configuration has an empty one.
func journalBelow(root string) (j hostapply.Journal, err error) {
	if root == "" {
		return j, errors.New("nobody knows where its files are")
	}
	data, err := os.ReadFile(filepath.Join(root, hostconfig.JournalPath)) // #nosec G304 -- of a host of the lab
	if errors.Is(err, fs.ErrNotExist) {
		_, err = os.Stat(filepath.Join(root, "etc"))
		return j, err
	}
	if err != nil {
		return j, err
	}
	return j, json.Unmarshal(data, &j)
}

// failed waits until a host says that it went back, and why.
func (tr *trial) failed(host, why string) {
	tr.Helper()
	tr.Eventually(rolledWithin, host+" went back", func() error {
		n, err := tr.node(host)
		if err != nil {
			return err
		}
		if a := n.Annotations; a[rollout.StateOf] != string(rollout.Degraded) || !strings.Contains(a[rollout.ReasonOf], why) {
			return fmt.Errorf("%s: it is %s: %s", host, a[rollout.StateOf], a[rollout.ReasonOf])
		}
		return nil
	})
}

func (tr *trial) peer(host string) string {
	for _, h := range tr.ControlPlanes() {
		if h != host {
			return h
		}
	}
	tr.Fatal("there is one control plane")
	return ""
}
