package lab

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// Grown returns the spec of the lab with another number of control planes in the site: some of
// the spare ones besides, or fewer.
func (s Spec) Grown(controlPlanes int) (Spec, error) {
	most := s.ControlPlanes + s.SpareControlPlanes
	if controlPlanes < 1 || controlPlanes > most {
		return Spec{}, fmt.Errorf("control planes: %d: must be 1 to %d: lab %s has %d, and %d spare",
			controlPlanes, most, s.Name, s.ControlPlanes, s.SpareControlPlanes)
	}
	s.ControlPlanes, s.SpareControlPlanes = controlPlanes, most-controlPlanes
	return s, nil
}

// GrownConfig returns an install-config of the site with the control planes of a layout:
// their number, their fencing credentials, and the list of machines where a site of that
// many control planes has one. All else stays as it is. It holds the BMCs' passwords.
func (l Layout) GrownConfig(own []byte) ([]byte, error) {
	site, err := l.readConfig(own, "controlPlane", "platform")
	if err != nil {
		return nil, err
	}
	l.setControlPlanes(site["controlPlane"].(document))
	if metal, ok := site["platform"].(document)["baremetal"].(document); ok {
		l.setMachines(metal)
	}
	return yaml.Marshal(site)
}

// readConfig reads an install-config of the site that has the wanted parts, each a mapping.
func (l Layout) readConfig(own []byte, parts ...string) (document, error) {
	var site document
	if err := yaml.Unmarshal(own, &site); err != nil {
		return nil, fmt.Errorf("read the install-config of lab %s: %w", l.Spec.Name, err)
	}
	for _, part := range parts {
		if found, _ := site[part].(document); found == nil {
			return nil, fmt.Errorf("the install-config of lab %s has no %s", l.Spec.Name, strings.Join(parts, " or no "))
		}
	}
	return site, nil
}

// OwnConfig returns the install-config with which the lab's site was installed. It holds
// the BMCs' passwords.
func (b *Lab) OwnConfig() ([]byte, error) {
	own, err := os.ReadFile(filepath.Join(b.SiteDir(), "install-config.yaml"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("lab %s has no install-config: its hosts are bare, or 'holdfast lab up' has not got that far yet", b.Layout.Spec.Name)
	}
	return own, err
}

// awaitsJoinFile reports whether a host is a spare control plane: the site does not know
// it, and it has no Ignition config until somebody gives it one.
func (h Host) awaitsJoinFile() bool { return h.Spare && !h.Former && h.Role.ControlPlane() }

// ControlPlanes returns the control planes of the site: those with which it was installed,
// and the spare ones that were given an Ignition config since.
func (b *Lab) ControlPlanes() []Host {
	out := slices.Clip(b.Layout.ControlPlanes())
	for _, h := range b.Layout.Hosts {
		if h.awaitsJoinFile() && exists(b.ignitionFile(h)) {
			out = append(out, h)
		}
	}
	return out
}
