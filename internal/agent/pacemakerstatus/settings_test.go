package pacemakerstatus

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	decide "github.com/holdfast/holdfast/internal/decide/pacemakerstatus"
	"github.com/holdfast/holdfast/internal/decide/twonode"
	"github.com/holdfast/holdfast/internal/model/state"
)

// drifting makes the hosts see a setting that is not as wanted until settle is
// called, and returns which hosts tried to set it back.
func (c *cluster) drifting() (by func() []string, settle func()) {
	var mu sync.Mutex
	var done []string
	in := c.look(c.t.Context(), "cp-1")
	in.Drift = state.Known([]twonode.Difference{{Words: "stonith-enabled is false, not true", Ours: true}})
	c.known[c.name] = in
	c.setBack = func(host string) error {
		mu.Lock()
		defer mu.Unlock()
		done = append(done, host)
		return errors.New("pcs refuses")
	}
	by = func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(done)
	}
	return by, func() {
		c.mu.Lock()
		in.Drift = state.Known([]twonode.Difference(nil))
		c.known[c.name] = in
		c.mu.Unlock()
	}
}

func (c *cluster) settings() metav1.Condition {
	c.api.mu.Lock()
	defer c.api.mu.Unlock()
	for _, cond := range c.api.object.Status.Conditions {
		if cond.Type == decide.SettingsAsExpected {
			return cond
		}
	}
	return metav1.Condition{}
}

func TestASettingThatSomebodyChangedIsToldAndSetBackByTheHostThatDecides(t *testing.T) {
	inTime(t, func(t *testing.T, c *cluster, dir string) {
		by, settle := c.drifting()
		c.start("cp-1", dir)
		c.start("cp-2", dir)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if got := c.settings(); got.Status != metav1.ConditionFalse || got.Message != "stonith-enabled is false, not true" {
			t.Errorf("it was not told: %+v", got)
		}
		if got := by(); !slices.Equal(got, []string{"cp-1"}) {
			t.Errorf("set back at once by %v", got)
		}
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if got := by(); len(got) < 6 || len(got) > 11 || slices.Contains(got, "cp-2") {
			t.Errorf("in ten minutes in which that fails, by %v", got)
		}
		settle()
		c.see(c.name, c.members...)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		before := by()
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if got := c.settings(); got.Status != metav1.ConditionTrue || len(by()) != len(before) {
			t.Errorf("afterwards: %+v, by %v", got, by())
		}
		c.stop["cp-1"]()
		c.stop["cp-2"]()
	})
}
