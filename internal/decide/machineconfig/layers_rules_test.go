package machineconfig_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/holdfast/holdfast/internal/decide/machineconfig"
)

// wants is one object that wants settings of kubelet, in the small world of the tests
// below: for some of the pools worker and gpu, a limit of processes, and a number of
// pods. Zero stands for no wish.
type wants struct {
	name  string
	of    string // its kind
	pools []string
	pids  int64
	pods  int64
	wrong bool // the object is wrong itself
}

func (w wants) id() string { return w.of + " " + w.name }

// site of the world: its objects, in some order.
func layered(list []wants) machineconfig.Objects {
	out := kubeletObjects(nil)
	for _, w := range list {
		selector := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "pool", Operator: metav1.LabelSelectorOpIn, Values: append([]string{"none"}, w.pools...)}}}
		meta := metav1.ObjectMeta{Name: w.name}
		if w.of == "ContainerRuntimeConfig" {
			o := mcfgv1.ContainerRuntimeConfig{ObjectMeta: meta}
			o.Spec.MachineConfigPoolSelector, o.Spec.ContainerRuntimeConfig = selector, &mcfgv1.ContainerRuntimeConfiguration{}
			if w.pids != 0 {
				o.Spec.ContainerRuntimeConfig.PidsLimit = &w.pids
			}
			if w.wrong {
				o.Spec.ContainerRuntimeConfig.LogLevel = "debug"
			}
			out.ContainerRuntimeConfigs = append(out.ContainerRuntimeConfigs, o)
			continue
		}
		o := mcfgv1.KubeletConfig{ObjectMeta: meta}
		o.Spec.MachineConfigPoolSelector = selector
		var fields []string
		if w.pids != 0 {
			fields = append(fields, fmt.Sprintf(`"podPidsLimit": %d`, w.pids))
		}
		if w.pods != 0 {
			fields = append(fields, fmt.Sprintf(`"maxPods": %d`, w.pods))
		}
		if w.wrong {
			fields = append(fields, `"clusterDNS": []`)
		}
		o.Spec.KubeletConfig = &runtime.RawExtension{Raw: []byte("{" + strings.Join(fields, ", ") + "}")}
		out.KubeletConfigs = append(out.KubeletConfigs, o)
	}
	return out
}

// outcome is what the pool gpu, or worker, gets by a second formulation of the rules.
type outcome struct {
	pids, pods int64
	// clashes and wrong name the objects that are named in mistakes.
	clashes, wrong map[string]bool
	sources        []string
	overrides      []string
}

// expected says what a pool gets: what is for workers, and over it what is for the pool
// itself. Objects for the same pool may not want different things of it.
func expected(list []wants, pool string) outcome {
	out := outcome{clashes: map[string]bool{}, wrong: map[string]bool{}}
	layers := []string{"worker"}
	if pool != "worker" {
		layers = append(layers, pool)
	}
	type setting struct {
		what  string
		value func(wants) int64
		into  *int64
	}
	for _, s := range []setting{{"kubelet's maxPods", func(w wants) int64 { return w.pods }, &out.pods}, {"kubelet's podPidsLimit", func(w wants) int64 { return w.pids }, &out.pids}} {
		by := ""
		for _, layer := range layers {
			var here []wants
			for _, w := range list {
				if slices.Contains(w.pools, layer) && s.value(w) != 0 {
					here = append(here, w)
				}
			}
			for _, w := range here {
				if s.value(w) != s.value(here[0]) {
					for _, all := range here {
						out.clashes[all.id()] = true
					}
				}
			}
			if len(here) > 0 {
				if by != "" && by != here[0].id() {
					out.overrides = append(out.overrides, fmt.Sprintf("%s %s %s", s.what, here[0].id(), by))
				}
				*s.into, by = s.value(here[0]), here[len(here)-1].id()
			}
		}
	}
	for _, layer := range layers {
		for _, w := range list {
			source := w.of + "/" + w.name
			if slices.Contains(w.pools, layer) && !slices.Contains(out.sources, source) {
				out.sources = append(out.sources, source)
				if w.wrong {
					out.wrong[w.id()] = true
				}
			}
		}
	}
	return out
}

// worlds calls a function with each world of two KubeletConfigs and a
// ContainerRuntimeConfig, in the order in which they are merged.
func worlds(do func(list []wants)) {
	sets := [][]string{nil, {"worker"}, {"gpu"}, {"gpu", "worker"}}
	for _, r := range sets {
		for _, a := range sets {
			for _, b := range sets {
				for _, pids := range []int64{0, 100} {
					for _, first := range []wants{{pids: 100}, {pids: 200, pods: 10}, {pods: 10}} {
						for _, second := range []wants{{}, {pids: 100, pods: 20}, {pods: 10}} {
							list := []wants{{name: "r", of: "ContainerRuntimeConfig", pools: r, pids: pids}, first, second}
							list[1].name, list[1].of, list[1].pools = "a", "KubeletConfig", a
							list[2].name, list[2].of, list[2].pools = "b", "KubeletConfig", b
							do(list)
						}
					}
				}
			}
		}
	}
}

// check compares what a pool gets with what it should.
func check(t *testing.T, list []wants, all machineconfig.Objects, pool string) (refused bool) {
	t.Helper()
	p := &all.Pools[slices.IndexFunc(all.Pools, func(p mcfgv1.MachineConfigPool) bool { return p.Name == pool })]
	want := expected(list, pool)
	r, err := machineconfig.Of(p, all)
	if len(want.clashes)+len(want.wrong) > 0 {
		if err == nil {
			t.Fatalf("%s of %+v is accepted", pool, list)
		}
		lines := strings.Split(err.Error(), "\n")
		for i, line := range lines {
			if slices.Contains(lines[:i], line) {
				t.Fatalf("%s of %+v: told twice: %s", pool, list, line)
			}
			named := strings.Join(strings.Fields(line)[:2], " ")
			if id := strings.TrimSuffix(named, ":"); !want.clashes[id] && !want.wrong[id] {
				t.Fatalf("%s of %+v: %s is named: %s", pool, list, id, line)
			}
		}
		for id := range want.clashes {
			if !strings.Contains(err.Error(), id+": spec.") {
				t.Fatalf("%s of %+v: %s is not named: %v", pool, list, id, err)
			}
		}
		return true
	}
	if err != nil {
		t.Fatalf("%s of %+v: %v", pool, list, err)
	}
	var overrides []string
	for _, o := range r.Overrides {
		overrides = append(overrides, fmt.Sprintf("%s %s %s", o.What, o.By, o.Of))
	}
	slices.Sort(overrides)
	if !slices.Equal(r.Sources, want.sources) || !slices.Equal(overrides, want.overrides) {
		t.Fatalf("%s of %+v: made of %q, want %q; overrides %q, want %q", pool, list, r.Sources, want.sources, overrides, want.overrides)
	}
	text, _ := kubeletOf(t, all, pool)
	for field, value := range map[string]int64{"podPidsLimit": want.pids, "maxPods": want.pods} {
		if has := strings.Contains(text, fmt.Sprintf("%q:%d", field, value)); value != 0 && !has || value == 0 && strings.Contains(text, field) {
			t.Fatalf("%s of %+v: %s is not %d: %s", pool, list, field, value, text)
		}
	}
	if (text == "") != (want.pids+want.pods == 0) {
		t.Fatalf("%s of %+v: %s", pool, list, text)
	}
	return false
}

// TestInEachWorldAPoolGetsWhatIsForIt: three objects, each for any of two pools, of which
// one builds upon the other.
func TestInEachWorldAPoolGetsWhatIsForIt(t *testing.T) {
	tried, refused := 0, 0
	worlds(func(list []wants) {
		all := layered(list)
		for _, pool := range []string{"worker", "gpu"} {
			tried++
			if check(t, list, all, pool) {
				refused++
			}
		}
	})
	if tried < 2000 || refused < 200 || tried-refused < 200 {
		t.Errorf("%d tried, %d refused", tried, refused)
	}
}

// TestTheOrderOfObjectsDoesNotMatter: they have the one of their names.
func TestTheOrderOfObjectsDoesNotMatter(t *testing.T) {
	seen := 0
	worlds(func(list []wants) {
		if seen++; seen%7 != 0 {
			return // one of seven is enough
		}
		all, turned := layered(list), layered(list)
		slices.Reverse(turned.KubeletConfigs)
		slices.Reverse(turned.Pools)
		for i, pool := range all.Pools {
			one, err := machineconfig.Of(&all.Pools[i], all)
			other, wrong := machineconfig.Of(&turned.Pools[len(turned.Pools)-1-i], turned)
			if one.Name != other.Name || fmt.Sprint(err) != fmt.Sprint(wrong) || !slices.Equal(one.Sources, other.Sources) || !slices.Equal(one.Overrides, other.Overrides) {
				t.Fatalf("%s of %+v: %s and %s, %v and %v", pool.Name, list, one.Name, other.Name, err, wrong)
			}
		}
	})
}

// TestWhoeverIsInTheWayOfAPoolHasAProblem: an object is well if each of its pools has a
// configuration with it, and nobody else's mistake is told as its own.
func TestWhoeverIsInTheWayOfAPoolHasAProblem(t *testing.T) {
	kinds := map[string]int{}
	worlds(func(list []wants) {
		for bad := range len(list) + 1 {
			if bad < len(list) && list[bad].pids != 100 && list[bad].pods != 20 {
				continue // one of some is enough
			}
			world := slices.Clone(list)
			if bad < len(list) {
				world[bad].wrong = true
			}
			all := layered(world)
			verdicts := machineconfig.Verdicts(all)
			if len(verdicts) != len(world) {
				t.Fatalf("%d verdicts", len(verdicts))
			}
			for i, w := range world {
				v := verdicts[i]
				own, others, clash := w.wrong, false, false
				for _, pool := range w.pools {
					// A pool that builds upon workers may lack a configuration by what is for those.
					want := expected(world, pool)
					clash = clash || want.clashes[w.id()]
					others = others || len(want.clashes)+len(want.wrong) > 0 && !want.clashes[w.id()] && !want.wrong[w.id()]
				}
				lines := strings.Split(v.Problem, "\n")
				if v.Kind+" "+v.Name != w.id() || !slices.Equal(v.Pools, w.pools) {
					t.Fatalf("%+v: %+v", world, v)
				}
				switch has := func(text string) bool { return strings.Contains(v.Problem, text) }; {
				case len(w.pools) == 0 && !has("selects no MachineConfigPool"), len(w.pools) > 0 && has("selects no MachineConfigPool"):
					t.Fatalf("%+v: %+v: for no pool", world, v)
				case own && !has("remove it"):
					t.Fatalf("%+v: %+v: it is wrong", world, v)
				case !own && clash && !has("and both are for the pool"):
					t.Fatalf("%+v: %+v: it clashes", world, v)
				case !own && others && !has("because another object is wrong"):
					t.Fatalf("%+v: %+v: another one is wrong", world, v)
				case !own && !clash && !others && len(w.pools) > 0 && v.Problem != "":
					t.Fatalf("%+v: %+v: it is well", world, v)
				case len(slices.Compact(slices.Sorted(slices.Values(lines)))) != len(lines):
					t.Fatalf("%+v: %+v: told twice", world, v)
				}
				kinds[fmt.Sprint(own, clash, others)]++
			}
		}
	})
	if len(kinds) < 5 {
		t.Errorf("%v", kinds)
	}
}

// TestWhichObjectsAPoolTakes: an object without a selector is for none, and one whose
// selector cannot be read neither.
func TestWhichObjectsAPoolTakes(t *testing.T) {
	for what, c := range map[string]struct {
		selector *metav1.LabelSelector
		pools    []string
	}{
		"no selector":     {nil, nil},
		"an empty one":    {&metav1.LabelSelector{}, nil},
		"by a label":      {&metav1.LabelSelector{MatchLabels: map[string]string{"pool": "gpu"}}, []string{"gpu"}},
		"by a wrong one":  {&metav1.LabelSelector{MatchLabels: map[string]string{"pool": "GPU"}}, nil},
		"by an operator":  {&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "pool", Operator: metav1.LabelSelectorOpExists}}}, []string{"gpu", "worker"}},
		"that nobody has": {&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "pool", Operator: metav1.LabelSelectorOpDoesNotExist}}}, nil},
		"no operator":     {&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "pool", Operator: "like"}}}, nil},
	} {
		all := kubeletObjects(map[string]string{"a": `{"maxPods": 7}`})
		all.KubeletConfigs[0].Spec.MachineConfigPoolSelector = c.selector
		if v := machineconfig.Verdicts(all); !slices.Equal(v[0].Pools, c.pools) || (v[0].Problem == "") != (len(c.pools) > 0) {
			t.Errorf("%s: %+v", what, v)
		}
		for _, pool := range []string{"gpu", "worker"} {
			if text, _ := kubeletOf(t, all, pool); strings.Contains(text, "maxPods") != slices.Contains(c.pools, pool) {
				t.Errorf("%s: %s has %q", what, pool, text)
			}
		}
	}
}

// TestAPoolBuildsUponWorkersByItsSelector: by nothing else, and the pool worker not upon
// itself.
func TestAPoolBuildsUponWorkersByItsSelector(t *testing.T) {
	for what, c := range map[string]struct {
		change func(*machineconfig.Objects)
		upon   bool
	}{
		"it takes over those of workers": {func(*machineconfig.Objects) {}, true},
		"it takes over those of its own alone": {func(o *machineconfig.Objects) {
			o.Pools[0].Spec.MachineConfigSelector = &metav1.LabelSelector{MatchLabels: map[string]string{mcfgv1.MachineConfigRoleLabelKey: "gpu"}}
		}, false},
		"its selector is of another label": {func(o *machineconfig.Objects) {
			o.Pools[0].Spec.MachineConfigSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"role": "worker"}}
		}, false},
		"there is no pool worker": {func(o *machineconfig.Objects) { o.Pools = o.Pools[:1] }, false},
		"the pool worker is the last of others": {func(o *machineconfig.Objects) {
			o.Pools = append([]mcfgv1.MachineConfigPool{o.Pools[0], {ObjectMeta: metav1.ObjectMeta{Name: "workers"}}}, o.Pools[1])
		}, true},
	} {
		all := kubeletObjects(map[string]string{"a": `{"maxPods": 7}`, "gpu": `{"podPidsLimit": 70}`})
		c.change(&all)
		text, r := kubeletOf(t, all, "gpu")
		if strings.Contains(text, `"maxPods":7`) != c.upon || !strings.Contains(text, `"podPidsLimit":70`) || len(r.Overrides) > 0 {
			t.Errorf("%s: %s, %+v", what, text, r.Overrides)
		}
	}
	all := kubeletObjects(map[string]string{"a": `{"maxPods": 7}`})
	if _, r := kubeletOf(t, all, "worker"); !slices.Equal(r.Sources, []string{"KubeletConfig/a"}) {
		t.Errorf("workers: %q", r.Sources)
	}
}

// TestTheMistakesOfAllKindsAreToldAtOnce: of the pool's MachineConfigs, and of settings of
// kubelet.
func TestTheMistakesOfAllKindsAreToldAtOnce(t *testing.T) {
	all := kubeletObjects(map[string]string{"a": `{"maxPods": 0}`})
	role := map[string]string{mcfgv1.MachineConfigRoleLabelKey: "worker"}
	all.MachineConfigs = []mcfgv1.MachineConfig{{ObjectMeta: metav1.ObjectMeta{Name: "rendered-x", Labels: role}}}
	_, err := machineconfig.Of(&all.Pools[1], all)
	const first, second = "MachineConfig rendered-x: metadata.name: the prefix rendered- is kept for results of a merge; choose another name", "KubeletConfig a: spec.kubeletConfig.maxPods: is not between 1 and 5000"
	if err == nil || err.Error() != first+"\n"+second {
		t.Errorf("both: %v", err)
	}
	all.MachineConfigs = nil
	if _, err := machineconfig.Of(&all.Pools[1], all); err == nil || err.Error() != second {
		t.Errorf("kubelet's alone: %v", err)
	}
	all.Pools[1].Spec.MachineConfigSelector = &metav1.LabelSelector{}
	if _, err := machineconfig.Of(&all.Pools[1], all); err == nil || !strings.Contains(err.Error(), "selects every MachineConfig") || !strings.Contains(err.Error(), second) {
		t.Errorf("a pool for all: %v", err)
	}
}

// TestWhatContainerdCannotHaveIsRefusedOneByOne: each field alone, and the value that
// changes nothing is no mistake.
func TestWhatContainerdCannotHaveIsRefusedOneByOne(t *testing.T) {
	for text, want := range map[string]string{
		`{}`: "", `{pidsLimit: 20}`: "", `{pidsLimit: 19}`: "pidsLimit: is not between", `{pidsLimit: 0}`: "pidsLimit: is not between", `{logSizeMax: 8193}`: "", `{logSizeMax: 8192}`: "logSizeMax: is not a quantity",
		`{logSizeMax: 0}`: "logSizeMax: is not a quantity", `{overlaySize: 0}`: "", `{overlaySize: 1}`: "overlaySize: containerd has no such limit", `{defaultRuntime: ""}`: "", `{defaultRuntime: runc}`: "",
		`{defaultRuntime: crun}`: "defaultRuntime: a release carries runc alone", `{logLevel: ""}`: "", `{logLevel: info}`: "logLevel: containerd's configuration is written once",
		`{additionalLayerStores: []}`: "", `{additionalLayerStores: [{path: /a}]}`: "additionalLayerStores: containerd has none", `{additionalImageStores: [{path: /a}]}`: "additionalImageStores: containerd has none",
		`{additionalArtifactStores: [{path: /a}]}`: "additionalArtifactStores: containerd has none",
	} {
		all := kubeletSite(t, kubeletConfig("a", "worker", "containerRuntimeConfig: "+text))
		v := machineconfig.Verdicts(all)[0]
		if want == "" && v.Problem != "" || want != "" && (!strings.HasPrefix(v.Problem, "ContainerRuntimeConfig a: spec.containerRuntimeConfig."+want) || strings.Contains(v.Problem, "\n")) {
			t.Errorf("%s: %q, want %q", text, v.Problem, want)
		}
	}
}

// TestTheLevelOfKubeletsLogHasBounds, and is the only part of its log that a site sets.
func TestTheLevelOfKubeletsLogHasBounds(t *testing.T) {
	for level, good := range map[int32]bool{-1: false, 0: true, 1: true, 9: true, 10: true, 11: false, 100: false} {
		all := kubeletObjects(map[string]string{"a": `{}`})
		all.KubeletConfigs[0].Spec.LogLevel = &level
		v := machineconfig.Verdicts(all)[0]
		if good != (v.Problem == "") || !good && v.Problem != "KubeletConfig a: spec.logLevel: is not between 0 and 10" {
			t.Errorf("%d: %q", level, v.Problem)
		}
		if !good {
			continue
		}
		if text, _ := kubeletOf(t, all, "worker"); !strings.Contains(text, fmt.Sprintf(`"logging":{"verbosity":%d}`, level)) {
			t.Errorf("%d: %s", level, text)
		}
	}
	for text, good := range map[string]bool{`{"verbosity":4}`: true, `{"verbosity":11}`: false, `{"verbosity":-1}`: false, `{"format":"json"}`: false, `{"verbosity":4,"format":"text"}`: false, `{}`: false, `null`: false} {
		if got := mistakesOf(t, `{"logging":`+text+`}`); good != (len(got) == 0) || !good && got[0] != "logging: only its verbosity may be set" {
			t.Errorf("%s: %q", text, got)
		}
	}
}

// TestTheKindOfSettingsIsKubelets, if it is said at all.
func TestTheKindOfSettingsIsKubelets(t *testing.T) {
	const version, kind = `"apiVersion": "kubelet.config.k8s.io/v1beta1"`, `"kind": "KubeletConfiguration"`
	for text, want := range map[string]string{
		`{` + version + `, ` + kind + `}`: "", `{` + version + `}`: "", `{` + kind + `}`: "", `{}`: "", `null`: "",
		`{"apiVersion": "kubelet.config.k8s.io/v1"}`: "apiVersion is not \"kubelet.config.k8s.io/v1beta1\"", `{"kind": "CredentialProviderConfig"}`: "kind is not \"KubeletConfiguration\"", `{"kind": null}`: "kind is not",
		`[]`: "is not a JSON object", `"maxPods"`: "is not a JSON object", `7`: "is not a JSON object", `{"maxPods": 7`: "is not a JSON object",
	} {
		v := machineconfig.Verdicts(kubeletObjects(map[string]string{"a": text}))[0]
		if want == "" && v.Problem != "" || !strings.Contains(v.Problem, want) || want != "" && !strings.HasPrefix(v.Problem, "KubeletConfig a: spec.kubeletConfig: ") {
			t.Errorf("%s: %q", text, v.Problem)
		}
	}
}
