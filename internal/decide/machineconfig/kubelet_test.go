package machineconfig_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"sigs.k8s.io/yaml"

	"github.com/holdfast/holdfast/internal/decide/machineconfig"
	"github.com/holdfast/holdfast/internal/model/ignition"
	"github.com/holdfast/holdfast/internal/testkit/golden"
)

// kubeletSite is a site with the pools master, worker and gpu, which builds upon worker.
// Each text is a KubeletConfig, or a ContainerRuntimeConfig if it has the field.
func kubeletSite(t *testing.T, texts ...string) machineconfig.Objects {
	t.Helper()
	var out machineconfig.Objects
	for name, roles := range map[string]string{"master": "[master]", "worker": "[worker]", "gpu": "[worker, gpu]"} {
		p := poolOf(t, `{matchExpressions: [{key: machineconfiguration.openshift.io/role, operator: In, values: `+roles+`}]}`)
		p.Name, p.Labels = name, map[string]string{"pool": name}
		out.Pools = append(out.Pools, p)
	}
	slices.SortFunc(out.Pools, func(a, b mcfgv1.MachineConfigPool) int { return strings.Compare(a.Name, b.Name) })
	for _, text := range texts {
		var k mcfgv1.KubeletConfig
		var r mcfgv1.ContainerRuntimeConfig
		if strings.Contains(text, "containerRuntimeConfig:") {
			if err := yaml.UnmarshalStrict([]byte(text), &r); err != nil {
				t.Fatal(err)
			}
			out.ContainerRuntimeConfigs = append(out.ContainerRuntimeConfigs, r)
			continue
		}
		if err := yaml.UnmarshalStrict([]byte(text), &k); err != nil {
			t.Fatal(err)
		}
		out.KubeletConfigs = append(out.KubeletConfigs, k)
	}
	return out
}

func kubeletConfig(name, pool, fields string) string {
	return fmt.Sprintf(`{metadata: {name: %s}, spec: {machineConfigPoolSelector: {matchLabels: {pool: %s}}, %s}}`, name, pool, fields)
}

// kubeletOf returns the settings of kubelet in the configuration of a pool, as a host
// reads them.
func kubeletOf(t *testing.T, all machineconfig.Objects, pool string) (settings string, r machineconfig.Rendered) {
	t.Helper()
	i := slices.IndexFunc(all.Pools, func(p mcfgv1.MachineConfigPool) bool { return p.Name == pool })
	r, err := machineconfig.Of(&all.Pools[i], all)
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := machineconfig.Read(*r.Object())
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range cfg.Ignition.Storage.Files {
		if f.Path == machineconfig.KubeletPath {
			data, err := ignition.Contents(f.Contents)
			if err != nil {
				t.Fatal(err)
			}
			settings = strings.TrimSpace(string(data))
		}
	}
	return settings, r
}

// TestSettingsOfKubeletAreFoundByTheNamesOfConfigurations: they are as the pool has them, and what nobody can
// read is unknown.
func TestSettingsOfKubeletAreFoundByTheNamesOfConfigurations(t *testing.T) {
	all := kubeletSite(t, `{metadata: {name: pods}, spec: {machineConfigPoolSelector: {matchLabels: {pool: worker}}, kubeletConfig: {maxPods: 50}}}`)
	settings, worker := kubeletOf(t, all, "worker")
	_, master := kubeletOf(t, all, "master")
	odd := *master.Object()
	odd.Name, odd.Spec.Config.Raw = "rendered-odd", []byte(`{`)
	earlier := made(t, "rendered-earlier", withFiles(`{path: `+machineconfig.KubeletPath+`, contents: {source: "`+ignition.DataURL([]byte(settings+"\n"))+`"}},
  {path: /etc/systemd/system.conf.d/50-site.conf, contents: {source: "`+ignition.DataURL([]byte("[Manager]\nDefaultEnvironment=A=1\n"))+`"}}`))
	earlier.Labels = map[string]string{machineconfig.LabelRendered: ""}
	if _, err := machineconfig.Read(earlier); err == nil {
		t.Fatal("this release does not refuse the setting of systemd")
	}
	got := machineconfig.KubeletOf([]mcfgv1.MachineConfig{*worker.Object(), *master.Object(), odd, earlier, made(t, "50-site", "")})
	if got[earlier.Name] != settings+"\n" {
		t.Errorf("of one that only this release refuses it is %q", got[earlier.Name])
	}
	if len(got) != 3 || got[worker.Name] != settings+"\n" || got[worker.Name] != worker.Config.Kubelet() {
		t.Errorf("it is %v", got)
	}
	if is, known := got[master.Name]; !known || is != "" {
		t.Errorf("of control planes it is %q, %t", is, known)
	}
}

// TestOnlySettingsThatMayMakeAHostShortAreCompared: a host that its own pods keep short of memory stops no
// configuration that only changes how kubelet logs.
func TestOnlySettingsThatMayMakeAHostShortAreCompared(t *testing.T) {
	of := func(fields string) string {
		_, r := kubeletOf(t, kubeletSite(t, kubeletConfig("a", "worker", fields)), "worker")
		return r.Config.Kubelet()
	}
	const soft = `evictionSoft: {memory.available: 1Gi}, evictionSoftGracePeriod: {memory.available: 1m}`
	had := of(`kubeletConfig: {` + soft + `}`)
	for fields, same := range map[string]bool{
		`logLevel: 4, kubeletConfig: {` + soft + `, containerLogMaxSize: 20Mi, containerLogMaxFiles: 3, eventBurst: 3, registryPullQPS: 9, kubeAPIQPS: 70, streamingConnectionIdleTimeout: 2m}`: true,
		`kubeletConfig: {evictionSoft: {memory.available: 2Gi}, evictionSoftGracePeriod: {memory.available: 1m}}`:                                                                               false,
		`kubeletConfig: {` + soft + `, evictionHard: {memory.available: 500Mi}}`:                                                                                                                false,
		`kubeletConfig: {` + soft + `, systemReserved: {memory: 1Gi}}`:                                                                                                                          false,
		`kubeletConfig: {` + soft + `, maxPods: 50}`:                                                                                                                                            false,
		`kubeletConfig: {` + soft + `, podPidsLimit: 50}`:                                                                                                                                       false,
	} {
		if got := of(fields); (got == had) != same {
			t.Errorf("%s: it compares %s with %s", fields, got, had)
		}
	}
	if got := of(`logLevel: 4`); got != "" {
		t.Errorf("how kubelet logs is compared: %s", got)
	}
}

func TestKubeletsSettingsBelongToTheConfigurationOfThePoolsThatAreSelected(t *testing.T) {
	all := kubeletSite(t,
		kubeletConfig("20-pods", "worker", `kubeletConfig: {maxPods: 200, systemReserved: {memory: 1Gi, cpu: 500m}}`),
		kubeletConfig("10-log", "worker", `logLevel: 4, kubeletConfig: {apiVersion: kubelet.config.k8s.io/v1beta1, kind: KubeletConfiguration, maxPods: 200}`),
		kubeletConfig("gpu", "gpu", `kubeletConfig: {maxPods: 50}`),
		kubeletConfig("pids", "worker", `containerRuntimeConfig: {pidsLimit: 100, logSizeMax: 20M, defaultRuntime: runc}`),
	)
	const head = `{"apiVersion":"kubelet.config.k8s.io/v1beta1","containerLogMaxSize":"20M","kind":"KubeletConfiguration","logging":{"verbosity":4},"maxPods":%d,"podPidsLimit":100,"systemReserved":{"cpu":"500m","memory":"1Gi"}}`
	worker, r := kubeletOf(t, all, "worker")
	if worker != fmt.Sprintf(head, 200) || !slices.Equal(r.Sources, []string{"ContainerRuntimeConfig/pids", "KubeletConfig/10-log", "KubeletConfig/20-pods"}) {
		t.Errorf("workers have %s of %q", worker, r.Sources)
	}
	gpu, r := kubeletOf(t, all, "gpu")
	if gpu != fmt.Sprintf(head, 50) || len(r.Overrides) != 1 || r.Overrides[0].What != "kubelet's maxPods" || r.Overrides[0].By != "KubeletConfig gpu" {
		t.Errorf("a pool that builds upon them has %s, %+v", gpu, r.Overrides)
	}
	if master, r := kubeletOf(t, all, "master"); master != "" || len(r.Sources) != 0 {
		t.Errorf("control planes have %s", master)
	}
	for _, v := range machineconfig.Verdicts(all) {
		if v.Problem != "" || len(v.Pools) != 1 {
			t.Errorf("%+v", v)
		}
	}
}

func TestWhatKubeletCannotHaveIsRefusedWithItsField(t *testing.T) {
	all := kubeletSite(t,
		kubeletConfig("crio", "worker", `containerRuntimeConfig: {pidsLimit: 3, logSizeMax: 8k, logLevel: debug, overlaySize: 10G, defaultRuntime: crun, additionalImageStores: [{path: /a}]}`),
		kubeletConfig("owned", "worker", `autoSizingReserved: true, tlsSecurityProfile: {type: Old}, logLevel: 11, kubeletConfig: {cgroupDriver: systemd, clusterDNS: [10.0.0.1], staticPodPath: "",
tlsCertFile: a, shutdownGracePeriod: 30s, cpuManagerPolicy: static, nodeStatusUpdateFrequency: 1s, imageGCHighThresholdPercent: 80, podsPerCore: 1, maxpods: 3, logging: {verbosity: 9}}`),
		kubeletConfig("values", "worker", `kubeletConfig: {maxPods: 0, podPidsLimit: null, containerLogMaxSize: big, containerLogMaxFiles: 1, systemReserved: {gpu: "1"}, kubeReserved: {memory: "-1"},
evictionHard: {nodefs.available: 10%, memory.available: 50Mi}, evictionSoft: {disk: 1%}, evictionSoftGracePeriod: {memory.available: soon}, allowedUnsafeSysctls: [vm.swappiness], maxParallelImagePulls: 3,
containerLogMonitorInterval: 1, kubeAPIQPS: x, streamingConnectionIdleTimeout: 1s}`),
		kubeletConfig("list", "worker", `kubeletConfig: []`),
		kubeletConfig("other", "worker", `kubeletConfig: {apiVersion: v1, kind: KubeletConfiguration}`),
		`{metadata: {name: nobody}, spec: {machineConfigPoolSelector: {}, kubeletConfig: {maxPods: 3}}}`,
		kubeletConfig("good", "worker", `kubeletConfig: {eventBurst: 3}`),
	)
	_, err := machineconfig.Of(&all.Pools[2], all)
	if err == nil {
		t.Fatal("they are accepted")
	}
	var out strings.Builder
	fmt.Fprintf(&out, "=== the pool worker\n%v\n", err)
	for _, v := range machineconfig.Verdicts(all) {
		fmt.Fprintf(&out, "=== %s %s: %d lines, pools %v\n", v.Kind, v.Name, len(strings.Split(v.Problem, "\n")), v.Pools)
		if v.Name == "nobody" || v.Name == "good" {
			fmt.Fprintln(&out, v.Problem)
		}
	}
	golden.Check(t, "kubelet.txt", []byte(out.String()))
}

func TestTwoObjectsThatWantDifferentThingsOfOnePoolAreBothNamed(t *testing.T) {
	all := kubeletSite(t, kubeletConfig("a", "worker", `kubeletConfig: {podPidsLimit: 200}`), kubeletConfig("b", "worker", `containerRuntimeConfig: {pidsLimit: 100}`))
	_, err := machineconfig.Of(&all.Pools[2], all)
	if want := "KubeletConfig a: spec.kubeletConfig.podPidsLimit: ContainerRuntimeConfig b has another value at spec.containerRuntimeConfig.pidsLimit, and both are for the pool worker\n" +
		"ContainerRuntimeConfig b: spec.containerRuntimeConfig.pidsLimit: KubeletConfig a has another value at spec.kubeletConfig.podPidsLimit, and both are for the pool worker"; err == nil || err.Error() != want {
		t.Errorf("%v", err)
	}
	for _, v := range machineconfig.Verdicts(all) {
		if v.Problem == "" {
			t.Errorf("%s %s has no problem", v.Kind, v.Name)
		}
	}
}

// TestAHostBelievesNoSettingsOfKubelet: it checks those in a merged configuration again,
// and no MachineConfig may have the file.
func TestAHostBelievesNoSettingsOfKubelet(t *testing.T) {
	mine := func(contents string) mcfgv1.MachineConfig {
		return made(t, "10-mine", withFiles(fmt.Sprintf(`{path: %s, contents: {source: "%s"}}`, machineconfig.KubeletPath, ignition.DataURL([]byte(contents)))))
	}
	if _, err := machineconfig.Render("worker", []mcfgv1.MachineConfig{mine(`{}`)}); err == nil || !strings.Contains(err.Error(), "belongs to kubeadm and Holdfast") {
		t.Errorf("a MachineConfig may have it: %v", err)
	}
	for contents, want := range map[string]string{`{"cgroupDriver": "systemd"}`: "storage.files.0.contents: cgroupDriver: it is containerd's", `[]`: "is not a JSON object", `{"maxPods": -1}`: "maxPods: is not between"} {
		if _, err := machineconfig.Read(mine(contents)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", contents, err)
		}
	}
}
