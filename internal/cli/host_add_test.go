package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/decide/dualstack"
	"github.com/holdfast/holdfast/internal/decide/readdress"
	"github.com/holdfast/holdfast/internal/install/installer"
	"github.com/holdfast/holdfast/internal/model/jointoken"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/sitetest"
)

// controlPlaneRoot returns the files of a control plane: its site, and the key of
// join secrets if it is another one than the site's.
func controlPlaneRoot(t *testing.T, role state.Role, key []byte) (root string, s *site.Site) {
	t.Helper()
	return siteRoot(t, sitetest.OneNone, role, key)
}

func siteRoot(t *testing.T, text string, role state.Role, key []byte) (root string, s *site.Site) {
	t.Helper()
	root = t.TempDir()
	s = sitetest.New(t, text).For(role)
	data, err := s.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(root, "etc/holdfast"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, site.Path), data, 0o600); err != nil {
		t.Fatal(err)
	}
	if key != nil {
		if err := os.WriteFile(filepath.Join(root, site.JoinKeyPath), key, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root, s
}

// adds is a run of the command for w-3 on a control plane.
func adds(t *testing.T, c client.Client, root string, out *bytes.Buffer) *addition {
	t.Helper()
	return &addition{
		addFlags: addFlags{hostFlags: hostFlags{output: "text"}, role: "worker", life: 2 * time.Hour, timeout: time.Hour, out: filepath.Join(t.TempDir(), "join.ign")},
		name:     "w-3", cluster: c, streams: Streams{Out: out, Err: out}, now: time.Now, root: root,
	}
}

// secretOf returns the join secret of a join file.
func secretOf(t *testing.T, file []byte) string {
	t.Helper()
	var pointer struct {
		Ignition struct {
			Config struct {
				Merge []struct {
					HTTPHeaders []struct{ Name, Value string }
				}
			}
		}
	}
	if err := json.Unmarshal(file, &pointer); err != nil {
		t.Fatal(err)
	}
	for _, from := range pointer.Ignition.Config.Merge {
		for _, h := range from.HTTPHeaders {
			if h.Name == "Authorization" {
				return strings.TrimPrefix(h.Value, "Bearer ")
			}
		}
	}
	t.Fatalf("no secret in %s", file)
	return ""
}

func TestTheJoinFileOpensTheConfigurationForOneHostAndALimitedTime(t *testing.T) {
	kept, current := bytes.Repeat([]byte("k"), 32), bytes.Repeat([]byte("c"), 32)
	rotated := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: jointoken.KeyNamespace, Name: jointoken.KeySecret}, Data: map[string][]byte{jointoken.KeyField: current}}
	for _, c := range []struct {
		sentence string
		kept     []byte
		more     []client.Object
		key      func(*site.Site) []byte
	}{
		{"the key of the installation", nil, nil, func(s *site.Site) []byte { return s.Identity.JoinKey }},
		{"the key that this host keeps", kept, nil, func(*site.Site) []byte { return kept }},
		{"the key of the cluster", kept, []client.Object{rotated}, func(*site.Site) []byte { return current }},
	} {
		root, s := controlPlaneRoot(t, state.RoleMaster, c.kept)
		var out bytes.Buffer
		a := adds(t, hostSite(t, c.more...), root, &out)
		if err := a.run(t.Context()); err != nil {
			t.Fatalf("%s: %v", c.sentence, err)
		}
		data, err := os.ReadFile(a.out)
		if err != nil {
			t.Fatal(err)
		}
		claims, err := jointoken.Read(c.key(s), secretOf(t, data), jointoken.Config, time.Now())
		if left := time.Until(claims.Expires); err != nil || claims.Host != "w-3" || claims.Role != state.RoleWorker || left > 2*time.Hour || left < time.Hour {
			t.Errorf("%s: %+v, %v", c.sentence, claims, err)
		}
		if info, err := os.Stat(a.out); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: others can read it: %v", c.sentence, err)
		}
		if strings.Contains(out.String(), secretOf(t, data)) {
			t.Errorf("%s: the secret is shown", c.sentence)
		}
	}
}

// L13: hardware with other names of interfaces, another MAC or another disk takes the same file.
func TestL13_AJoinFileNamesNoInterfaceAndNoDisk(t *testing.T) {
	root, _ := controlPlaneRoot(t, state.RoleMaster, nil)
	a := adds(t, hostSite(t), root, &bytes.Buffer{})
	if err := a.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(a.out)
	if err != nil {
		t.Fatal(err)
	}
	var file map[string]json.RawMessage
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	for part := range file {
		if part != "ignition" { // where the rest is to be had, for whom, and whom to trust
			t.Errorf("the file has %s: %s", part, file[part])
		}
	}
}

func TestAHostThatHasNoPlaceGetsNoFileAndAllReasons(t *testing.T) {
	root, _ := controlPlaneRoot(t, state.RoleMaster, nil)
	c := hostSite(t, podOf("old", "w-3", "ReplicaSet", nil))
	writesStatus(t, c, "w-1", func(s *corev1.NodeStatus) {
		s.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2.21"}}
	})
	a := adds(t, c, root, &bytes.Buffer{})
	a.addresses = []string{"192.0.2.21"}
	err := a.run(t.Context())
	if command.ExitCode(err) != command.ExitRefused || !strings.Contains(err.Error(), "1 pods of an earlier host w-3") || !strings.Contains(err.Error(), "192.0.2.21 is that of w-1") {
		t.Error(err)
	}
	if _, err := os.Stat(a.out); err == nil {
		t.Error("the file was written")
	}
}

func TestNoHostIsAddedWhileTheSiteGetsASecondFamily(t *testing.T) {
	root, _ := controlPlaneRoot(t, state.RoleMaster, nil)
	plan := state.FormatAnnotation(dualstack.Plan{ID: "f1", By: "ada", Hosts: map[string]dualstack.Host{"cp-1": {}}})
	infra := &configv1.Infrastructure{ObjectMeta: metav1.ObjectMeta{Name: "cluster", Annotations: map[string]string{kube.DualStackAnnotation: plan}}}
	c := hostSite(t, infra)
	keeps(t, c, sitetest.OneNone)
	a := adds(t, c, root, &bytes.Buffer{})
	if err := a.run(t.Context()); command.ExitCode(err) != command.ExitRefused || !strings.Contains(err.Error(), "the plan f1 of ada gives the site a second address family") {
		t.Error(err)
	}
}

// TestNoHostIsAddedWhileAMoveOfTheSiteIsAnnounced: its plan has no address of the new host.
func TestNoHostIsAddedWhileAMoveOfTheSiteIsAnnounced(t *testing.T) {
	root, _ := controlPlaneRoot(t, state.RoleMaster, nil)
	place := func(network, vip string) readdress.Place {
		return readdress.Place{MachineNetworks: []string{network}, APIVIPs: []string{vip}, IngressVIPs: []string{vip}}
	}
	plan := state.FormatAnnotation(readdress.Plan{ID: "m1", By: "ada", From: place("192.0.2.0/24", "192.0.2.5"), To: place("198.51.100.0/24", "198.51.100.5")})
	settled := state.FormatAnnotation(readdress.Settled{Plan: "m1", At: readdress.To})
	for vip, refused := range map[string]bool{"192.0.2.5": true, "198.51.100.5": false, "203.0.113.5": false} {
		infra := &configv1.Infrastructure{ObjectMeta: metav1.ObjectMeta{Name: "cluster", Annotations: map[string]string{kube.ReaddressAnnotation: plan}}}
		if vip == "203.0.113.5" { // a control plane has written where the site is
			infra.Annotations[kube.ReaddressedAnnotation] = settled
		}
		infra.Status.PlatformStatus = &configv1.PlatformStatus{BareMetal: &configv1.BareMetalPlatformStatus{APIServerInternalIPs: []string{vip}, IngressIPs: []string{vip}}}
		c := hostSite(t, infra)
		keeps(t, c, sitetest.OneNone)
		err := adds(t, c, root, &bytes.Buffer{}).run(t.Context())
		if is := command.ExitCode(err) == command.ExitRefused; is != refused || refused && !strings.Contains(err.Error(), "the move m1 of ada is announced") || refused && !strings.Contains(err.Error(), "holdfast site readdress withdraw") {
			t.Errorf("with the virtual IP %s: %v", vip, err)
		}
	}
}

// keeps has the cluster keep a configuration of itself.
func keeps(t *testing.T, c client.Client, text string) {
	t.Helper()
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "cluster-config-v1"}, Data: map[string]string{"install-config": text}}
	if err := c.Update(t.Context(), cm); err != nil {
		t.Fatal(err)
	}
}

// madeDirectory returns an install directory from which a site was made.
func madeDirectory(t *testing.T, text string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, installer.ConfigFile), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, errs := runLine(t, "create", "ignition-configs", "--dir", dir); code != ExitOK {
		t.Fatal(errs)
	}
	return dir
}

func TestAJoinFileIsThatOfTheSiteAsItIsNowNotAsTheInstallDirectoryHasIt(t *testing.T) {
	dir := madeDirectory(t, sitetest.ThreeV6)
	moved := strings.ReplaceAll(sitetest.ThreeV6, "fd98::", "fd77::")
	// A virtual IP was changed after the move.
	metal := &configv1.BareMetalPlatformStatus{APIServerInternalIPs: []string{"fd77::9"}, IngressIPs: []string{"fd77::6"}, MachineNetworks: []configv1.CIDR{"fd77::/64"}}
	for _, c := range []struct {
		sentence, has, address, leads, refused string
		metal                                  *configv1.BareMetalPlatformStatus
	}{
		{"the site moved", moved, "fd77::13", "https://[fd77::9]:22623/config/master", "", metal},
		{"the site moved, and the new host has an address of before", moved, "fd98::13", "", "address fd98::13 is in none of the site's machine networks", metal},
		{"the site has two control planes by now", sitetest.TwoDual, "10.98.0.13", "", "controlPlane.fencing.credentials names cp-1 and cp-2, not cp-3", nil},
		{"the cluster is another one", strings.Replace(moved, "name: shop", "name: store", 1), "fd77::13", "", "the keys are those of shop.example.test, and this cluster is store.example.test", metal},
		{"the cluster keeps nothing", "", "fd98::13", "https://[fd98::5]:22623/config/master", "", nil},
	} {
		infra := &configv1.Infrastructure{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}
		infra.Status.PlatformStatus = &configv1.PlatformStatus{BareMetal: c.metal}
		api := hostSite(t, infra)
		keeps(t, api, c.has)
		if c.has == "" {
			if err := api.Delete(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "cluster-config-v1"}}); err != nil {
				t.Fatal(err)
			}
		}
		a := adds(t, api, "/nowhere", &bytes.Buffer{})
		a.dir, a.role, a.name, a.addresses = dir, "master", "cp-3", []string{c.address}
		err := a.run(t.Context())
		if c.refused != "" {
			if _, there := os.Stat(a.out); command.ExitCode(err) != command.ExitRefused || !strings.Contains(err.Error(), c.refused) || there == nil {
				t.Errorf("%s: %v", c.sentence, err)
			}
			continue
		}
		if err != nil || !strings.Contains(string(fileAt(t, a.out)), c.leads) {
			t.Errorf("%s: %v", c.sentence, err)
		}
	}
}

func TestADryRunAndStandardOutputWriteNoFile(t *testing.T) {
	root, _ := controlPlaneRoot(t, state.RoleMaster, nil)
	for _, stdout := range []bool{false, true} {
		var out, words bytes.Buffer
		a := adds(t, hostSite(t), root, &out)
		a.streams.Err, a.stdout, a.dryRun = &words, stdout, !stdout
		if err := a.run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(a.out); err == nil {
			t.Error("a file was written")
		}
		if stdout {
			secretOf(t, out.Bytes()) // the file alone is on standard output
		}
	}
}

func TestAWorkerAndAStrangerAreToldWhereTheKeyIs(t *testing.T) {
	worker, _ := controlPlaneRoot(t, state.RoleWorker, nil)
	for _, root := range []string{worker, t.TempDir()} {
		err := adds(t, hostSite(t), root, &bytes.Buffer{}).run(t.Context())
		if command.ExitCode(err) != ExitUsage || !strings.Contains(err.Error(), "--dir") || !strings.Contains(err.Error(), "control plane as root") {
			t.Error(err)
		}
	}
}

func TestAllMistakesOfTheFlagsOfHostAddAreToldAtOnce(t *testing.T) {
	f := addFlags{hostFlags: hostFlags{output: "json"}, life: time.Second, addresses: []string{"x"}, wait: true, stdout: true}
	err := f.mistakes("")
	for _, flag := range []string{"--ttl", "--address", "--wait", "--stdout"} {
		if err == nil || !strings.Contains(err.Error(), flag) {
			t.Errorf("%s is not named: %v", flag, err)
		}
	}
}

func TestTheNewHostIsFollowedUntilItsNodeIsReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := hostSite(t)
		_, s := controlPlaneRoot(t, state.RoleMaster, nil)
		a := adds(t, c, "", &bytes.Buffer{})
		look := func() (bool, string) {
			return a.look(t.Context(), func(context.Context) ([]state.Progress, error) {
				return []state.Progress{{Host: "w-3", Steps: []state.Step{{Name: "join", State: state.StepRunning}}}}, nil
			})
		}
		if ready, doing := look(); ready || doing != "join" {
			t.Errorf("%t, %q", ready, doing)
		}
		n := nodeOf(t, c, "w-1")
		n.Name, n.ResourceVersion, n.Status.Conditions[0].Status = "w-3", "", corev1.ConditionFalse
		if err := c.Create(t.Context(), n); err != nil {
			t.Fatal(err)
		}
		if ready, doing := look(); ready || doing != "is a node, and not ready yet (if that machine is lost for good: holdfast host remove w-3 --is-off w-3)" {
			t.Errorf("%t, %q", ready, doing)
		}
		time.AfterFunc(time.Minute, func() {
			writesStatus(t, c, "w-3", isReady(corev1.ConditionTrue))
		})
		a.timeout = 30 * time.Second
		if err := a.follow(t.Context(), s); command.ExitCode(err) != command.ExitRecovers || !strings.Contains(err.Error(), "is a node, and not ready yet") {
			t.Errorf("it was ready too early, or the wait has no end: %v", err)
		}
		a.timeout = time.Hour
		if err := a.follow(t.Context(), s); err != nil {
			t.Error(err)
		}
	})
}
