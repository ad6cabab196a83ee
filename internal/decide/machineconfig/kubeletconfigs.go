package machineconfig

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/coreos/ignition/v2/config/v3_5/types"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// wish is what one KubeletConfig or ContainerRuntimeConfig wants of kubelet.
type wish struct {
	// kind and name are those of the object.
	kind, name string
	selector   *metav1.LabelSelector
	fields     kubeletFields
	// paths are the fields of the object that set those of kubelet.
	paths    map[string]string
	mistakes Mistakes
}

func (w *wish) object() string { return w.kind + " " + w.name }

func (w *wish) fault(field, why string) {
	w.mistakes = append(w.mistakes, Mistake{w.object(), "spec." + field, why})
}

// set sets a field of kubelet, in the one form of its value.
func (w *wish) set(field, path string, value any) {
	raw, err := json.Marshal(value)
	if err == nil {
		var tree any
		d := json.NewDecoder(bytes.NewReader(raw))
		d.UseNumber()
		if err = d.Decode(&tree); err == nil {
			raw, err = json.Marshal(tree)
		}
	}
	if err != nil {
		w.fault(path, err.Error())
		return
	}
	w.fields[field], w.paths[field] = raw, "spec."+path
}

// wishes returns what all objects want, sorted by kind and name.
func wishes(all Objects) []wish {
	var out []wish
	for _, o := range slices.SortedFunc(slices.Values(all.ContainerRuntimeConfigs), func(a, b mcfgv1.ContainerRuntimeConfig) int { return strings.Compare(a.Name, b.Name) }) {
		out = append(out, ofRuntime(o))
	}
	for _, o := range slices.SortedFunc(slices.Values(all.KubeletConfigs), func(a, b mcfgv1.KubeletConfig) int { return strings.Compare(a.Name, b.Name) }) {
		out = append(out, ofKubelet(o))
	}
	return out
}

// maxVerbosity is the highest level of kubelet's log.
const maxVerbosity = 10

func ofKubelet(o mcfgv1.KubeletConfig) wish {
	w := wish{kind: "KubeletConfig", name: o.Name, selector: o.Spec.MachineConfigPoolSelector, fields: kubeletFields{}, paths: map[string]string{}}
	if o.Spec.AutoSizingReserved != nil && *o.Spec.AutoSizingReserved {
		w.fault("autoSizingReserved", "nobody computes it on these hosts; write kubeletConfig.systemReserved")
	}
	if o.Spec.TLSSecurityProfile != nil {
		w.fault("tlsSecurityProfile", "Holdfast sets the versions and ciphers of kubelet; remove it")
	}
	if o.Spec.KubeletConfig != nil {
		fields, err := parseKubelet(o.Spec.KubeletConfig.Raw)
		if err != nil {
			w.fault("kubeletConfig", err.Error())
		}
		checkKubelet(fields, func(field, why string) { w.fault("kubeletConfig."+field, why) })
		for field, value := range fields {
			w.set(field, "kubeletConfig."+field, value)
		}
	}
	if level := o.Spec.LogLevel; level != nil {
		if *level < 0 || *level > maxVerbosity {
			w.fault("logLevel", within(int64(*level), 0, maxVerbosity))
		}
		w.set("logging", "logLevel", map[string]any{"verbosity": *level})
	}
	return w
}

func ofRuntime(o mcfgv1.ContainerRuntimeConfig) wish {
	w := wish{kind: "ContainerRuntimeConfig", name: o.Name, selector: o.Spec.MachineConfigPoolSelector, fields: kubeletFields{}, paths: map[string]string{}}
	c := o.Spec.ContainerRuntimeConfig
	if c == nil {
		return w
	}
	const in = "containerRuntimeConfig."
	const written = "containerd's configuration is written once, before its first container; remove it"
	if c.PidsLimit != nil {
		w.set("podPidsLimit", in+"pidsLimit", *c.PidsLimit)
	}
	if c.LogSizeMax != nil {
		w.set("containerLogMaxSize", in+"logSizeMax", c.LogSizeMax.String())
	}
	checkKubelet(w.fields, func(field, why string) { w.fault(strings.TrimPrefix(w.paths[field], "spec."), why) })
	for _, r := range []struct {
		set        bool
		field, why string
	}{
		{c.LogLevel != "", "logLevel", written},
		{c.OverlaySize != nil && !c.OverlaySize.IsZero(), "overlaySize", "containerd has no such limit; remove it"},
		{c.DefaultRuntime != "" && c.DefaultRuntime != mcfgv1.ContainerRuntimeDefaultRuntimeRunc, "defaultRuntime", "a release carries runc alone"},
		{len(c.AdditionalLayerStores) > 0, "additionalLayerStores", "containerd has none; remove it"},
		{len(c.AdditionalImageStores) > 0, "additionalImageStores", "containerd has none; remove it"},
		{len(c.AdditionalArtifactStores) > 0, "additionalArtifactStores", "containerd has none; remove it"},
	} {
		if r.set {
			w.fault(in+r.field, r.why)
		}
	}
	return w
}

// selects reports whether an object is for a pool. One without a selector is for none.
func (w *wish) selects(pool *mcfgv1.MachineConfigPool) bool {
	s, err := metav1.LabelSelectorAsSelector(w.selector)
	return err == nil && !s.Empty() && s.Matches(labels.Set(pool.Labels))
}

// settings returns the file with kubelet's settings of a pool, or none, and the objects
// from which it is made. What is for the pool worker comes first in a pool that builds
// upon it; what is for the pool itself then replaces single settings.
func settings(pool *mcfgv1.MachineConfigPool, all Objects) (files []types.File, sources []string, overrides []Override, err error) {
	m := mergedSettings{fields: kubeletFields{}, by: map[string]*wish{}}
	list := wishes(all)
	layers := []*mcfgv1.MachineConfigPool{pool}
	if base := upon(pool, all.Pools); base != nil {
		layers = []*mcfgv1.MachineConfigPool{base, pool}
	}
	for _, layer := range layers {
		here := map[string]*wish{}
		for i := range list {
			if list[i].selects(layer) {
				m.add(&list[i], here, layer.Name)
			}
		}
		maps.Copy(m.by, here)
	}
	if len(m.mistakes) == 0 {
		checkTogetherIn(m.fields, func(field, why string) {
			m.mistakes = append(m.mistakes, Mistake{m.by[field].object(), m.by[field].paths[field] + " (merged)", why})
		})
	}
	if len(m.mistakes) > 0 || len(m.fields) == 0 {
		return nil, m.sources, nil, m.mistakes.err()
	}
	data, err := m.fields.file()
	return []types.File{ownFile(KubeletPath, data)}, m.sources, m.overrides, err
}

// mergedSettings is what the objects of a pool want together. by is whose value of a field
// holds in the layers that are complete.
type mergedSettings struct {
	fields    kubeletFields
	by        map[string]*wish
	sources   []string
	overrides []Override
	mistakes  Mistakes
}

// add takes over the fields of one object. here is who has set a field in this layer so
// far: two values there are a clash, and a value of a layer below is replaced.
func (m *mergedSettings) add(w *wish, here map[string]*wish, layer string) {
	if source := w.kind + "/" + w.name; !slices.Contains(m.sources, source) { // it may be for both layers
		m.sources, m.mistakes = append(m.sources, source), append(m.mistakes, w.mistakes...)
	}
	for _, field := range slices.Sorted(maps.Keys(w.fields)) {
		before, twice := here[field]
		if twice && !bytes.Equal(m.fields[field], w.fields[field]) {
			m.mistakes = append(m.mistakes, clash(w, before, field, layer), clash(before, w, field, layer))
		}
		if below := m.by[field]; below != nil && below != w && !twice {
			m.overrides = append(m.overrides, Override{What: "kubelet's " + field, By: w.object(), Of: below.object()})
		}
		m.fields[field], here[field] = w.fields[field], w
	}
}

// clash tells one of two objects that want different values.
func clash(w, other *wish, field, pool string) Mistake {
	why := fmt.Sprintf("%s has another value at %s, and both are for the pool %s", other.object(), other.paths[field], pool)
	return Mistake{w.object(), w.paths[field], why}
}

// checkTogetherIn checks settings of several objects that need each other. What is
// wrong with a single one was told before.
func checkTogetherIn(merged kubeletFields, fault func(field, why string)) {
	checkKubelet(merged, func(field, why string) {
		if _, set := merged[field]; set {
			fault(field, why)
		}
	})
}

// upon returns the pool worker, for another pool that takes over its MachineConfigs.
func upon(pool *mcfgv1.MachineConfigPool, pools []mcfgv1.MachineConfigPool) *mcfgv1.MachineConfigPool {
	const worker = "worker"
	s, err := metav1.LabelSelectorAsSelector(pool.Spec.MachineConfigSelector)
	if err != nil || pool.Name == worker || !s.Matches(labels.Set{mcfgv1.MachineConfigRoleLabelKey: worker}) {
		return nil
	}
	for i := range pools {
		if pools[i].Name == worker {
			return &pools[i]
		}
	}
	return nil
}

// Verdict says what became of a KubeletConfig or a ContainerRuntimeConfig.
type Verdict struct {
	Kind, Name string
	// Pools are those that it is for, and Problem is why they do not have it.
	Pools   []string
	Problem string
}

// Verdicts returns one for each object. An object has a problem if it is wrong itself,
// or if one of its pools has no configuration with it.
func Verdicts(all Objects) []Verdict {
	var out []Verdict
	for _, w := range wishes(all) {
		v := Verdict{Kind: w.kind, Name: w.name}
		problems := []string{}
		if w.mistakes != nil {
			problems = append(problems, w.mistakes.Error())
		}
		for i := range all.Pools {
			p := &all.Pools[i]
			if !w.selects(p) {
				continue
			}
			v.Pools = append(v.Pools, p.Name)
			_, _, _, err := settings(p, all)
			mine, told := isAbout(err, w.object())
			switch {
			case err == nil || w.mistakes != nil:
			case mine:
				problems = append(problems, told...)
			default:
				problems = append(problems, Mistake{"MachineConfigPool " + p.Name, "spec", "has no new configuration, because another object is wrong; its condition RenderDegraded says which"}.Error())
			}
		}
		if len(v.Pools) == 0 {
			problems = append(problems, Mistake{w.object(), "spec.machineConfigPoolSelector", "selects no MachineConfigPool; name one by its labels"}.Error())
		}
		slices.Sort(problems)
		v.Problem = strings.Join(slices.Compact(problems), "\n")
		out = append(out, v)
	}
	return out
}

// isAbout reports whether one of the mistakes in an error is an object's, and returns all
// of them.
func isAbout(err error, object string) (is bool, all []string) {
	mistakes, _ := errors.AsType[Mistakes](err)
	for _, m := range mistakes {
		is, all = is || m.Object == object, append(all, m.Error())
	}
	return is, all
}
