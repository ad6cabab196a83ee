// Package eviction reads below which free space kubelet of this host ends pods and removes images.
package eviction

import (
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/model/state"
)

// kubeletConfig is the file that kubelet of a host reads first.
const kubeletConfig = "/var/lib/kubelet/config.yaml"

// Thresholds returns kubelet's thresholds by their signals, such as nodefs.available. As kubelet does,
// it reads the files in state.KubeletFolder after its first one, in the order of their names: a
// later file replaces the thresholds that it names. The result is empty where no file says one; a file
// that cannot be read says none.
func Thresholds(root string) map[string]string {
	files, _ := filepath.Glob(filepath.Join(root, state.KubeletFolder, "*.conf")) // sorted; its only error is a bad pattern
	out := map[string]string{}
	for _, path := range append([]string{filepath.Join(root, kubeletConfig)}, files...) {
		data, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		var c struct {
			EvictionHard map[string]string `json:"evictionHard"`
		}
		if yaml.Unmarshal(data, &c) == nil {
			maps.Copy(out, c.EvictionHard)
		}
	}
	return out
}

// Line returns the free bytes of a file system of a size below which kubelet ends pods and
// removes images, by a threshold: an amount, or a share of the size. Without one that can be read it
// is kubelet's own share of the hundred, which asks for more than any threshold of ours.
func Line(threshold string, size, share uint64) uint64 {
	if percent, is := strings.CutSuffix(threshold, "%"); is {
		if p, err := strconv.ParseFloat(percent, 64); err == nil && p >= 0 && p <= 100 {
			return uint64(p / 100 * float64(size))
		}
	} else if q, err := resource.ParseQuantity(threshold); err == nil && q.Sign() >= 0 {
		return uint64(max(q.Value(), 0))
	}
	return size / 100 * share
}

// watched are the folders by whose file systems kubelet judges each signal.
var watched = map[string]string{"nodefs.available": "/var/lib/kubelet", "imagefs.available": "/var/lib/containerd"}

// Kept returns how many bytes our programs leave free on file systems of a size. A site may have set
// more than state.KeptFree: whatever they took below that, kubelet would take from pods, on all hosts at once.
func Kept(thresholds map[string]string, size uint64) uint64 {
	out := uint64(state.KeptFree)
	for signal := range watched {
		if t := thresholds[signal]; t != "" {
			out = max(out, Line(t, size, 0))
		}
	}
	return out
}

// KeptAt returns that of the file system of a folder of this host.
func KeptAt(dir string) uint64 { return keptAt(Thresholds("/"), dir, sizeOf) }

// keptAt lets a threshold count where kubelet looks alone: backups on a small file system of their own
// take nothing from pods. Two of one size count as one, because subvolumes of one look like two.
func keptAt(thresholds map[string]string, dir string, sizeOf func(dir string) uint64) uint64 {
	counts, size := map[string]string{}, sizeOf(dir)
	for signal, at := range watched {
		if its := sizeOf(at); its == size || its == 0 || size == 0 {
			counts[signal] = thresholds[signal]
		}
	}
	return Kept(counts, size)
}

// sizeOf returns the size of the file system of a folder, or of where it will be made; zero if it
// is unknown.
func sizeOf(dir string) uint64 {
	for !host.Exists(dir) && dir != filepath.Dir(dir) {
		dir = filepath.Dir(dir)
	}
	_, size, err := host.Space(dir)
	if err != nil {
		return 0
	}
	return size
}
