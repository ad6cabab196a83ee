package install

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/hostconfig"
	"github.com/holdfast/holdfast/internal/decide/hostapply"
	"github.com/holdfast/holdfast/internal/model/state"
)

// firstRun returns an installation of a worker that was given a first configuration.
func firstRun(t *testing.T) (*run, func() string) {
	t.Helper()
	r, log := newRun(t, state.RoleWorker)
	r.root = t.TempDir()
	file, err := hostconfig.FirstFile(&mcfgv1.MachineConfig{
		ObjectMeta: metav1.ObjectMeta{Name: "rendered-worker-1"}, Spec: mcfgv1.MachineConfigSpec{Config: runtime.RawExtension{Raw: []byte(`{}`)}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := host.WriteFiles(r.root, []state.File{file}); err != nil {
		t.Fatal(err)
	}
	return r, log.String
}

// TestAHostJoinsOnceItHasItsFirstConfiguration, and shows for what it waits until then.
func TestAHostJoinsOnceItHasItsFirstConfiguration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, log := firstRun(t)
		store := hostconfig.NewStore(r.root)
		r.start("take machine configuration")
		began, written := time.Now(), make(chan struct{})
		go func() {
			defer close(written)
			for _, phase := range []hostapply.Phase{hostapply.Writing, hostapply.Booting, hostapply.Checking} {
				time.Sleep(time.Minute)
				if err := store.PutJournal(hostapply.Journal{First: true, Target: "rendered-worker-1", Phase: phase}); err != nil {
					t.Error(err)
				}
			}
		}()
		if err := r.takeFirst(t.Context()); err != nil {
			t.Fatal(err)
		}
		after := time.Since(began)
		<-written // the host may see the last one before its writer is done
		if after < 3*time.Minute || after > 3*time.Minute+firstInterval {
			t.Errorf("it joins after %s", after)
		}
		for _, want := range []string{"the agent has not begun", "rendered-worker-1: writing", "rendered-worker-1: booting"} {
			if strings.Count(log(), want) != 1 {
				t.Errorf("log %q has not one %q", log(), want)
			}
		}
		if err := r.takeFirst(t.Context()); err != nil || time.Since(began) != after {
			t.Errorf("begun anew it waits: %v", err)
		}
	})
}

func TestWithoutAFirstConfigurationAHostJoinsAtOnce(t *testing.T) {
	none, _ := newRun(t, state.RoleWorker)
	none.root = t.TempDir()
	node, _ := firstRun(t)
	damaged, log := firstRun(t)
	for path, text := range map[string]string{
		filepath.Join(node.root, kubeletConfig):           "of an earlier join",
		filepath.Join(damaged.root, hostconfig.FirstPath): "{",
	} {
		if err := host.WriteFileAtomic(path, []byte(text), state.SecretFileMode); err != nil {
			t.Fatal(err)
		}
	}
	for name, r := range map[string]*run{"none": none, "a node": node, "damaged": damaged} {
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		if err := r.takeFirst(ctx); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		stop()
	}
	if !strings.Contains(log(), "given its machine configuration once it is a node: read "+hostconfig.FirstPath) {
		t.Errorf("log %q", log())
	}
}
