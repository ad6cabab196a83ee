// Package machineconfig merges the MachineConfigs of a pool into one, which
// every host of the pool is to have, and refuses what Holdfast cannot apply on
// a package-based host.
//
// The result depends on the contents alone: the same files, units, keys and
// kernel arguments give the same name, however many objects they come from.
package machineconfig

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/coreos/ignition/v2/config/v3_5/types"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/holdfast/holdfast/internal/model/ignition"
	"github.com/holdfast/holdfast/internal/model/state"
)

// User is the one account whose keys a MachineConfig may set.
const User = "core"

// Config is the configuration of a host.
type Config struct {
	// Ignition holds files, units and the keys of User, each sorted by its path or
	// name. Files carry their bytes in themselves and have a mode.
	Ignition types.Config
	// KernelArguments are in the order in which the kernel gets them.
	KernelArguments []string
}

// Empty reports whether a host that joins has nothing to do for a configuration: it has
// the site's proxy and authorities from its Ignition config.
func (c Config) Empty() bool {
	i := c.Ignition
	return len(i.Storage.Files)-len(c.ProxyFiles())+len(i.Systemd.Units)+len(i.Passwd.Users)+len(c.KernelArguments) == 0
}

// Rendered is the one configuration of a pool.
type Rendered struct {
	// Name is that of the MachineConfig which holds it: rendered-POOL-HASH.
	Name   string
	Config Config
	Spec   mcfgv1.MachineConfigSpec
	// Sources are the names of the MachineConfigs that it is made of, in the order
	// of the merge.
	Sources []string
	// Overrides lists what several of them set.
	Overrides []Override
}

// Override says that a later MachineConfig replaces what an earlier one set.
type Override struct {
	// What is a file by its path, or a unit by its name.
	What string
	By   string
	Of   string
}

// Render merges the MachineConfigs of a pool. Their order does not matter. own are
// files of Holdfast that belong to the configuration. The error is a Mistakes.
func Render(pool string, list []mcfgv1.MachineConfig, own ...types.File) (Rendered, error) {
	m := newMerger()
	for _, mc := range sorted(list) {
		m.add(mc, false)
	}
	m.config.Ignition.Storage.Files = append(m.config.Ignition.Storage.Files, own...)
	m.finish()
	if err := m.mistakes.err(); err != nil {
		return Rendered{}, err
	}
	raw, err := ignition.Canonical(m.config.Ignition)
	if err != nil {
		return Rendered{}, fmt.Errorf("pool %s: write the merged configuration: %w", pool, err)
	}
	if len(raw) > MaxBytes {
		return Rendered{}, Mistakes{{
			Object: "MachineConfigPool " + pool, Field: "spec.machineConfigSelector",
			Why: fmt.Sprintf("the merged configuration has %d bytes, and one object of the API holds %d; take files out or make them smaller", len(raw), MaxBytes),
		}}
	}
	return Rendered{
		Name:      Prefix + pool + "-" + hash(raw, m.config.KernelArguments),
		Config:    m.config,
		Spec:      mcfgv1.MachineConfigSpec{Config: runtime.RawExtension{Raw: raw}, KernelArguments: m.config.KernelArguments, Extensions: []string{}},
		Sources:   m.sources,
		Overrides: m.overrides,
	}, nil
}

// Prefix begins the name of each merged configuration.
const Prefix = "rendered-"

// LabelRendered is the label of an object with a merged configuration.
// AnnotationSources names what it was made from.
const (
	LabelRendered     = state.AnnotationDomain + "rendered-machine-config"
	AnnotationSources = state.AnnotationDomain + "machine-config-sources"
)

// Object returns the merged configuration as an object of the API.
func (r Rendered) Object() *mcfgv1.MachineConfig {
	return &mcfgv1.MachineConfig{
		TypeMeta: metav1.TypeMeta{APIVersion: mcfgv1.GroupVersion.String(), Kind: "MachineConfig"},
		ObjectMeta: metav1.ObjectMeta{
			Name: r.Name, Labels: map[string]string{LabelRendered: ""},
			Annotations: map[string]string{AnnotationSources: strings.Join(r.Sources, " ")},
		},
		Spec: r.Spec,
	}
}

// MaxBytes bounds a merged configuration. The API refuses a request above 1.5
// MiB; the object has more fields than the configuration.
const MaxBytes = 1 << 20

// hash identifies the contents of a configuration in 32 characters.
func hash(raw []byte, arguments []string) string {
	h := sha256.New()
	h.Write(raw)
	for _, a := range arguments {
		h.Write([]byte{0})
		h.Write([]byte(a))
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// Read returns the configuration of a merged MachineConfig. It refuses the same
// as Render, because a host believes no object of the API, and reads the files of
// Holdfast that belong to it. The error is a Mistakes.
func Read(mc mcfgv1.MachineConfig) (Config, error) {
	m := newMerger()
	m.add(mc, true)
	m.finish()
	return m.config, m.mistakes.err()
}

// Kept returns the configuration of a merged MachineConfig that a host has taken. It
// refuses nothing that can be read: an earlier release may have taken what this one
// refuses, and a host has to know what it has, to be compared with it and to leave it.
func Kept(mc mcfgv1.MachineConfig) (Config, error) {
	if raw := mc.Spec.Config.Raw; len(raw) > 0 {
		if _, err := ignition.Parse(raw); err != nil {
			return Config{}, err
		}
	}
	m := newMerger()
	m.add(mc, true)
	m.finish()
	return m.config, nil
}

// Mistakes lists all that is wrong with the MachineConfigs of a pool.
type Mistakes []Mistake

// Mistake is one thing that is wrong.
type Mistake struct {
	// Object is the kind and the name.
	Object string
	// Field is the path in the object.
	Field string
	Why   string
}

func (m Mistake) Error() string { return m.Object + ": " + m.Field + ": " + m.Why }

func (m Mistakes) Error() string {
	lines := make([]string, 0, len(m))
	for _, one := range m {
		lines = append(lines, one.Error())
	}
	return strings.Join(lines, "\n")
}

func (m Mistakes) err() error {
	if len(m) == 0 {
		return nil
	}
	return m
}

// sorted returns MachineConfigs in the order of the merge: those of the role
// worker come first, because other pools build upon them, then all others; each
// group by name (docs/facts/machine-config.md#merge, C1).
func sorted(list []mcfgv1.MachineConfig) []mcfgv1.MachineConfig {
	return slices.SortedStableFunc(slices.Values(list), func(a, b mcfgv1.MachineConfig) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Name, b.Name))
	})
}

func rank(mc mcfgv1.MachineConfig) int {
	if mc.Labels[mcfgv1.MachineConfigRoleLabelKey] == "worker" {
		return 0
	}
	return 1
}
