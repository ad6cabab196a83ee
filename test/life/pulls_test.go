package life_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/agent/releases"
	"github.com/holdfast/holdfast/internal/decide/upgrade/annotation"
	"github.com/holdfast/holdfast/internal/install/release"
	"github.com/holdfast/holdfast/internal/lab"
	"github.com/holdfast/holdfast/internal/lab/badrelease"
	"github.com/holdfast/holdfast/internal/model/payload"
	"github.com/holdfast/holdfast/test/labsite"
)

// source is where hosts fetch a release, and how that goes away and comes back.
type source struct {
	name string
	// words name it to `holdfast upgrade start`.
	words func() (from, where string)
	// opens makes it ready, ends leaves the lab as it was.
	opens, goes, returns, ends func(tr *trial)
	// needsBad: only a stick of hack/bad-release can be pulled out.
	needsBad bool
}

func sources() []source {
	return []source{
		{
			name:  "registry gone",
			words: func() (string, string) { return "--from-registry", registryAt + "/" + release.Repository },
			opens: (*trial).registryServes, goes: (*trial).registryEnds, returns: (*trial).registryServes, ends: (*trial).registryEnds,
		},
		{
			name:  "stick gone",
			words: func() (string, string) { _, folder := plugged(); return "--from-folder", folder },
			opens: func(*trial) {}, goes: (*trial).pullOutStick, returns: (*trial).plugInStick, ends: (*trial).plugInStick,
			needsBad: true,
		},
	}
}

// saidWithin is the time within which somebody is told that a host cannot fetch: an attempt
// takes as long as its sources are silent, and a host tells at most every half a minute.
const saidWithin = 5 * time.Minute

func (s source) playSource(t *testing.T) {
	scenario := s.name + ", while hosts fetch"
	if s.needsBad && *badReleases == "" {
		leaveOut(t, scenario, "hack/test upgrade BAD=FOLDER has a stick that can be pulled out")
		return
	}
	playUpgrade(t, scenario, func(tr *trial, w ways) {
		tr.forget(w.to)
		s.opens(tr)
		tr.Cleanup(func() { s.ends(tr) })
		began := tr.Now()
		from, where := s.words()
		tr.says(0, append([]string{"upgrade"}, append(wanting(w.to, from, where), "--no-wait")...)...)
		tr.fetches()
		gone := tr.Now()
		s.goes(tr)
		tr.Eventually(saidWithin, "the status says who cannot fetch", func() error {
			st, err := tr.upgradeStatus()
			if err != nil {
				return err
			}
			for _, h := range st.Hosts {
				if strings.Contains(h.Says, "cannot fetch: ") && strings.Contains(h.Says, where) {
					return nil
				}
			}
			return fmt.Errorf("it says %s: %s; %+v", st.Phase, st.Why, st.Hosts)
		})
		tr.Trial.Took("until it is said", time.Since(gone))
		tr.remains("no host begins", func() error { return tr.allRun(w.from) })
		back := time.Now()
		s.returns(tr)
		tr.arrive(w.to)
		tr.Trial.Took("there, once it was back", time.Since(back))
		tr.statusSays(isThere, w)
		tr.Noticed("", began)
		tr.outages(began)
		tr.nobodyFenced()
		if len(tr.ControlPlanes()) > 1 {
			tr.noWriteGapAbove(busyGap)
		}
		tr.homeAgain(isThere, w)
	})
}

// forget has no host have a release any more that an earlier play has fetched. Programs and
// images stay: a fetch finds them.
func (tr *trial) forget(digest string) {
	tr.Helper()
	hosts := append(tr.ControlPlanes(), workersOf(tr.Site)...)
	for _, h := range hosts {
		at := path.Join(payload.LayoutsDir, strings.TrimPrefix(digest, "sha256:"))
		tr.On(h, "rm -rf "+at+" "+at+".part && systemctl restart holdfast-agent")
	}
	tr.Eventually(5*time.Minute, "each host tells that it lacks the release", func() error {
		var errs []error
		for _, h := range hosts {
			n, err := tr.node(h)
			if err != nil {
				return err
			}
			said, err := annotation.Decode[annotation.Host](n.Annotations[annotation.HostOf])
			if err != nil || !said.Facts.Whole.Known || slices.Contains(said.Facts.Whole.Value, digest) {
				errs = append(errs, fmt.Errorf("%s tells that it has %v (%w)", h, said.Facts.Whole, err))
			}
		}
		return errors.Join(errs...)
	})
}

// fetches waits until a host is in the middle of a fetch.
func (tr *trial) fetches() {
	tr.Helper()
	roots := map[string]string{}
	for _, h := range tr.ControlPlanes() {
		root, err := tr.Lab.Root(tr.Context(), tr.Power, h)
		if err != nil {
			tr.Fatal(err)
		}
		roots[h] = root
	}
	last := map[string]string{}
	err := labsite.Until(tr.Context(), 10*time.Minute, diskEvery, func() error {
		for h, root := range roots {
			data, err := os.ReadFile(filepath.Join(root, releases.StatePath)) // #nosec G304 -- of a host of the lab
			if err != nil {
				continue
			}
			var s releases.State
			if json.Unmarshal(data, &s) == nil && s.Doing != "" {
				if last[h] = s.Doing; strings.HasPrefix(s.Doing, "fetches ") {
					tr.Logf("%s %s", h, s.Doing)
					return nil
				}
			}
		}
		return fmt.Errorf("no host fetched, last: %v", last)
	})
	if err != nil {
		tr.Fatal(err)
	}
}

// The registry of each host, which nobody else reaches.
const (
	registryAt   = "127.0.0.1:5056"
	registryUnit = "life-release"
)

// registryServes has each host have a registry with the release of the stick.
func (tr *trial) registryServes() {
	tr.Helper()
	_, folder := plugged()
	for _, h := range append(tr.ControlPlanes(), workersOf(tr.Site)...) {
		tr.On(h, "systemctl is-active --quiet "+registryUnit+" || systemd-run --quiet --collect --unit="+registryUnit+
			" /usr/local/bin/holdfast release serve --dir "+folder+" --listen "+registryAt)
	}
}

// registryEnds kills them all: who fetches loses the connection.
func (tr *trial) registryEnds() {
	tr.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(tr.Context()), time.Minute) // also at the test's end
	defer cancel()
	for _, h := range append(tr.ControlPlanes(), workersOf(tr.Site)...) {
		if _, err := tr.Sh(ctx, h, "systemctl kill --signal=KILL "+registryUnit+" 2>/dev/null; systemctl stop "+registryUnit+" 2>/dev/null; true"); err != nil {
			tr.Errorf("end the registry: %v", err)
		}
	}
}

// pullOutStick takes the release off the stick of all hosts, and plugInStick puts it back:
// they have the folder in which it lies.
func (tr *trial) pullOutStick() {
	tr.Helper()
	tr.moveStick(badrelease.Good, badrelease.Good+".away")
}

func (tr *trial) plugInStick() {
	tr.Helper()
	tr.moveStick(badrelease.Good+".away", badrelease.Good)
}

func (tr *trial) moveStick(from, to string) {
	tr.Helper()
	err := os.Rename(filepath.Join(*badReleases, from), filepath.Join(*badReleases, to))
	if err != nil && !errors.Is(err, os.ErrNotExist) { // it is there already
		tr.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(*badReleases, to)); err != nil {
		tr.Fatalf("the stick has no %s, as hosts find it at %s: %v", to, lab.StickPath, err)
	}
}
