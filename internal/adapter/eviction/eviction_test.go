package eviction

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/holdfast/holdfast/internal/model/state"
)

// TestTheGateOfTheDiskGoesByKubeletsOwnThresholds: an installation sets an amount, since a share of
// a large disk is more than any release needs.
func TestTheGateOfTheDiskGoesByKubeletsOwnThresholds(t *testing.T) {
	const size = 250 << 30
	for what, c := range map[string]struct {
		config string
		want   uint64
	}{
		"an amount":               {"evictionHard:\n  imagefs.available: 2Gi\n", 2 << 30},
		"a share":                 {"evictionHard:\n  imagefs.available: 5%\n", size / 20},
		"no file":                 {"", size / 100 * 15},
		"a torn file":             {"evictionHard: [", size / 100 * 15},
		"nothing about images":    {"evictionHard:\n  nodefs.available: 2Gi\n", size / 100 * 15},
		"something else":          {"evictionHard:\n  imagefs.available: plenty\n", size / 100 * 15},
		"a share of nothing real": {"evictionHard:\n  imagefs.available: 900%\n", size / 100 * 15},
		"less than nothing":       {"evictionHard:\n  imagefs.available: -2Gi\n", size / 100 * 15},
	} {
		root := t.TempDir()
		if c.config != "" {
			if err := os.MkdirAll(filepath.Join(root, filepath.Dir(kubeletConfig)), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(root, kubeletConfig), []byte(c.config), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if got := Line(Thresholds(root)["imagefs.available"], size, 15); got != c.want {
			t.Errorf("%s: %d, want %d", what, got, c.want)
		}
	}
}

// TestWhatASiteSetsByAKubeletConfigCountsToo: it lies in a file beside kubelet's own.
func TestWhatASiteSetsByAKubeletConfigCountsToo(t *testing.T) {
	root := t.TempDir()
	for path, text := range map[string]string{
		kubeletConfig: "evictionHard:\n  imagefs.available: 2Gi\n  nodefs.available: 2Gi\n",
		state.KubeletFolder + "50-machine-config.conf": "evictionHard:\n  nodefs.available: 20Gi\n",
		state.KubeletFolder + "60-more.conf":           "maxPods: 30\n",
		state.KubeletFolder + "70-torn.conf":           "evictionHard: [",
		state.KubeletFolder + "notes.txt":              "evictionHard:\n  nodefs.available: 90Gi\n",
	} {
		if err := os.MkdirAll(filepath.Join(root, filepath.Dir(path)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, path), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got := Thresholds(root); len(got) != 2 || got["nodefs.available"] != "20Gi" || got["imagefs.available"] != "2Gi" {
		t.Errorf("%v", got)
	}
}

// TestWhatMustStayFreeIsAtLeastWhatKubeletOfTheSiteWants: a site may have kubelet want more than an
// installation does.
func TestWhatMustStayFreeIsAtLeastWhatKubeletOfTheSiteWants(t *testing.T) {
	const size = 100 << 30
	for what, c := range map[string]struct {
		thresholds map[string]string
		want       uint64
	}{
		"nothing":                   {nil, state.KeptFree},
		"an installation's":         {map[string]string{"nodefs.available": "2Gi", "imagefs.available": "2Gi"}, state.KeptFree},
		"more":                      {map[string]string{"nodefs.available": "20Gi", "imagefs.available": "2Gi"}, 20 << 30},
		"a share":                   {map[string]string{"imagefs.available": "15%"}, size / 100 * 15},
		"less, which kubelet takes": {map[string]string{"nodefs.available": "1Gi"}, state.KeptFree},
		"what nobody reads":         {map[string]string{"nodefs.available": "plenty"}, state.KeptFree},
	} {
		if got := Kept(c.thresholds, size); got != c.want {
			t.Errorf("%s: %d, want %d", what, got, c.want)
		}
	}
}

// TestAThresholdCountsOnTheFileSystemsThatKubeletWatches: backups may have one of their own, which may
// be smaller than what kubelet wants elsewhere.
func TestAThresholdCountsOnTheFileSystemsThatKubeletWatches(t *testing.T) {
	thresholds := map[string]string{"nodefs.available": "20Gi", "imagefs.available": "30Gi"}
	for what, c := range map[string]struct {
		sizes map[string]uint64
		want  uint64
	}{
		"one for all":                {map[string]uint64{"backups": 1 << 40, "/var/lib/kubelet": 1 << 40, "/var/lib/containerd": 1 << 40}, 30 << 30},
		"images have their own":      {map[string]uint64{"backups": 1 << 40, "/var/lib/kubelet": 1 << 40, "/var/lib/containerd": 1 << 39}, 20 << 30},
		"backups have their own":     {map[string]uint64{"backups": 10 << 30, "/var/lib/kubelet": 1 << 40, "/var/lib/containerd": 1 << 40}, state.KeptFree},
		"that of pods is unknown":    {map[string]uint64{"backups": 1 << 40, "/var/lib/containerd": 1 << 39}, 20 << 30},
		"that of backups is unknown": {map[string]uint64{"/var/lib/kubelet": 1 << 40, "/var/lib/containerd": 1 << 39}, 30 << 30},
	} {
		if got := keptAt(thresholds, "backups", func(dir string) uint64 { return c.sizes[dir] }); got != c.want {
			t.Errorf("%s: %d, want %d", what, got, c.want)
		}
	}
	if dir := t.TempDir(); sizeOf(dir) == 0 || sizeOf(filepath.Join(dir, "not", "made")) != sizeOf(dir) {
		t.Errorf("%d, and %d where it will be made", sizeOf(dir), sizeOf(filepath.Join(dir, "not", "made")))
	}
}
