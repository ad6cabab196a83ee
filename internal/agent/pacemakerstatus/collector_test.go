package pacemakerstatus

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	decide "github.com/holdfast/holdfast/internal/decide/pacemakerstatus"
)

func TestTwoCollectorsDoNotFightAndWriteOnlySignsOfLife(t *testing.T) {
	inTime(t, func(t *testing.T, c *cluster, dir string) {
		c.start("cp-1", dir)
		c.start("cp-2", dir)
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		writes := c.api.take()
		if len(writes) < 18 || len(writes) > 22 || writes[0] != "cp-1 status" {
			t.Errorf("%d writes in ten minutes: %v", len(writes), writes)
		}
		for _, w := range writes[1:] {
			if w != "cp-1 beat" {
				t.Errorf("%s while nothing changed", w)
			}
		}
		c.stop["cp-1"]()
		c.stop["cp-2"]()
	})
}

// TestASignOfLifeComesInTimeHoweverOftenTheClusterIsLookedAt plays a finding of
// the lab, where Pacemaker checks itself every minute: each look postponed the
// next one by 30 s. So signs of life, and the looks for them, came up to a minute
// apart, and the other host took the writer for dead.
func TestASignOfLifeComesInTimeHoweverOftenTheClusterIsLookedAt(t *testing.T) {
	for _, every := range []time.Duration{5 * time.Second, 19 * time.Second, 29 * time.Second, 45 * time.Second, time.Minute} {
		inTime(t, func(t *testing.T, c *cluster, dir string) {
			c.start("cp-1", dir)
			time.Sleep(every / 2)
			c.start("cp-2", dir)
			for began := time.Now(); time.Since(began) < 20*time.Minute; time.Sleep(every) {
				c.see("healthy", c.members...)
			}
			synctest.Wait()
			writes := c.api.take()
			if slices.ContainsFunc(writes, func(w string) bool { return strings.HasPrefix(w, "cp-2") }) || len(writes) < 40 || len(writes) > 45 {
				t.Errorf("looked at every %s: %d: %v", every, len(writes), writes)
			}
			c.stop["cp-1"]()
			c.stop["cp-2"]()
		})
	}
}

// TestAnObjectThatNobodyHasWrittenIsTheWriters lets both hosts find it empty.
func TestAnObjectThatNobodyHasWrittenIsTheWriters(t *testing.T) {
	inTime(t, func(t *testing.T, c *cluster, dir string) {
		c.api.object = nil
		c.start("cp-2", dir)
		time.Sleep(5 * time.Minute)
		c.api.mu.Lock()
		c.api.object = newAPI().object
		c.api.mu.Unlock()
		time.Sleep(unready + time.Second)
		c.start("cp-1", dir)
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if writes := c.api.take(); len(writes) == 0 || slices.ContainsFunc(writes, func(w string) bool { return strings.HasPrefix(w, "cp-2") }) {
			t.Errorf("%v", writes)
		}
		c.stop["cp-1"]()
		c.stop["cp-2"]()
	})
}

func TestAChangeIsInTheAPIWithinASecond(t *testing.T) {
	inTime(t, func(t *testing.T, c *cluster, dir string) {
		c.start("cp-1", dir)
		time.Sleep(45 * time.Second)
		began := time.Now()
		c.see("lost-fenced", "cp-1")
		for c.online("cp-2").Status != metav1.ConditionFalse && time.Since(began) < time.Minute {
			time.Sleep(10 * time.Millisecond)
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("it took %s", took)
		}
		c.stop["cp-1"]()
	})
}

func TestTheOtherHostWritesWhenTheCoordinatorsAgentIsGone(t *testing.T) {
	inTime(t, func(t *testing.T, c *cluster, dir string) {
		c.start("cp-1", dir)
		c.start("cp-2", dir)
		time.Sleep(time.Minute)
		c.stop["cp-1"]() // its Pacemaker goes on
		c.api.take()
		time.Sleep(decide.Silence + 2*resync)
		if w := c.api.take(); len(w) == 0 || w[0][:4] != "cp-2" {
			t.Errorf("%v", w)
		}
		time.Sleep(5 * time.Minute)
		if w := c.api.take(); len(w) < 8 {
			t.Errorf("it does not go on: %v", w)
		}
		c.start("cp-1", dir)
		time.Sleep(time.Minute)
		c.api.take()
		time.Sleep(5 * time.Minute)
		for _, w := range c.api.take() {
			if w[:4] != "cp-1" {
				t.Errorf("both write: %s", w)
			}
		}
		c.stop["cp-1"]()
		c.stop["cp-2"]()
	})
}

func TestWhatHappenedWhileTheAPIWasAwayKeepsItsTime(t *testing.T) {
	inTime(t, func(t *testing.T, c *cluster, dir string) {
		c.start("cp-1", dir)
		time.Sleep(time.Minute)
		c.api.mu.Lock()
		c.api.down = errors.New("connection refused")
		c.api.mu.Unlock()
		c.see("lost-fenced", "cp-1")
		lost := time.Now()
		time.Sleep(2 * time.Minute)
		if r := c.host["cp-1"].Report(); r.API == "" || decide.Holds((*r.Status.Nodes)[1].Conditions, "Online") {
			t.Errorf("what the host keeps: %q %+v", r.API, (*r.Status.Nodes)[1].Conditions)
		}
		c.stop["cp-1"]() // an agent that is restarted knows it from its file
		synctest.Wait()
		c.api.mu.Lock()
		c.api.down = nil
		c.api.mu.Unlock()
		c.start("cp-1", dir)
		time.Sleep(10 * time.Second)
		if at := c.online("cp-2").LastTransitionTime; at.Sub(lost) > 2*time.Second || at.Before(&metav1.Time{Time: lost.Add(-time.Second)}) {
			t.Errorf("lost at %s, told as %s", lost, at)
		}
		c.stop["cp-1"]()
	})
}

// TestWhatIsOverWhenTheAPIIsBackIsTold plays a loss and a return that the API has
// missed, and an API server that starts: it takes the first write, and its answer
// comes too late. A condition with the same status since another time was once
// not written.
func TestWhatIsOverWhenTheAPIIsBackIsTold(t *testing.T) {
	inTime(t, func(t *testing.T, c *cluster, dir string) {
		c.start("cp-1", dir)
		time.Sleep(2 * time.Minute)
		c.api.mu.Lock()
		c.api.down, c.api.events = errors.New("connection refused"), map[string]int{}
		c.api.mu.Unlock()
		c.see("lost-fenced", "cp-1")
		time.Sleep(time.Minute)
		c.see("healthy", "cp-1", "cp-2")
		back := time.Now()
		time.Sleep(time.Minute)
		c.api.mu.Lock()
		c.api.down, c.api.mute = nil, true
		c.api.mu.Unlock()
		time.Sleep(10 * time.Second)
		at := c.online("cp-2").LastTransitionTime
		if at.Sub(back) > 2*time.Second || at.Before(&metav1.Time{Time: back.Add(-time.Second)}) {
			t.Errorf("back at %s, in the API since %s", back, at)
		}
		c.stop["cp-1"]()
		synctest.Wait()
		told := 0
		for name, n := range c.api.events {
			if strings.HasPrefix(name, "PacemakerNodeOnline ") {
				told += n
			}
		}
		if told != 1 {
			t.Errorf("told %d times that it is back: %v", told, c.api.events)
		}
	})
}

func TestAnObjectThatIsDeletedOrNotThereYetIsWrittenOnceItIsThere(t *testing.T) {
	inTime(t, func(t *testing.T, c *cluster, dir string) {
		object := c.api.object
		c.api.object = nil
		c.start("cp-1", dir)
		time.Sleep(time.Minute)
		c.api.mu.Lock()
		c.api.object = object
		c.api.mu.Unlock()
		time.Sleep(unready + slowRetryInterval)
		if c.online("cp-1").Status != metav1.ConditionTrue {
			t.Error("it is not written")
		}
		c.stop["cp-1"]()
	})
}

// TestPacemakerThatLooksAnewChangesNothing has everything reported as stopped,
// for a moment and then for good.
func TestPacemakerThatLooksAnewChangesNothing(t *testing.T) {
	inTime(t, func(t *testing.T, c *cluster, dir string) {
		torn := c.read("../../../test/corpus/pacemaker/cases/lab-refreshed/cp-1")
		torn.Cluster.Value.Fences = nil // of which the other state has none
		c.known["lab-refreshed"] = torn
		c.start("cp-1", dir)
		time.Sleep(45 * time.Second)
		c.api.take()
		events := len(c.api.events)
		c.see("lab-refreshed", c.members...)
		time.Sleep(decide.Retakes - 2*time.Second)
		c.see("healthy", c.members...)
		time.Sleep(time.Minute)
		synctest.Wait()
		if writes := c.api.take(); slices.Contains(writes, "cp-1 status") || len(c.api.events) != events {
			t.Errorf("%v, %v", writes, c.api.events)
		}
		c.see("lab-refreshed", c.members...)
		time.Sleep(decide.Retakes + 2*time.Second)
		synctest.Wait()
		if writes := c.api.take(); !slices.Contains(writes, "cp-1 status") {
			t.Errorf("there is no record for %s, and that is not told: %v", decide.Retakes, writes)
		}
		c.stop["cp-1"]()
	})
}

func TestAFenceIsToldOnce(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2026, 11, 20, 12, 0, 10, 0, time.UTC)))
		c := newCluster(t)
		c.see("lost-fenced", "cp-1")
		c.start("cp-1", dir)
		time.Sleep(5 * time.Minute)
		told := map[string]int{}
		for name, n := range c.api.events {
			reason, _, _ := strings.Cut(name, " ")
			told[reason]++
			if n != 1 {
				t.Errorf("%s is told %d times", name, n)
			}
		}
		if told["PacemakerFencingEvent"] != 1 || told["PacemakerNodeOffline"] != 1 {
			t.Errorf("events %v", told)
		}
		c.stop["cp-1"]()
		c.api.events = map[string]int{} // the API forgets
		time.Sleep(time.Hour)
		c.start("cp-1", dir)
		time.Sleep(5 * time.Minute)
		if len(c.api.events) != 0 {
			t.Errorf("told again: %v", c.api.events)
		}
		c.stop["cp-1"]()
	})
}

func TestFilesAreEventsAndFoldersMayComeLater(t *testing.T) {
	dir := t.TempDir()
	later := filepath.Join(dir, "later")
	there := filepath.Join(dir, "there")
	if err := os.Mkdir(there, 0o700); err != nil {
		t.Fatal(err)
	}
	woken := make(chan struct{}, 10)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- watchFolders(ctx, func() { woken <- struct{}{} }, []string{later, there}) }()
	<-woken // it begins
	if err := os.WriteFile(filepath.Join(there, "pacemaker.log"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	select {
	case <-woken:
	case <-time.After(10 * time.Second):
		t.Fatal("a line of the log woke nobody")
	}
	stop()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
