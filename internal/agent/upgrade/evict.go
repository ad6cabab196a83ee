package upgrade

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"
)

// kubeletConfig is the file that kubelet of a host reads.
const kubeletConfig = "/var/lib/kubelet/config.yaml"

// eviction returns kubelet's thresholds by their signals, such as nodefs.available. It is empty
// where the file says none, or cannot be read.
func eviction(root string) map[string]string {
	data, err := os.ReadFile(filepath.Join(root, kubeletConfig))
	if err != nil {
		return nil
	}
	var c struct {
		EvictionHard map[string]string `json:"evictionHard"`
	}
	if yaml.Unmarshal(data, &c) != nil {
		return nil
	}
	return c.EvictionHard
}

// line returns the free bytes of a file system of a size below which kubelet ends pods and removes
// images, by a threshold: an amount, or a share of the size. Without one that can be read it is
// kubelet's own share, which asks for more than any threshold of ours.
func line(threshold string, size, share uint64) uint64 {
	if percent, is := strings.CutSuffix(threshold, "%"); is {
		if p, err := strconv.ParseFloat(percent, 64); err == nil && p >= 0 && p <= 100 {
			return uint64(p / 100 * float64(size))
		}
	} else if q, err := resource.ParseQuantity(threshold); err == nil && q.Sign() >= 0 {
		return uint64(max(q.Value(), 0))
	}
	return size / 100 * share
}
