package machineconfig_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kubelet "k8s.io/kubelet/config/v1beta1"

	"github.com/holdfast/holdfast/internal/decide/machineconfig"
	"github.com/holdfast/holdfast/internal/model/state"
)

// mistakesOf returns what is wrong with settings of kubelet in one object, as
// "FIELD: why".
func mistakesOf(t testing.TB, settings string) []string {
	t.Helper()
	all := kubeletObjects(map[string]string{"one": settings})
	_, err := machineconfig.Of(&all.Pools[1], all)
	if err == nil {
		return nil
	}
	var out []string
	for line := range strings.Lines(err.Error()) {
		text, ok := strings.CutPrefix(strings.TrimSpace(line), "KubeletConfig one: spec.kubeletConfig.")
		if !ok {
			t.Fatalf("%s: %s", settings, line)
		}
		out = append(out, text)
	}
	return out
}

// kubeletObjects returns a site with the pools gpu and worker, and with a
// KubeletConfig for the workers of each of these settings in JSON. An object whose
// name begins with "gpu" is for the pool gpu.
func kubeletObjects(settings map[string]string) machineconfig.Objects {
	var out machineconfig.Objects
	for _, name := range []string{"gpu", "worker"} {
		p := mcfgv1.MachineConfigPool{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"pool": name}}}
		p.Spec.MachineConfigSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
			Key: mcfgv1.MachineConfigRoleLabelKey, Operator: metav1.LabelSelectorOpIn, Values: slices.Compact([]string{"worker", name}),
		}}}
		out.Pools = append(out.Pools, p)
	}
	for name, text := range settings {
		pool := "worker"
		if strings.HasPrefix(name, "gpu") {
			pool = "gpu"
		}
		o := mcfgv1.KubeletConfig{ObjectMeta: metav1.ObjectMeta{Name: name}}
		o.Spec.MachineConfigPoolSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"pool": pool}}
		o.Spec.KubeletConfig = &runtime.RawExtension{Raw: []byte(text)}
		out.KubeletConfigs = append(out.KubeletConfigs, o)
	}
	return out
}

// number is a setting that is a whole number, with its bounds.
type number struct {
	name        string
	least, most int64
}

var numbers = []number{
	{"maxPods", 1, 5000},
	{"podPidsLimit", 20, 4194304},
	{"containerLogMaxFiles", 2, 1000},
	{"containerLogMaxWorkers", 1, 100},
	{"registryPullQPS", 0, 10000},
	{"registryBurst", 1, 10000},
	{"kubeAPIQPS", 1, 10000},
	{"kubeAPIBurst", 1, 10000},
	{"eventRecordQPS", 0, 10000},
	{"eventBurst", 1, 10000},
}

// durations are the settings that are times, with the shortest.
var durations = map[string]time.Duration{
	"containerLogMonitorInterval":      3 * time.Second,
	"evictionPressureTransitionPeriod": time.Second,
	"streamingConnectionIdleTimeout":   time.Minute,
}

func TestANumberOfKubeletHasBothBounds(t *testing.T) {
	for _, n := range numbers {
		for value, good := range map[int64]bool{n.least - 1: false, n.least: true, n.least + 1: true, n.most - 1: true, n.most: true, n.most + 1: false} {
			got := mistakesOf(t, fmt.Sprintf(`{"%s": %d}`, n.name, value))
			want := []string{fmt.Sprintf("%s: is not between %d and %d", n.name, n.least, n.most)}
			if good {
				want = nil
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s %d: %q, want %q", n.name, value, got, want)
			}
		}
	}
}

func TestATimeOfKubeletHasALeastOne(t *testing.T) {
	for name, least := range durations {
		for value, good := range map[time.Duration]bool{-least: false, 0: false, least - 1: false, least: true, least + 1: true, 100 * time.Hour: true} {
			got := mistakesOf(t, fmt.Sprintf(`{"%s": "%s"}`, name, value))
			want := []string{name + ": is less than " + least.String()}
			if good {
				want = nil
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s %s: %q, want %q", name, value, got, want)
			}
		}
	}
}

// good has a value for each setting that a site may have.
func goodSettings() map[string]string {
	out := map[string]string{
		"containerLogMaxSize": `"10Mi"`, "systemReserved": `{"cpu": "1"}`, "kubeReserved": `{"pid": "100"}`,
		"evictionHard": `{"memory.available": "200Mi"}`, "evictionSoft": `{}`, "evictionSoftGracePeriod": `{}`, "evictionMinimumReclaim": `{"pid.available": "5%"}`,
		"allowedUnsafeSysctls": `["net.*"]`, "serializeImagePulls": `true`, "maxParallelImagePulls": `1`,
		"evictionMaxPodGracePeriod": "0",
	}
	for _, n := range numbers {
		out[n.name] = fmt.Sprint(n.least)
	}
	for name, least := range durations {
		out[name] = fmt.Sprintf("%q", least)
	}
	return out
}

// TestEachFieldOfKubeletIsDecidedAbout: a site may have some, each other one is refused
// by its name, and no field is forgotten in a table that kubelet does not know.
func TestEachFieldOfKubeletIsDecidedAbout(t *testing.T) {
	good := goodSettings()
	known := 0
	for f := range reflect.TypeFor[kubelet.KubeletConfiguration]().Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" {
			continue
		}
		known++
		value, may := good[name]
		if !may {
			zero, err := json.Marshal(reflect.Zero(f.Type).Interface())
			if err != nil {
				t.Fatal(err)
			}
			value = string(zero)
		}
		got := mistakesOf(t, fmt.Sprintf(`{"%s": %s}`, name, value))
		delete(good, name)
		switch {
		case name == "evictionMaxPodGracePeriod":
			if !slices.Equal(got, []string{name + ": has a meaning with evictionSoft only"}) {
				t.Errorf("%s: %q", name, got)
			}
		case may && len(got) > 0:
			t.Errorf("%s is refused: %q", name, got)
		case !may && (len(got) != 1 || !strings.HasPrefix(got[0], name+": ") || !strings.HasSuffix(got[0], "remove it") && name != "logging"):
			t.Errorf("%s: %q", name, got)
		}
	}
	if known < 100 || len(good) > 0 {
		t.Errorf("%d fields, and kubelet does not know %v", known, good)
	}
}

// TestAWrongTypeIsToldOfEachSettingAndOfNoOther: a value of another type, and null, which
// would leave kubelet's own.
func TestAWrongTypeIsToldOfEachSettingAndOfNoOther(t *testing.T) {
	shapes := map[byte]string{'"': `"text"`, '{': `{"a": {}}`, '[': `[[]]`, '1': `1.5`, 't': `true`}
	for name, value := range goodSettings() {
		own := value[0]
		if own >= '0' && own <= '9' {
			own = '1'
		}
		wrong := []string{"null"}
		for shape, other := range shapes {
			if shape != own || shape == '1' || shape == '{' || shape == '[' {
				wrong = append(wrong, other)
			}
		}
		for _, other := range wrong {
			got := mistakesOf(t, fmt.Sprintf(`{"%s": %s, "kubeAPIBurst": 7}`, name, other))
			if name == "kubeAPIBurst" { // the last one of two counts
				got = mistakesOf(t, fmt.Sprintf(`{"%s": %s}`, name, other))
			}
			if len(got) == 0 || got[0] != name+": is not of its type" {
				t.Errorf("%s: %s: %q", name, other, got)
			}
		}
	}
}

// The signals by which kubelet ends pods, and two that are none.
var signalNames = []string{"memory.available", "nodefs.available", "nodefs.inodesFree", "imagefs.available", "imagefs.inodesFree", "pid.available", "disk.available", "allocatableMemory.available"}

func known(signal string) bool { return slices.Index(signalNames, signal) < 6 }

// TestAThresholdIsOneThatKubeletStartsWith has each signal in each map with each kind of
// value. kubelet takes them by pkg/kubelet/eviction/helpers.go: a threshold is above
// zero or any share, what is to be reclaimed is a quantity or a share above zero.
func TestAThresholdIsOneThatKubeletStartsWith(t *testing.T) {
	type kind struct{ hard, soft, reclaim bool }
	for value, takes := range map[string]kind{
		"3Gi":   {true, true, true},
		"1":     {true, true, true},
		"0":     {false, false, true},
		"0Mi":   {false, false, true},
		"-1Gi":  {},
		"10%":   {true, true, true},
		"0.5%":  {true, true, true},
		"99.9%": {true, true, true},
		"100%":  {true, true, true},
		"0%":    {true, true, false},
		"0.0%":  {true, true, false},
		"101%":  {},
		"-1%":   {},
		"05%":   {},
		"5 %":   {},
		"%":     {},
		"":      {},
		"much":  {},
		"5%%":   {},
	} {
		for _, signal := range signalNames {
			// Hard thresholds of three signals have to leave room besides.
			floor := map[string]bool{"memory.available": true, "nodefs.available": true, "imagefs.available": true}[signal]
			for field, good := range map[string]bool{"evictionHard": takes.hard && (!floor || value == "3Gi"), "evictionMinimumReclaim": takes.reclaim} {
				got := mistakesOf(t, fmt.Sprintf(`{"%s": {"%s": "%s"}}`, field, signal, value))
				if good = good && known(signal); good != (len(got) == 0) || !good && (len(got) != 1 || !strings.HasPrefix(got[0], field+": ") || !strings.Contains(got[0], signal)) {
					t.Errorf("%s of %s %q: %q", field, signal, value, got)
				}
			}
			got := mistakesOf(t, fmt.Sprintf(`{"evictionSoft": {"%s": "%s"}, "evictionSoftGracePeriod": {"%s": "1m"}}`, signal, value, signal))
			if good := takes.soft && known(signal); good != (len(got) == 0) || !good && !strings.HasPrefix(got[0], fmt.Sprintf("evictionSoft: %q is not", signal)) {
				t.Errorf("evictionSoft of %s %q: %q", signal, value, got)
			}
		}
	}
}

// TestNoHardThresholdTakesTheRoomOfEtcd: the floor itself is enough, and a share is never,
// because it says nothing about etcd's database.
func TestNoHardThresholdTakesTheRoomOfEtcd(t *testing.T) {
	for signal, floor := range machineconfig.EvictionFloor {
		number, unit := floor[:len(floor)-2], floor[len(floor)-2:]
		for value, good := range map[string]bool{floor: true, number + "1" + unit: true, number + "0%": false, "90%": false, "1Ki": false, "104857599": false, number + "5" + unit: true} {
			got := mistakesOf(t, fmt.Sprintf(`{"evictionHard": {"%s": "%s"}}`, signal, value))
			want := []string{fmt.Sprintf("evictionHard: %s is not a quantity of at least %s: the host and its etcd need that room", signal, floor)}
			if good {
				want = nil
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s %s: %q", signal, value, got)
			}
		}
	}
	if len(machineconfig.EvictionFloor) != 3 {
		t.Error(machineconfig.EvictionFloor)
	}
	for _, signal := range []string{"nodefs.available", "imagefs.available"} {
		if got := resource.MustParse(machineconfig.EvictionFloor[signal]); got.Value() != state.KeptFree {
			t.Errorf("%s: backups and fetches leave %d bytes free, kubelet wants %s", signal, state.KeptFree, got.String())
		}
	}
}

func TestAGracePeriodIsATimeOfASignal(t *testing.T) {
	for value, good := range map[string]bool{"1m": true, "1ns": true, "90s": true, "0s": false, "-1m": false, "60": false, "": false, "soon": false} {
		for _, signal := range signalNames {
			got := mistakesOf(t, fmt.Sprintf(`{"evictionSoft": {"%s": "5%%"}, "evictionSoftGracePeriod": {"%s": "%s"}}`, signal, signal, value))
			if slices.Contains(got, fmt.Sprintf("evictionSoftGracePeriod: %q is not a time of one of %s", signal, strings.Join(signalNames[:6], ", "))) == (good && known(signal)) {
				t.Errorf("%s %q: %q", signal, value, got)
			}
		}
	}
}

func TestWhatIsReservedIsAQuantityOfWhatAHostHas(t *testing.T) {
	for _, field := range []string{"systemReserved", "kubeReserved"} {
		for _, name := range []string{"cpu", "memory", "ephemeral-storage", "pid", "hugepages-2Mi", "nvidia.com/gpu", "CPU"} {
			for value, good := range map[string]bool{"0": true, "1": true, "500m": true, "2Gi": true, "-1": false, "10%": false, "": false, "some": false} {
				got := mistakesOf(t, fmt.Sprintf(`{"%s": {"cpu": "1", "%s": "%s"}}`, field, name, value))
				good = good && slices.Contains([]string{"cpu", "memory", "ephemeral-storage", "pid"}, name)
				want := []string{fmt.Sprintf("%s: %q is not a quantity of one of cpu, memory, ephemeral-storage, pid", field, name)}
				if good {
					want = nil
				}
				if !slices.Equal(got, want) {
					t.Errorf("%s of %s %q: %q", field, name, value, got)
				}
			}
		}
	}
}

// TestALogIsAtLeastAsLargeAsKubeletsBuffer: and a whole number of bytes, because kubelet
// does not start with another one.
func TestALogIsAtLeastAsLargeAsKubeletsBuffer(t *testing.T) {
	for value, good := range map[string]bool{
		"8193": true, "8192": false, "8Ki": false, "9Ki": true, "20M": true, "10Mi": true, "-10Mi": false, "0": false, "": false, "10MB": false, "10%": false,
		"8193500m": false, "9000.5": false, "100Ei": false, "1Pi": false, "1Ti": true,
	} {
		got := mistakesOf(t, fmt.Sprintf(`{"containerLogMaxSize": "%s"}`, value))
		if good != (len(got) == 0) || !good && !strings.HasPrefix(got[0], "containerLogMaxSize: is not a quantity of at least 8193") {
			t.Errorf("%q: %q", value, got)
		}
	}
}

// TestAParameterOfPodsIsOneThatKubeletStartsWith: kubelet knows those of pods by their
// names (k8s.io/component-helpers/node/util/sysctl), and takes no others.
func TestAParameterOfPodsIsOneThatKubeletStartsWith(t *testing.T) {
	long := "net." + strings.Repeat("a", 249)
	for name, good := range map[string]bool{
		"kernel.shm*": true, "kernel.msg*": true, "kernel.sem": true, "kernel.shmall": true, "kernel.shmmax": true, "kernel.shmmni": true, "kernel.shm_rmid_forced": true,
		"kernel.msgmax": true, "kernel.msgmnb": true, "kernel.msgmni": true,
		"kernel.shmsize": false, "kernel.shmmaximum": false, "kernel.shm_": false, "kernel.shmm*": false, "kernel.msgmax_bytes": false, "kernel.msgm*": false, "kernel.semaphore": false,
		"kernel.*": false, "kernel.pid_max": false, "kernel": false, "kernel.shm.max": false,
		"fs.mqueue.*": true, "fs.mqueue.msg_max": true, "fs.mqueue.queues_max": true, "fs.mqueue.": false, "fs.mqueue": false, "fs.mqueue*": false, "fs.mqueue.msg_": false, "fs.*": false, "fs.file-max": false,
		"net.*": true, "net.core.somaxconn": true, "net.ipv4.*": true, "net.ipv4.tcp_*": true, "net.ipv4.conf.eth0.rp_filter": true, "net.ipv4.conf.br-1.rp_filter": true, "net.a": true,
		"net": false, "net.": false, "net*": false, "net..a": false, "net.ipv4.": false, "net.-a": false, "net.a-": false, "net.a_": false, "net.IPv4.ip_forward": false, "net.*.a": false, "net.a**": false,
		"network.a": false, "vm.swappiness": false, "*": false, "": false, " net.*": false, "net.*\n": false, "xnet.a": false, "a.net.core": false,
		long: true, long + "a": false,
	} {
		text, err := json.Marshal(map[string][]string{"allowedUnsafeSysctls": {"net.core.somaxconn", name}})
		if err != nil {
			t.Fatal(err)
		}
		got := mistakesOf(t, string(text))
		if good != (len(got) == 0) || !good && !strings.HasPrefix(got[0], fmt.Sprintf("allowedUnsafeSysctls: %q is not a parameter", name)) {
			t.Errorf("%q: %q", name, got)
		}
	}
}

// together is a set of settings that need each other.
type together struct{ soft, grace, pulls, serial, most string }

// states returns each such set: soft thresholds of two signals and their times, images
// that are pulled at once, and the time that a pod gets.
func states() []together {
	var out []together
	maps := []string{"", `{}`, `{"memory.available": "%s"}`, `{"pid.available": "%s"}`, `{"memory.available": "%s", "pid.available": "%s"}`}
	fill := func(text, value string) string { return strings.ReplaceAll(text, "%s", value) }
	for _, soft := range maps {
		for _, grace := range maps {
			for _, most := range []string{"", "0", "60"} {
				out = append(out, together{soft: fill(soft, "5%"), grace: fill(grace, "1m"), most: most})
			}
		}
	}
	for _, pulls := range []string{"", "1", "2", "100"} {
		for _, serial := range []string{"", "true", "false"} {
			out = append(out, together{pulls: pulls, serial: serial})
		}
	}
	return out
}

// text returns the settings as JSON.
func (s together) text() string {
	var out []string
	for _, f := range []struct{ name, value string }{
		{"evictionSoft", s.soft}, {"evictionSoftGracePeriod", s.grace}, {"maxParallelImagePulls", s.pulls}, {"serializeImagePulls", s.serial}, {"evictionMaxPodGracePeriod", s.most},
	} {
		if f.value != "" {
			out = append(out, fmt.Sprintf("%q: %s", f.name, f.value))
		}
	}
	return "{" + strings.Join(out, ", ") + "}"
}

// over returns the settings with those of a pool that builds upon another one laid over
// them, each whole.
func (s together) over(upper together) together {
	for _, f := range []struct{ mine, other *string }{
		{&s.soft, &upper.soft}, {&s.grace, &upper.grace}, {&s.pulls, &upper.pulls}, {&s.serial, &upper.serial}, {&s.most, &upper.most},
	} {
		if *f.other != "" {
			*f.mine = *f.other
		}
	}
	return s
}

// wrong returns the fields of the settings that lack another one.
func (s together) wrong() []string {
	var out []string
	signals := func(text string) []string {
		m := map[string]string{}
		if text != "" && json.Unmarshal([]byte(text), &m) != nil {
			panic(text)
		}
		var names []string
		for name := range m {
			names = append(names, name)
		}
		slices.Sort(names)
		return names
	}
	if !slices.Equal(signals(s.soft), signals(s.grace)) {
		out = append(out, "evictionSoft")
	}
	if (s.pulls == "2" || s.pulls == "100") && s.serial != "false" {
		out = append(out, "maxParallelImagePulls")
	}
	if s.most != "" && len(signals(s.soft)) == 0 {
		out = append(out, "evictionMaxPodGracePeriod")
	}
	return out
}

func TestSettingsThatNeedEachOtherAreWantedTogether(t *testing.T) {
	for _, s := range states() {
		var got []string
		for _, m := range mistakesOf(t, s.text()) {
			field, _, _ := strings.Cut(m, ":")
			got = append(got, field)
		}
		if want := s.wrong(); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", s.text(), got, want)
		}
	}
}

// TestAPoolThatBuildsUponAnotherOneHasSettingsThatFit lays each set over each: both may be
// right alone, and wrong together. Who is named has the field that is wrong.
func TestAPoolThatBuildsUponAnotherOneHasSettingsThatFit(t *testing.T) {
	tried, refused := 0, 0
	for _, lower := range states() {
		for _, upper := range states() {
			if len(lower.wrong())+len(upper.wrong()) > 0 {
				continue
			}
			tried++
			all := kubeletObjects(map[string]string{"base": lower.text(), "gpu": upper.text()})
			_, err := machineconfig.Of(&all.Pools[0], all)
			want := lower.over(upper).wrong()
			if len(want) == 0 != (err == nil) {
				t.Fatalf("%s under %s: %v, want %q", lower.text(), upper.text(), err, want)
			}
			if err == nil {
				continue
			}
			refused++
			if lines := strings.Split(err.Error(), "\n"); len(lines) != len(want) {
				t.Fatalf("%s under %s: %v, want %q", lower.text(), upper.text(), err, want)
			}
			for _, field := range want {
				by := "base"
				if strings.Contains(upper.text(), fmt.Sprintf("%q", field)) {
					by = "gpu"
				}
				if !strings.Contains(err.Error(), fmt.Sprintf("KubeletConfig %s: spec.kubeletConfig.%s (merged): ", by, field)) {
					t.Fatalf("%s under %s: %v, want %s of %s", lower.text(), upper.text(), err, field, by)
				}
			}
		}
	}
	if tried < 400 || refused < 20 {
		t.Errorf("%d tried, %d refused", tried, refused)
	}
}
