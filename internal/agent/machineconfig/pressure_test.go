package machineconfig

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	decide "github.com/holdfast/holdfast/internal/decide/machineconfig"
)

// endsBelow adds a configuration with which kubelet ends pods once less than that is free.
func (w *world) endsBelow(name, free string) {
	w.t.Helper()
	settings := `{"apiVersion":"kubelet.config.k8s.io/v1beta1","evictionSoft":{"memory.available":"` + free + `"},"evictionSoftGracePeriod":{"memory.available":"1m0s"},"kind":"KubeletConfiguration"}` + "\n"
	w.has(name, map[string]string{"/etc/motd": "one\n", "/etc/sysctl.d/50-site.conf": "vm.swappiness = 1\n", decide.KubeletPath: settings}, service("/bin/one"))
}

const short = "it is short of memory"

// TestAHostWhoseKubeletEndsItsPodsGoesBack: the node stays ready meanwhile. A typing error in a threshold would
// reach each host.
func TestAHostWhoseKubeletEndsItsPodsGoesBack(t *testing.T) {
	w := at(t, one)
	w.endsBelow(two, "500Gi")
	w.pressure = func() corev1.NodeConditionType {
		if strings.Contains(w.file(decide.KubeletPath), "500Gi") {
			return corev1.NodeMemoryPressure
		}
		return ""
	}
	w.wish(two)
	w.settle(hour)
	if want := "Degraded " + one + ": the host was not ready 10m0s after: kubelet has other settings, and ends pods: " + short; !strings.HasPrefix(w.says(), want) {
		t.Errorf("says %s, want %s", w.says(), want)
	}
	if w.boot != 2 || w.file(decide.KubeletPath) != "" {
		t.Errorf("%d boots, kubelet has %s", w.boot, w.file(decide.KubeletPath))
	}
	w.endsBelow(kernel, "500Mi")
	w.wish(kernel)
	if w.settle(hour); w.says() != "Done "+kernel+": " {
		t.Errorf("given the corrected one: %s", w.says())
	}
}

// TestAKubeletThatStartsLateIsWatched: the host was checked for long enough, and kubelet was ready just now.
func TestAKubeletThatStartsLateIsWatched(t *testing.T) {
	w := at(t, one)
	w.endsBelow(two, "90%")
	var ready time.Time
	w.pressure = func() corev1.NodeConditionType {
		if w.boot == 0 {
			return ""
		}
		if ready.IsZero() {
			ready = w.now
		}
		if w.now.Sub(ready) < 20*time.Second || !strings.Contains(w.file(decide.KubeletPath), "90%") {
			return ""
		}
		return corev1.NodeMemoryPressure
	}
	w.wish(two)
	pass := func() {
		_, _ = w.once()
		w.now = w.now.Add(5 * time.Second)
	}
	for range 100 {
		if w.boot == 0 {
			pass()
		}
	}
	w.notReady = true
	for range 15 {
		pass()
	}
	if w.notReady = false; w.boot != 1 || !ready.IsZero() {
		t.Fatalf("%d boots, says %s", w.boot, w.says())
	}
	if w.settle(hour); w.short() != "Degraded "+one || !strings.Contains(w.says(), short) {
		t.Errorf("says %s", w.says())
	}
}

// TestAWantThatKubeletsSettingsDidNotBringUndoesNothing: neither on a way that leaves them alone, nor on the way
// back, nor if the node had it before the way. One of another kind does.
func TestAWantThatKubeletsSettingsDidNotBringUndoesNothing(t *testing.T) {
	w := at(t, one)
	w.pressure = func() corev1.NodeConditionType { return corev1.NodeMemoryPressure }
	w.wish(kernel)
	if w.settle(hour); w.says() != "Done "+kernel+": " || w.boot != 1 {
		t.Errorf("kernel arguments: %d boots, says %s", w.boot, w.says())
	}
	var is corev1.NodeConditionType
	w.pressure = func() corev1.NodeConditionType {
		if strings.Contains(w.file(decide.KubeletPath), "1Gi") {
			is = corev1.NodeMemoryPressure
		}
		return is
	}
	w.endsBelow(two, "1Gi")
	w.wish(two)
	if w.settle(hour); w.short() != "Degraded "+kernel || w.boot != 3 || !strings.Contains(w.says(), short) || strings.Contains(w.says(), "; back with") {
		t.Errorf("%d boots, says %s", w.boot, w.says())
	}
	w.endsBelow(unset, "2Gi")
	w.wish(unset)
	if w.settle(hour); w.says() != "Done "+unset+": " || w.boot != 4 {
		t.Errorf("it was short of memory before: %d boots, says %s", w.boot, w.says())
	}
	w.pressure = func() corev1.NodeConditionType {
		if strings.Contains(w.file(decide.KubeletPath), "3Gi") {
			return corev1.NodePIDPressure
		}
		return is
	}
	w.endsBelow(bad, "3Gi")
	w.wish(bad)
	if w.settle(hour); w.short() != "Degraded "+unset || !strings.Contains(w.says(), "it is short of process ids") {
		t.Errorf("another want: %d boots, says %s", w.boot, w.says())
	}
}
