package config

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// The feature sets of an install-config beside the default one, "".
const (
	TechPreviewNoUpgrade = "TechPreviewNoUpgrade"
	DevPreviewNoUpgrade  = "DevPreviewNoUpgrade"
	CustomNoUpgrade      = "CustomNoUpgrade"
)

// DualReplicaGate is the feature gate of two control planes.
const DualReplicaGate = "DualReplicaTopology"

var gateName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9]*$`)

// FeatureGate is one entry of featureGates.
type FeatureGate struct {
	Name    string
	Enabled bool
}

// ParseFeatureGate reads an entry "Name=true" or "Name=false", in any spelling
// of the two values that Kubernetes' programs accept; ok is false for anything
// else.
func ParseFeatureGate(entry string) (gate FeatureGate, ok bool) {
	name, value, _ := strings.Cut(entry, "=")
	enabled, err := strconv.ParseBool(value)
	if !gateName.MatchString(name) || err != nil {
		return FeatureGate{}, false
	}
	return FeatureGate{Name: name, Enabled: enabled}, true
}

func (v *validator) features() {
	path := field.NewPath("featureSet")
	set := v.c.FeatureSet
	sets := []string{"Default", TechPreviewNoUpgrade, DevPreviewNoUpgrade, CustomNoUpgrade}
	switch {
	case set != "" && !slices.Contains(sets, set):
		v.add(field.NotSupported(path, set, sets))
	case v.two() && set != "" && set != CustomNoUpgrade:
		v.add(field.Invalid(path, set,
			"two control planes need CustomNoUpgrade with "+DualReplicaGate+", and a cluster has one feature set: leave featureSet out"))
	}
	v.featureGates(field.NewPath("featureGates"))
}

// two reports whether there are two control planes.
func (v *validator) two() bool {
	return v.readable("controlPlane.replicas") && v.c.ControlPlaneReplicas() == twoNodeReplicas
}

func (v *validator) featureGates(path *field.Path) {
	gates := v.c.FeatureGates
	if len(gates) > 0 && v.c.FeatureSet != CustomNoUpgrade && v.readable("featureSet") {
		v.add(field.Forbidden(path, "needs featureSet: CustomNoUpgrade"))
	}
	seen := map[string]*field.Path{}
	for i, entry := range gates {
		at := path.Index(i)
		gate, ok := ParseFeatureGate(entry)
		switch first := seen[gate.Name]; {
		case !ok:
			v.add(field.Invalid(at, entry, "must be Name=true or Name=false"))
			continue
		case first != nil:
			v.add(duplicate(at, entry, first))
		case gate.Name == DualReplicaGate && gate.Enabled != v.two():
			v.add(field.Invalid(at, entry, "is set by the number of control planes: leave it out"))
		}
		seen[gate.Name] = at
	}
}
