package machineconfig

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/coreos/ignition/v2/config/v3_5/types"
	configv1 "github.com/openshift/api/config/v1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/holdfast/holdfast/internal/model/ignition"
)

// Wanted are the objects that an administrator wants in the API. Only their name,
// labels, annotations and spec count.
type Wanted struct {
	MachineConfigs          []mcfgv1.MachineConfig
	KubeletConfigs          []mcfgv1.KubeletConfig
	ContainerRuntimeConfigs []mcfgv1.ContainerRuntimeConfig
	DigestMirrors           []configv1.ImageDigestMirrorSet
	TagMirrors              []configv1.ImageTagMirrorSet
	// Proxies and Bundles have at most the one Proxy, and the ConfigMap that it names.
	Proxies []configv1.Proxy
	Bundles []corev1.ConfigMap
}

// Add returns the objects of both.
func (w Wanted) Add(o Wanted) Wanted {
	return Wanted{
		MachineConfigs:          slices.Concat(w.MachineConfigs, o.MachineConfigs),
		KubeletConfigs:          slices.Concat(w.KubeletConfigs, o.KubeletConfigs),
		ContainerRuntimeConfigs: slices.Concat(w.ContainerRuntimeConfigs, o.ContainerRuntimeConfigs),
		DigestMirrors:           slices.Concat(w.DigestMirrors, o.DigestMirrors),
		TagMirrors:              slices.Concat(w.TagMirrors, o.TagMirrors),
		Proxies:                 slices.Concat(w.Proxies, o.Proxies),
		Bundles:                 slices.Concat(w.Bundles, o.Bundles),
	}
}

// names returns kind and name of each object.
func (w Wanted) names() []string {
	var out []string
	for _, o := range w.MachineConfigs {
		out = append(out, "MachineConfig "+o.Name)
	}
	for _, o := range w.KubeletConfigs {
		out = append(out, "KubeletConfig "+o.Name)
	}
	for _, o := range w.ContainerRuntimeConfigs {
		out = append(out, "ContainerRuntimeConfig "+o.Name)
	}
	for _, o := range w.DigestMirrors {
		out = append(out, DigestMirrorSet+" "+o.Name)
	}
	for _, o := range w.TagMirrors {
		out = append(out, TagMirrorSet+" "+o.Name)
	}
	for _, o := range w.Proxies {
		out = append(out, ProxyKind+" "+o.Name)
	}
	for _, o := range w.Bundles {
		out = append(out, "ConfigMap "+o.Namespace+"/"+o.Name)
	}
	return out
}

// With returns the objects of the API as they are once those that are wanted were
// written.
func (o Objects) With(w Wanted) Objects {
	o.MachineConfigs = laid(o.MachineConfigs, w.MachineConfigs, machineConfigSpec)
	o.KubeletConfigs = laid(o.KubeletConfigs, w.KubeletConfigs, kubeletSpec)
	o.ContainerRuntimeConfigs = laid(o.ContainerRuntimeConfigs, w.ContainerRuntimeConfigs, runtimeSpec)
	o.DigestMirrors = laid(o.DigestMirrors, w.DigestMirrors, digestSpec)
	o.TagMirrors = laid(o.TagMirrors, w.TagMirrors, tagSpec)
	o.Proxy = o.Proxy.with(w)
	return o
}

func machineConfigSpec(to *mcfgv1.MachineConfig, from mcfgv1.MachineConfig) { to.Spec = from.Spec }

func kubeletSpec(to *mcfgv1.KubeletConfig, from mcfgv1.KubeletConfig) { to.Spec = from.Spec }

func runtimeSpec(to *mcfgv1.ContainerRuntimeConfig, from mcfgv1.ContainerRuntimeConfig) {
	to.Spec = from.Spec
}

func digestSpec(to *configv1.ImageDigestMirrorSet, from configv1.ImageDigestMirrorSet) {
	to.Spec = from.Spec
}

func tagSpec(to *configv1.ImageTagMirrorSet, from configv1.ImageTagMirrorSet) { to.Spec = from.Spec }

// WrittenObject is an object of the API.
type WrittenObject interface {
	metav1.Object
	runtime.Object
}

// pointer is a pointer to an object of the API.
type pointer[T any] interface {
	*T
	WrittenObject
}

// laid returns the objects that there are, each replaced by the one that is wanted
// under its name, and then those that there are not.
func laid[T any, P pointer[T]](now, wanted []T, spec func(to *T, from T)) []T {
	out := slices.Clone(now)
	for _, w := range wanted {
		if before := find[T, P](out, w); before != nil {
			*before = merged[T, P](before, w, spec)
		} else {
			out = append(out, merged[T, P](nil, w, spec))
		}
	}
	return out
}

// find returns the object in a list that has the name of another one, or nil.
func find[T any, P pointer[T]](list []T, named T) *T {
	for i := range list {
		if P(&list[i]).GetName() == P(&named).GetName() {
			return &list[i]
		}
	}
	return nil
}

// merged returns an object with the labels, annotations and spec that are wanted.
// What others wrote beside them stays. now is nil if there is none.
func merged[T any, P pointer[T]](now *T, wanted T, spec func(to *T, from T)) T {
	out, w := new(T), P(&wanted)
	labels, annotations := map[string]string{}, map[string]string{}
	if now != nil {
		*out = *now
		maps.Copy(labels, P(now).GetLabels())
		maps.Copy(annotations, P(now).GetAnnotations())
	}
	maps.Copy(labels, w.GetLabels())
	maps.Copy(annotations, w.GetAnnotations())
	P(out).SetName(w.GetName())
	P(out).SetLabels(labels)
	P(out).SetAnnotations(annotations)
	spec(out, wanted)
	return *out
}

// Verb says what becomes of an object.
type Verb string

// The verbs.
const (
	Created   Verb = "created"
	Updated   Verb = "updated"
	Unchanged Verb = "unchanged"
)

// Write is what is to be written of one object.
type Write struct {
	Kind string
	Name string
	Verb Verb
	// Object is the whole object. It has the version of the one that it was compared
	// with, so that nothing is written over a later one.
	Object WrittenObject
}

// Writes returns what is to be written so that the API has what is wanted: settings
// of kubelet first, since they are merged with what MachineConfigs say.
func (o Objects) Writes(w Wanted) []Write {
	return slices.Concat(
		writes("KubeletConfig", o.KubeletConfigs, w.KubeletConfigs, kubeletSpec),
		writes("ContainerRuntimeConfig", o.ContainerRuntimeConfigs, w.ContainerRuntimeConfigs, runtimeSpec),
		writes(DigestMirrorSet, o.DigestMirrors, w.DigestMirrors, digestSpec),
		writes(TagMirrorSet, o.TagMirrors, w.TagMirrors, tagSpec),
		// The ConfigMap before the object that names it.
		writes("ConfigMap", o.Proxy.bundles(), w.Bundles, bundleData),
		writes(ProxyKind, o.Proxy.proxies(), w.Proxies, proxySpec),
		writes("MachineConfig", o.MachineConfigs, w.MachineConfigs, machineConfigSpec),
	)
}

func writes[T any, P pointer[T]](kind string, now, wanted []T, spec func(to *T, from T)) []Write {
	var out []Write
	for _, w := range wanted {
		before := find[T, P](now, w)
		after := merged[T, P](before, w, spec)
		verb := Created
		switch {
		case before != nil && same(*before, after):
			verb = Unchanged
		case before != nil:
			verb = Updated
		}
		out = append(out, Write{Kind: kind, Name: P(&after).GetName(), Verb: verb, Object: P(&after)})
	}
	return out
}

// same reports whether two objects say the same, in whatever form: the API server
// keeps an empty list where a file has none.
func same(a, b any) bool {
	return reflect.DeepEqual(plainForm(a), plainForm(b))
}

func plainForm(v any) any {
	raw, err := json.Marshal(v)
	if err != nil {
		return v
	}
	var tree any
	if err := json.Unmarshal(raw, &tree); err != nil {
		return v
	}
	return withoutEmpty(tree)
}

// withoutEmpty drops what is empty from a tree of JSON.
func withoutEmpty(tree any) any {
	switch t := tree.(type) {
	case map[string]any:
		for key, value := range t {
			if t[key] = withoutEmpty(value); t[key] == nil {
				delete(t, key)
			}
		}
		if len(t) == 0 {
			return nil
		}
	case []any:
		if len(t) == 0 {
			return nil
		}
	}
	return tree
}

// Check returns all that is wrong with what is wanted: what keeps a pool from having
// a configuration, and what no pool has yet and none could have. What was wrong
// with other objects before is not repeated. The error is a Mistakes.
func (o Objects) Check(w Wanted) error {
	var out Mistakes
	names := w.names()
	for i, name := range names {
		if slices.Contains(names[:i], name) {
			out = append(out, Mistake{name, "metadata.name", "stands there twice"})
		}
	}
	for _, mc := range w.MachineConfigs {
		if strings.HasPrefix(mc.Name, Prefix) {
			out = append(out, Mistake{"MachineConfig " + mc.Name, "metadata.name", "the prefix " + Prefix + " is kept for results of a merge; choose another name"})
		}
	}
	then := o.With(w)
	before := Mistakes{}
	for i := range o.Pools {
		before = append(before, mistakesOf(o.Pools[i].Name, second(Of(&o.Pools[i], o)))...)
		out = append(out, mistakesOf(o.Pools[i].Name, second(Of(&o.Pools[i], then)))...)
	}
	for _, mc := range w.MachineConfigs {
		_, err := Render("wanted", []mcfgv1.MachineConfig{mc}) // no pool may select it yet
		for _, m := range mistakesOf(mc.Name, err) {
			if m.Object == "MachineConfig "+mc.Name {
				out = append(out, m)
			}
		}
	}
	for _, v := range Verdicts(then) {
		if object := v.Kind + " " + v.Name; v.Problem != "" && len(v.Pools) == 0 && slices.Contains(names, object) {
			out = append(out, Mistake{object, "spec.machineConfigPoolSelector", "selects no MachineConfigPool; name one by its labels"})
		}
	}
	return once(out, func(m Mistake) bool { return slices.Contains(names, m.Object) || !slices.Contains(before, m) }).err()
}

func second[T any](_ T, err error) error { return err }

// mistakesOf returns the mistakes in an error.
func mistakesOf(pool string, err error) Mistakes {
	if m, ok := errors.AsType[Mistakes](err); ok || err == nil {
		return m
	}
	return Mistakes{{"MachineConfigPool " + pool, "spec", err.Error()}}
}

// once returns the mistakes that count, each once: several pools may have the same.
func once(list Mistakes, counts func(Mistake) bool) Mistakes {
	var out Mistakes
	for _, m := range list {
		if counts(m) && !slices.Contains(out, m) {
			out = append(out, m)
		}
	}
	return out
}

// Unselected returns the names of wanted MachineConfigs that are for no pool.
func (o Objects) Unselected(w Wanted) []string {
	then := o.With(w)
	var out []string
	for _, mc := range w.MachineConfigs {
		if !slices.ContainsFunc(o.Pools, func(p mcfgv1.MachineConfigPool) bool {
			list, err := Selected(&p, then.MachineConfigs)
			return err == nil && slices.ContainsFunc(list, func(s mcfgv1.MachineConfig) bool { return s.Name == mc.Name })
		}) {
			out = append(out, mc.Name)
		}
	}
	return out
}

// keyRoles are the roles whose hosts have the keys of an install configuration.
var keyRoles = []string{"master", "worker"}

// keysName is the name of the MachineConfig with the keys of a role.
func keysName(role string) string { return "99-" + role + "-ssh" }

// OfKeys returns the MachineConfigs with the keys of User for both roles, under the
// names that upstream's installer gives them. Without keys there is none.
func OfKeys(keys []string) ([]mcfgv1.MachineConfig, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	user := types.PasswdUser{Name: User}
	for _, key := range keys {
		user.SSHAuthorizedKeys = append(user.SSHAuthorizedKeys, types.SSHAuthorizedKey(key))
	}
	raw, err := ignition.Canonical(types.Config{
		Ignition: types.Ignition{Version: ignition.Newest}, Passwd: types.Passwd{Users: []types.PasswdUser{user}},
	})
	if err != nil {
		return nil, fmt.Errorf("write the keys of %s: %w", User, err)
	}
	var out []mcfgv1.MachineConfig
	for _, role := range keyRoles {
		out = append(out, mcfgv1.MachineConfig{
			TypeMeta:   metav1.TypeMeta{APIVersion: mcfgv1.GroupVersion.String(), Kind: "MachineConfig"},
			ObjectMeta: metav1.ObjectMeta{Name: keysName(role), Labels: map[string]string{mcfgv1.MachineConfigRoleLabelKey: role}},
			Spec:       mcfgv1.MachineConfigSpec{Config: runtime.RawExtension{Raw: raw}},
		})
	}
	return out, nil
}
