package host

import (
	"fmt"
	"path"
	"strings"

	"github.com/holdfast/holdfast/internal/model/payload"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Containerd renders containerd's configuration for one host, in format version 3
// of containerd 2. Kubelet adopts its cgroup driver, whatever its own
// configuration says. The file never changes under running containers: it is
// written once, before the first of them.
func Containerd(host state.HostFacts) []byte {
	return fmt.Appendf(nil, containerdConfig, payload.Image("pause"), path.Clean(state.MirrorsFolder), host.RestrictOOM, host.CgroupDriver() == "systemd")
}

// Sandbox returns the image of every pod's sandbox that a configuration of containerd names;
// empty if it names none.
func Sandbox(config []byte) string {
	for line := range strings.Lines(string(config)) {
		if key, value, is := strings.Cut(line, "="); is && strings.TrimSpace(key) == "sandbox" {
			return strings.Trim(strings.TrimSpace(value), `'"`)
		}
	}
	return ""
}

// containerdConfig takes the pause image, the folder with the mirrors of registries,
// whether the OOM killer's score is restricted, and whether the cgroup driver is
// systemd. The folder is named, because containerd's default is a list of two, and
// pulls by its transfer service find nothing in a list.
const containerdConfig = `# Written by holdfast-agent; changes are overwritten.
version = 3

[plugins.'io.containerd.cri.v1.images'.pinned_images]
sandbox = '%s'

[plugins.'io.containerd.cri.v1.images'.registry]
config_path = '%s'

[plugins.'io.containerd.cri.v1.runtime']
restrict_oom_score_adj = %t

[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
runtime_type = 'io.containerd.runc.v2'

[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
SystemdCgroup = %t

[plugins.'io.containerd.cri.v1.runtime'.cni]
bin_dirs = ['/opt/cni/bin']
conf_dir = '/etc/cni/net.d'
`
