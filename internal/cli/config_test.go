package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/yaml"

	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/decide/machineconfig"
	"github.com/holdfast/holdfast/internal/decide/rollout"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/golden"
)

const (
	configMotd = `{apiVersion: machineconfiguration.openshift.io/v1, kind: MachineConfig, metadata: {name: 50-motd, labels: {machineconfiguration.openshift.io/role: worker}},
spec: {config: {ignition: {version: 3.5.0}, storage: {files: [{path: /etc/motd, contents: {source: "data:,secret-words"}}]}, passwd: {users: [{name: core, sshAuthorizedKeys: [ssh-ed25519 A]}]}}}}
`
	configKernel = `{apiVersion: machineconfiguration.openshift.io/v1, kind: MachineConfig, metadata: {name: 60-kernel, labels: {machineconfiguration.openshift.io/role: worker}},
spec: {kernelArguments: [nosmt], config: {ignition: {version: 3.5.0}, storage: {files: [{path: /etc/motd, contents: {source: "data:,other"}}]},
systemd: {units: [{name: probe.service, enabled: true, contents: "[Service]"}]}}}}
`
	configWrong = `{apiVersion: machineconfiguration.openshift.io/v1, kind: MachineConfig, metadata: {name: 70-wrong, labels: {machineconfiguration.openshift.io/role: worker}},
spec: {fips: true, config: {ignition: {version: 3.5.0}, storage: {files: [{path: /etc/hostname, contents: {source: "data:,x"}}]}}}}
`
)

func machineConfigOf(t *testing.T, text string) mcfgv1.MachineConfig {
	t.Helper()
	var mc mcfgv1.MachineConfig
	if err := yaml.UnmarshalStrict([]byte(text), &mc); err != nil {
		t.Fatal(err)
	}
	return mc
}

func wantedOf(t *testing.T, text string) machineconfig.Wanted {
	t.Helper()
	wanted, err := parseWanted([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return wanted
}

// configSite returns a cluster of two workers, of which one has the motd, and one
// control plane without a MachineConfig. change is called before it is read.
func configSite(t *testing.T, change func(objects map[string]client.Object)) (client.Client, *machineConfigs, error) {
	t.Helper()
	scheme, err := kube.NewScheme(mcfgv1.Install)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &configv1.Proxy{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}
	pool := func(name, label string, all ...mcfgv1.MachineConfig) (*mcfgv1.MachineConfigPool, *mcfgv1.MachineConfig) {
		p := &mcfgv1.MachineConfigPool{ObjectMeta: metav1.ObjectMeta{Name: name}}
		p.Spec.MachineConfigSelector = &metav1.LabelSelector{MatchLabels: map[string]string{mcfgv1.MachineConfigRoleLabelKey: name}}
		p.Spec.NodeSelector = &metav1.LabelSelector{MatchLabels: map[string]string{label: ""}}
		made, err := machineconfig.Of(p, machineconfig.Objects{MachineConfigs: all, Proxy: &machineconfig.ClusterProxy{Proxy: *proxy}})
		if err != nil {
			t.Fatal(err)
		}
		p.Spec.Configuration.Name = made.Name
		for _, source := range made.Sources {
			p.Spec.Configuration.Source = append(p.Spec.Configuration.Source, corev1.ObjectReference{Name: source})
		}
		return p, made.Object()
	}
	first := machineConfigOf(t, configMotd)
	worker, now := pool("worker", state.LabelWorker, first)
	_, old := pool("worker", state.LabelWorker)
	master, none := pool("master", state.LabelControlPlane)
	worker.Status = mcfgv1.MachineConfigPoolStatus{MachineCount: 2, UpdatedMachineCount: 1, ReadyMachineCount: 1, UnavailableMachineCount: 1, Conditions: []mcfgv1.MachineConfigPoolCondition{
		{Type: mcfgv1.MachineConfigPoolUpdated, Status: corev1.ConditionFalse},
		{Type: mcfgv1.MachineConfigPoolUpdating, Status: corev1.ConditionTrue, Message: "1 of 2 hosts have it; w-2 (it is not ready) is at work"},
	}}
	master.Status = mcfgv1.MachineConfigPoolStatus{MachineCount: 1, UpdatedMachineCount: 1, ReadyMachineCount: 1, Conditions: []mcfgv1.MachineConfigPoolCondition{
		{Type: mcfgv1.MachineConfigPoolUpdated, Status: corev1.ConditionTrue},
	}}
	objects := map[string]client.Object{"proxy": proxy, "motd": &first, "worker": worker, "master": master, "new": now, "old": old, "none": none}
	host := func(name, label, current, desired string, st rollout.State) {
		objects[name] = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{label: ""}, Annotations: map[string]string{
			rollout.CurrentConfig: current, rollout.DesiredConfig: desired, rollout.StateOf: string(st), rollout.GivenAt: "2026-11-23T12:00:00Z",
		}}}
	}
	host("cp-1", state.LabelControlPlane, none.Name, none.Name, rollout.Done)
	host("w-1", state.LabelWorker, now.Name, now.Name, rollout.Done)
	host("w-2", state.LabelWorker, old.Name, now.Name, rollout.Working)
	objects["other"] = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "other"}}
	if change != nil {
		change(objects)
	}
	b := fake.NewClientBuilder().WithScheme(scheme)
	for _, o := range objects {
		b = b.WithObjects(o)
	}
	c := b.Build()
	s, err := readMachineConfigs(t.Context(), c)
	return c, s, err
}

func mustConfigSite(t *testing.T, change func(map[string]client.Object)) *machineConfigs {
	t.Helper()
	_, s, err := configSite(t, change)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestTheConfigurationOfHostsIsShownAsApproved(t *testing.T) {
	s := mustConfigSite(t, nil)
	var out bytes.Buffer
	show := func(title, format string, args ...string) {
		t.Helper()
		fmt.Fprintf(&out, "=== %s\n", title)
		r, err := s.show(args)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.print(&out, format); err != nil {
			t.Fatal(err)
		}
		if r.settled() != (len(args) > 0 && args[0] == "master") {
			t.Errorf("%s: settled %t", title, r.settled())
		}
	}
	show("show", "text")
	show("show -o wide", "wide")
	show("show worker", "text", "worker")
	show("show master -o yaml", "yaml", "master")
	diff := func(title, format string, steps []configStep, err error) {
		t.Helper()
		fmt.Fprintf(&out, "=== %s\n", title)
		if err != nil {
			t.Fatal(err)
		}
		if err := printSteps(&out, format, strings.Contains(title, "--"), steps); err != nil {
			t.Fatal(err)
		}
	}
	steps, err := s.behind(nil)
	diff("diff", "text", steps, err)
	steps, err = s.behind([]string{"master"})
	diff("diff master", "text", steps, err)
	steps, err = s.dryRun(nil, wantedOf(t, configKernel), nil)
	diff("diff --dry-run kernel.yaml -o wide", "wide", steps, err)
	steps, err = s.dryRun(nil, machineconfig.Wanted{}, []string{"50-motd"})
	diff("diff --without 50-motd", "text", steps, err)
	steps, err = s.dryRun(nil, wantedOf(t, configMotd), nil)
	diff("diff --dry-run motd.yaml", "text", steps, err)
	golden.Check(t, "config.txt", out.Bytes())
	if strings.Contains(out.String(), "secret-words") {
		t.Error("the contents of a file are shown")
	}
	var parsed struct {
		Steps []configStep `json:"steps"`
	}
	var text bytes.Buffer
	if err := (diffReport{diffParts: diffParts{Steps: steps}}).print(&text, "json"); err != nil || json.Unmarshal(text.Bytes(), &parsed) != nil {
		t.Errorf("%v: %s", err, text.String())
	}
}

// TestADifferenceIsJudgedByTheRowsThatHostsAreGiven: not by those which the site declares
// at this moment, because agents have the former.
func TestADifferenceIsJudgedByTheRowsThatHostsAreGiven(t *testing.T) {
	declared := &operatorv1.MachineConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}
	declared.Spec.NodeDisruptionPolicy.Files = []operatorv1.NodeDisruptionPolicySpecFile{
		{Path: "/etc/motd", Actions: []operatorv1.NodeDisruptionPolicySpecAction{{Type: operatorv1.RebootSpecAction}}},
	}
	s := mustConfigSite(t, func(objects map[string]client.Object) { objects["policy"] = declared })
	if steps, err := s.behind([]string{"worker"}); err != nil || len(steps) != 1 || steps[0].Reboots() {
		t.Errorf("hosts were not given the rows yet: %+v, %v", steps, err)
	}
	other := wantedOf(t, strings.Replace(configMotd, "secret-words", "other", 1))
	steps, err := s.dryRun([]string{"worker"}, other, nil)
	if err != nil || len(steps) != 2 || !steps[0].Reboots() || len(steps[0].Changes) != 2 {
		t.Errorf("with the rows: %+v, %v", steps, err)
	}
}

func TestADryRunRefusesWhatTheOperatorWould(t *testing.T) {
	s := mustConfigSite(t, nil)
	_, err := s.dryRun(nil, wantedOf(t, configWrong), nil)
	var refused *command.Coded
	if !errors.As(err, &refused) || refused.Code != command.ExitRefused {
		t.Fatalf("%v", err)
	}
	for _, words := range []string{"MachineConfig 70-wrong: spec.fips: ", "spec.config.storage.files.0.path: /etc/hostname belongs to"} {
		if !strings.Contains(err.Error(), words) {
			t.Errorf("%v, without %q", err, words)
		}
	}
}

func TestMistakesOfTheCommandLineAreToldAtOnce(t *testing.T) {
	s := mustConfigSite(t, nil)
	var usage *UsageError
	if _, err := s.show([]string{"gpu"}); !errors.As(err, &usage) {
		t.Errorf("a pool that is not there: %v", err)
	}
	if _, err := s.dryRun(nil, machineconfig.Wanted{}, []string{"50-gone"}); !errors.As(err, &usage) {
		t.Errorf("an object that is not there: %v", err)
	}
	dir := t.TempDir()
	put := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	files := []string{
		put("pod.yaml", "{apiVersion: v1, kind: Pod, metadata: {name: a}}"), put("empty.yaml", "\n"),
		put("typo.yaml", strings.Replace(configMotd, "spec:", "spek:", 1)), filepath.Join(dir, "gone.yaml"),
	}
	_, err := configInput{files: files}.read(strings.NewReader(""))
	for _, words := range []string{`kind "Pod"`, "there is no MachineConfig", `unknown field "spek"`, "no such file"} {
		if err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%v, without %q", err, words)
		}
	}
	wish, err := configInput{files: []string{"-"}}.read(strings.NewReader(configMotd + "---\n" + configKernel))
	if list := wish.wanted.MachineConfigs; err != nil || len(list) != 2 || list[1].Name != "60-kernel" {
		t.Errorf("%v %v", list, err)
	}
	if code, _, errs := runLine(t, "config", "diff", "--dry-run", filepath.Join(dir, "gone.yaml")); code != ExitUsage || !strings.Contains(errs, "gone.yaml") {
		t.Errorf("%d %s", code, errs)
	}
	if code, _, errs := runLine(t, "config", "show", "-o", "table"); code != ExitUsage || !strings.Contains(errs, "must be text, wide, json or yaml") {
		t.Errorf("%d %s", code, errs)
	}
}

func TestAPoolOfWhichNobodyHasReportedIsUnknown(t *testing.T) {
	s := mustConfigSite(t, func(objects map[string]client.Object) {
		objects["worker"].(*mcfgv1.MachineConfigPool).Status = mcfgv1.MachineConfigPoolStatus{} //nolint:forcetypeassert // it is one
		delete(objects, "old")
	})
	r, err := s.show([]string{"worker"})
	if err != nil || r.settled() || r.Pools[0].State != "unknown" {
		t.Errorf("%+v %v", r, err)
	}
	steps, err := s.behind(nil)
	if err != nil || len(steps) != 1 || !strings.Contains(steps[0].Unknown, "is not in the API") || !slices.Equal(steps[0].Hosts, []string{"w-2"}) {
		t.Errorf("%+v %v", steps, err)
	}
}

func TestEachStateOfAPoolHasItsWord(t *testing.T) {
	for want, c := range map[string]struct {
		kind   mcfgv1.MachineConfigPoolConditionType
		paused bool
	}{
		"refused": {mcfgv1.MachineConfigPoolRenderDegraded, false}, "failed": {mcfgv1.MachineConfigPoolNodeDegraded, false},
		"updated": {mcfgv1.MachineConfigPoolUpdated, true}, "paused": {mcfgv1.MachineConfigPoolDegraded, true}, "updating": {mcfgv1.MachineConfigPoolUpdating, false},
	} {
		p := mcfgv1.MachineConfigPool{}
		p.Spec.Paused = c.paused
		p.Status.Conditions = []mcfgv1.MachineConfigPoolCondition{{Type: c.kind, Status: corev1.ConditionTrue, Message: "words"}}
		if r := poolOf(p); r.State != want || r.Updated != (want == "updated") {
			t.Errorf("%s: %+v", want, r)
		}
	}
}
