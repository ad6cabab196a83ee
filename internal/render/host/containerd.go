package host

import (
	"bytes"
	"fmt"
	"text/template"

	"github.com/holdfast/holdfast/internal/payload"
	"github.com/holdfast/holdfast/internal/state"
)

// Containerd renders containerd's configuration for one host, format version
// 3 of containerd 2. Kubelet takes over its driver of control groups, whatever its
// own configuration says. It never changes under containers that run: the file is
// written once, before the first of them.
func Containerd(host state.HostFacts) ([]byte, error) {
	var out bytes.Buffer
	if err := containerdTemplate.Execute(&out, map[string]any{
		"Pause": payload.Image("pause"), "RestrictOOM": host.RestrictOOM,
		"Systemd": host.CgroupDriver() == "systemd",
	}); err != nil {
		return nil, fmt.Errorf("render %s: %w", ContainerdPath, err)
	}
	return out.Bytes(), nil
}

var containerdTemplate = template.Must(template.New("config.toml").Parse(`# Written by holdfast-agent; changes are overwritten.
version = 3

[plugins.'io.containerd.cri.v1.images'.pinned_images]
sandbox = '{{.Pause}}'

[plugins.'io.containerd.cri.v1.runtime']
restrict_oom_score_adj = {{.RestrictOOM}}

[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
runtime_type = 'io.containerd.runc.v2'

[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
SystemdCgroup = {{.Systemd}}

[plugins.'io.containerd.cri.v1.runtime'.cni]
bin_dirs = ['/opt/cni/bin']
conf_dir = '/etc/cni/net.d'
`))
