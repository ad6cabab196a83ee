package machineconfig_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/holdfast/holdfast/internal/decide/machineconfig"
	"github.com/holdfast/holdfast/internal/model/config"
)

// poolNamed returns a pool of a role, with a label by which settings of kubelet select it.
func poolNamed(role string) mcfgv1.MachineConfigPool {
	p := mcfgv1.MachineConfigPool{ObjectMeta: metav1.ObjectMeta{Name: role, Labels: map[string]string{"pool": role}}}
	p.Spec.MachineConfigSelector = &metav1.LabelSelector{MatchLabels: map[string]string{mcfgv1.MachineConfigRoleLabelKey: role}}
	return p
}

func TestWhatIsWrittenKeepsWhatOthersWroteBesideIt(t *testing.T) {
	now := made(t, "50-audit", withFiles(audit))
	now.ResourceVersion, now.UID = "7", "x"
	now.Labels["team"], now.Annotations = "night", map[string]string{"seen": "yes"}
	now.Spec.KernelArguments, now.Spec.Extensions = []string{}, []string{}
	objects := machineconfig.Objects{MachineConfigs: []mcfgv1.MachineConfig{now}}

	same := machineconfig.Wanted{MachineConfigs: []mcfgv1.MachineConfig{made(t, "50-audit", withFiles(audit))}}
	if w := objects.Writes(same); len(w) != 1 || w[0].Verb != machineconfig.Unchanged {
		t.Errorf("the same in another form: %+v", w)
	}
	other := made(t, "50-audit", withFiles(strings.Replace(audit, "shadow", "passwd", 1)))
	other.Labels[mcfgv1.MachineConfigRoleLabelKey] = "master"
	w := objects.Writes(machineconfig.Wanted{MachineConfigs: []mcfgv1.MachineConfig{other, made(t, "60-new", withFiles())}})
	if len(w) != 2 || w[0].Verb != machineconfig.Updated || w[1].Verb != machineconfig.Created || w[1].Object.GetResourceVersion() != "" {
		t.Fatalf("%+v", w)
	}
	o := w[0].Object
	if o.GetResourceVersion() != "7" || o.GetLabels()["team"] != "night" || o.GetAnnotations()["seen"] != "yes" || o.GetLabels()[mcfgv1.MachineConfigRoleLabelKey] != "master" {
		t.Errorf("%+v", o)
	}
	if now.Labels[mcfgv1.MachineConfigRoleLabelKey] != "worker" {
		t.Error("the object of the API was changed")
	}
}

// TestWhatWasWrongBeforeIsNobodysMistakeNow, unless it is what is wanted.
func TestWhatWasWrongBeforeIsNobodysMistakeNow(t *testing.T) {
	old := object(t, `{metadata: {name: 40-old, labels: {machineconfiguration.openshift.io/role: worker}}, spec: {fips: true}}`)
	objects := machineconfig.Objects{
		MachineConfigs: []mcfgv1.MachineConfig{old}, Pools: []mcfgv1.MachineConfigPool{poolNamed("worker"), poolNamed("master")},
	}
	right := made(t, "50-audit", withFiles(audit))
	right.Labels[mcfgv1.MachineConfigRoleLabelKey] = "master"
	if err := objects.Check(machineconfig.Wanted{MachineConfigs: []mcfgv1.MachineConfig{right}}); err != nil {
		t.Errorf("another pool: %v", err)
	}
	err := objects.Check(machineconfig.Wanted{MachineConfigs: []mcfgv1.MachineConfig{old}})
	if list, ok := errors.AsType[machineconfig.Mistakes](err); !ok || len(list) != 1 || list[0].Object != "MachineConfig 40-old" {
		t.Errorf("the same once more: %v", err)
	}
}

// TestAClashWithWhatIsThereIsRefused: two objects that are right alone.
func TestAClashWithWhatIsThereIsRefused(t *testing.T) {
	kubelet := func(name, pods string) mcfgv1.KubeletConfig {
		k := mcfgv1.KubeletConfig{ObjectMeta: metav1.ObjectMeta{Name: name}}
		k.Spec.MachineConfigPoolSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"pool": "worker"}}
		k.Spec.KubeletConfig = &runtime.RawExtension{Raw: []byte(`{"maxPods":` + pods + `}`)}
		return k
	}
	objects := machineconfig.Objects{KubeletConfigs: []mcfgv1.KubeletConfig{kubelet("a", "100")}, Pools: []mcfgv1.MachineConfigPool{poolNamed("worker")}}
	if err := objects.Check(machineconfig.Wanted{KubeletConfigs: []mcfgv1.KubeletConfig{kubelet("b", "100")}}); err != nil {
		t.Errorf("the same value: %v", err)
	}
	if err := objects.Check(machineconfig.Wanted{KubeletConfigs: []mcfgv1.KubeletConfig{kubelet("b", "200")}}); err == nil || !strings.Contains(err.Error(), "KubeletConfig b: spec.kubeletConfig.maxPods: ") {
		t.Errorf("another value: %v", err)
	}
	if err := objects.Check(machineconfig.Wanted{KubeletConfigs: []mcfgv1.KubeletConfig{kubelet("a", "200")}}); err != nil {
		t.Errorf("in its place: %v", err)
	}
}

func TestTheKeysOfAnInstallConfigAreMachineConfigsOfBothRoles(t *testing.T) {
	list, err := machineconfig.OfKeys([]string{"ssh-ed25519 B", "ssh-ed25519 A"})
	if err != nil || len(list) != 2 {
		t.Fatalf("%v %v", list, err)
	}
	for i, role := range []string{"master", "worker"} {
		pool := poolNamed(role)
		r, err := machineconfig.Of(&pool, machineconfig.Objects{MachineConfigs: list})
		if err != nil || !slices.Equal(r.Sources, []string{list[i].Name}) || list[i].Name != "99-"+role+"-ssh" {
			t.Fatalf("%s: %v %v", role, r.Sources, err)
		}
		if users := r.Config.Ignition.Passwd.Users; len(users) != 1 || users[0].Name != machineconfig.User || len(users[0].SSHAuthorizedKeys) != 2 {
			t.Errorf("%s: %+v", role, users)
		}
	}
	if none, err := machineconfig.OfKeys(nil); err != nil || len(none) > 0 {
		t.Errorf("no keys: %v %v", none, err)
	}
}

// TestWhatASiteSaysOfItsKeysIsWhatItsObjectsSay, and where it has none what it was installed with.
func TestWhatASiteSaysOfItsKeysIsWhatItsObjectsSay(t *testing.T) {
	keys := func(lines ...string) []mcfgv1.MachineConfig {
		t.Helper()
		list, err := machineconfig.OfKeys(lines)
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	const old, a, b = "ssh-ed25519 OLD\n", "ssh-ed25519 A\n", "ssh-ed25519 B\n"
	for name, c := range map[string]struct {
		objects    []mcfgv1.MachineConfig
		file, want string
	}{
		"the installation alone":              {nil, old, old},
		"another file":                        {nil, a, old},
		"both roles have the file's":          {keys(a), a, a},
		"in another order":                    {keys(b, a), a + b, a + b},
		"with words of the file":              {keys(a), "# mine\n" + a, "# mine\n" + a},
		"a file from a drawer":                {keys(a), old, a},
		"a file without":                      {keys(a), "", a},
		"one role has others":                 {[]mcfgv1.MachineConfig{keys(a)[0], keys(b)[1]}, a, b},
		"one role has those of installation":  {keys(a)[:1], a, old},
		"another object is not asked":         {[]mcfgv1.MachineConfig{{ObjectMeta: metav1.ObjectMeta{Name: "50-x"}}}, old, old},
		"somebody took all keys out of these": {[]mcfgv1.MachineConfig{empty(keys(a)[0]), empty(keys(a)[1])}, old, ""},
	} {
		now, err := machineconfig.Objects{MachineConfigs: c.objects}.Said(&config.InstallConfig{SSHKey: old, RendezvousIP: "192.0.2.1"}, &config.InstallConfig{SSHKey: c.file})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if strings.TrimSpace(now.SSHKey) != strings.TrimSpace(c.want) || now.RendezvousIP != "192.0.2.1" {
			t.Errorf("%s: %q, want %q", name, now.SSHKey, c.want)
		}
	}
	broken := keys(a)
	broken[1].Spec.Config.Raw = []byte("{")
	if _, err := (machineconfig.Objects{MachineConfigs: broken}).Said(&config.InstallConfig{}, &config.InstallConfig{SSHKey: a}); err == nil || !strings.Contains(err.Error(), "99-worker-ssh") {
		t.Errorf("keys that cannot be read: %v", err)
	}
}

func empty(mc mcfgv1.MachineConfig) mcfgv1.MachineConfig {
	mc.Spec.Config.Raw = []byte(`{"ignition":{"version":"3.5.0"}}`)
	return mc
}
