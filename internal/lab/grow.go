package lab

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"sigs.k8s.io/yaml"
)

// Grown returns the spec of the lab with some of its spare control planes in the site.
func (s Spec) Grown(controlPlanes int) (Spec, error) {
	most := s.ControlPlanes + s.SpareControlPlanes
	if controlPlanes < s.ControlPlanes || controlPlanes > most {
		return Spec{}, fmt.Errorf("control planes: %d: must be %d to %d: lab %s has %d, and %d spare",
			controlPlanes, s.ControlPlanes, most, s.Name, s.ControlPlanes, s.SpareControlPlanes)
	}
	s.ControlPlanes, s.SpareControlPlanes = controlPlanes, most-controlPlanes
	return s, nil
}

// grownConfig returns a site's own install-config with the control planes of a layout: their
// number, their fencing credentials, and the list of machines where a site of that many
// control planes has one. All else stays as it is.
func (l Layout) grownConfig(own []byte) ([]byte, error) {
	var site document
	if err := yaml.Unmarshal(own, &site); err != nil {
		return nil, fmt.Errorf("read the install-config of lab %s: %w", l.Spec.Name, err)
	}
	controlPlane, _ := site["controlPlane"].(document)
	platform, _ := site["platform"].(document)
	if controlPlane == nil || platform == nil {
		return nil, fmt.Errorf("the install-config of lab %s has no controlPlane or no platform", l.Spec.Name)
	}
	l.setControlPlanes(controlPlane)
	if metal, ok := platform["baremetal"].(document); ok {
		l.setMachines(metal)
	}
	return yaml.Marshal(site)
}

// GrownConfig returns the install-config of the lab's site with the control planes of a
// spec of Grown. It holds the BMCs' passwords.
func (b *Lab) GrownConfig(to Spec) ([]byte, error) {
	own, err := os.ReadFile(filepath.Join(b.SiteDir(), "install-config.yaml"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("lab %s has no install-config: its hosts are bare, or 'holdfast lab up' has not got that far yet", b.Layout.Spec.Name)
	}
	if err != nil {
		return nil, err
	}
	return NewLayout(to).grownConfig(own)
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
