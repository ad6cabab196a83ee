package installer_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/install/installer"
	"github.com/holdfast/holdfast/internal/model/secret"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/render/apiserver"
	"github.com/holdfast/holdfast/internal/testkit/sitetest"
)

// hostFiles are those of a control plane that has taken a backup.
func hostFiles(t *testing.T, s *site.Site) map[string][]byte {
	t.Helper()
	text, err := s.For(state.RoleBootstrap).Settled().Marshal()
	if err != nil {
		t.Fatal(err)
	}
	keys, err := apiserver.Encryption(s.Identity.EncryptionRoot, []int{3, 2})
	if err != nil {
		t.Fatal(err)
	}
	device, err := json.Marshal(state.FencingDevice{Target: "cp-2", Password: "hush-2"})
	if err != nil {
		t.Fatal(err)
	}
	id := s.Identity
	return map[string][]byte{
		site.Path:                                 text,
		"/etc/kubernetes/pki/ca.crt":              []byte(id.KubernetesCA.Cert),
		"/etc/kubernetes/pki/ca.key":              []byte(id.KubernetesCA.Key),
		"/etc/kubernetes/pki/etcd/ca.crt":         []byte(id.EtcdCA.Cert),
		"/etc/kubernetes/pki/etcd/ca.key":         []byte(id.EtcdCA.Key),
		"/etc/kubernetes/pki/front-proxy-ca.crt":  []byte(id.FrontProxyCA.Cert),
		"/etc/kubernetes/pki/front-proxy-ca.key":  []byte(id.FrontProxyCA.Key),
		"/etc/kubernetes/pki/sa.pub":              []byte(id.ServiceSigner.Cert),
		"/etc/kubernetes/pki/sa.key":              []byte(id.ServiceSigner.Key),
		apiserver.EncryptionPath:                  keys.Data,
		state.FencingDir + "/cp-2.json":           device,
		state.FencingDir + "/learned/cp-2.json":   []byte("{}"),
		"/var/lib/holdfast/network/settings.json": []byte("{}"),
	}
}

// siteOf returns the site that an Ignition config gives to its host.
func (d *directory) siteOf(file string) *site.Site {
	d.t.Helper()
	s, err := site.Unmarshal([]byte(ignitionFiles(d.t, d.read(file))[site.Path].data))
	if err != nil {
		d.t.Fatal(err)
	}
	return s
}

func digestOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// TestARestoredSiteHasTheKeysOfItsBackupAndNewSecretsForHostsThatJoin makes a directory
// from the files of a host, writes what they lack, and creates the Ignition configs.
func TestARestoredSiteHasTheKeysOfItsBackupAndNewSecretsForHostsThatJoin(t *testing.T) {
	before := sitetest.New(t, sitetest.TwoDual)
	b, err := installer.OfHost(hostFiles(t, before))
	if err != nil {
		t.Fatal(err)
	}
	b.ID, b.Snapshot, b.SHA256 = "20261120T080000Z-cp-1", strings.NewReader("etcd"), digestOf("etcd")
	d := newDirectory(t, "")
	missing, err := d.Restore(b)
	if err != nil {
		t.Fatal(err)
	}
	if want := "controlPlane.fencing.credentials[0].password"; len(missing) != 1 || missing[0] != want {
		t.Fatalf("missing: %v, want %s: a host has the account of its peer alone", missing, want)
	}
	if got := d.read(installer.SnapshotFile); got != "etcd" {
		t.Errorf("the snapshot is %q", got)
	}
	for _, file := range []string{installer.SnapshotFile, installer.ConfigFile, installer.StateFile} {
		if info, err := os.Stat(filepath.Join(d.Dir, file)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v: it holds secrets", file, info.Mode(), err)
		}
	}
	text := strings.Replace(d.read(installer.ConfigFile), `password: ""`, "password: hush-1", 1)
	d.write(installer.ConfigFile, text)
	d.must(d.IgnitionConfigs)

	first := d.siteOf("bootstrap.ign")
	if first.Restore == nil || first.Restore.SHA256 != digestOf("etcd") || first.Restore.Backup != b.ID || len(first.Restore.Token) < 16 {
		t.Errorf("the first host restores %+v", first.Restore)
	}
	if other := first.For(state.RoleMaster); other.Restore != nil {
		t.Errorf("a further control plane restores %+v: it joins", other.Restore)
	}
	if l := first.Life; l.ID == "" || l.ID == first.Restore.Token || !l.Began.After(before.Life.Began) {
		t.Errorf("the life of the restored site is %+v", l)
	}
	for _, role := range []state.Role{state.RoleMaster, state.RoleWorker} {
		if first.For(role).Life != first.Life {
			t.Errorf("a %s is of life %+v, want that of the first host", role, first.For(role).Life)
		}
	}
	was, is := before.Identity, first.Identity
	for what, same := range map[string]bool{
		"Kubernetes' CA": was.KubernetesCA == is.KubernetesCA, "etcd's CA": was.EtcdCA == is.EtcdCA,
		"the key of service accounts": was.ServiceSigner == is.ServiceSigner, "the cluster's id": was.ClusterID == is.ClusterID,
		"the root of encryption": string(was.EncryptionRoot) == string(is.EncryptionRoot),
		"keys of encryption":     len(is.EncryptionKeys) == 2 && is.EncryptionKeys[0] == 3 && is.EncryptionKeys[1] == 2,
	} {
		if !same {
			t.Errorf("%s: other than in the backup", what)
		}
	}
	if string(was.JoinKey) == string(is.JoinKey) || was.ProgressToken == is.ProgressToken {
		t.Error("a host of before can still join: the secrets are those of the backup")
	}
	if was, is := before.Identity.Admin, d.read(installer.Kubeconfig); strings.Contains(is, was.Key) {
		t.Error("the administrator has the former key, which nobody has any more")
	}
}

// L47: a token that two restores have in common would give both the same ids of members.
func TestEachRestoreHasATokenOfItsOwn(t *testing.T) {
	files := hostFiles(t, sitetest.New(t, sitetest.TwoDual))
	tokens := map[string]bool{}
	for range 2 {
		b, err := installer.OfHost(files)
		if err != nil {
			t.Fatal(err)
		}
		b.Snapshot, b.SHA256 = strings.NewReader("etcd"), digestOf("etcd")
		d := newDirectory(t, "")
		if _, err := d.Restore(b); err != nil {
			t.Fatal(err)
		}
		d.write(installer.ConfigFile, strings.Replace(d.read(installer.ConfigFile), `password: ""`, "password: hush-1", 1))
		d.must(d.IgnitionConfigs)
		tokens[d.siteOf("bootstrap.ign").Restore.Token] = true
	}
	if len(tokens) != 2 {
		t.Errorf("two restores have the tokens %v", tokens)
	}
}

// TestARestoreBeginsInAnEmptyDirectory leaves another site's directory as it is.
func TestARestoreBeginsInAnEmptyDirectory(t *testing.T) {
	d := newDirectory(t, sitetest.TwoDual)
	before := d.files()
	_, err := d.Restore(installer.Backup{})
	if err == nil || !strings.Contains(err.Error(), "a restore begins in an empty directory") {
		t.Errorf("restored over another site: %v", err)
	}
	if after := d.files(); after[installer.ConfigFile] != before[installer.ConfigFile] || after[installer.StateFile] != "" {
		t.Error("the directory has changed")
	}
}

// TestWhatABackupLacksIsToldAtOnce reads the files of a host without its authorities.
func TestWhatABackupLacksIsToldAtOnce(t *testing.T) {
	files := hostFiles(t, sitetest.New(t, sitetest.TwoDual))
	delete(files, "/etc/kubernetes/pki/ca.key")
	delete(files, "/etc/kubernetes/pki/sa.key")
	files[state.FencingDir+"/cp-2.json"] = []byte("torn")
	_, err := installer.OfHost(files)
	for _, want := range []string{"no /etc/kubernetes/pki/ca.key", "no /etc/kubernetes/pki/sa.key", "cp-2.json of the backup is not readable"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not tell %q", err, want)
		}
	}
	if err != nil && strings.Contains(err.Error(), "torn") {
		t.Errorf("%v quotes a file with passwords", err)
	}
}

// TestASnapshotOfAnotherBackupIsRefused compares what is taken with what was meant.
func TestASnapshotOfAnotherBackupIsRefused(t *testing.T) {
	b, err := installer.OfHost(hostFiles(t, sitetest.New(t, sitetest.TwoDual)))
	if err != nil {
		t.Fatal(err)
	}
	b.Snapshot, b.SHA256 = strings.NewReader("other"), digestOf("etcd")
	d := newDirectory(t, "")
	if _, err := d.Restore(b); err == nil || !strings.Contains(err.Error(), "its SHA-256 is") {
		t.Errorf("took it: %v", err)
	}
	if d.files()[installer.StateFile] != "" {
		t.Error("the directory counts as one of a site")
	}
}

func TestPasswordsOfTheClusterFillWhatTheFilesOfAHostLack(t *testing.T) {
	b, err := installer.OfHost(hostFiles(t, sitetest.New(t, sitetest.TwoDual)))
	if err != nil {
		t.Fatal(err)
	}
	b.AddPasswords(map[string]secret.Text{"cp-1": "hush-1", "cp-2": "stale"})
	b.Snapshot, b.SHA256 = strings.NewReader("etcd"), digestOf("etcd")
	d := newDirectory(t, "")
	if missing, err := d.Restore(b); err != nil || len(missing) > 0 {
		t.Fatalf("%v, missing: %v", err, missing)
	}
	text := d.read(installer.ConfigFile)
	if !strings.Contains(text, "password: hush-1") || !strings.Contains(text, "password: hush-2") || strings.Contains(text, "stale") {
		t.Error("the passwords are not those of the host's file and, beside it, of the cluster")
	}
}

// A Service keeps its addresses in etcd. With another network its API server would serve none of them.
func TestARestoredSiteKeepsTheServiceNetworksOfItsBackup(t *testing.T) {
	b, err := installer.OfHost(hostFiles(t, sitetest.New(t, sitetest.TwoDual)))
	if err != nil {
		t.Fatal(err)
	}
	b.AddPasswords(map[string]secret.Text{"cp-1": "hush-1"})
	b.Snapshot, b.SHA256 = strings.NewReader("etcd"), digestOf("etcd")
	d := newDirectory(t, "")
	if _, err := d.Restore(b); err != nil {
		t.Fatal(err)
	}
	asked := d.read(installer.ConfigFile)
	for range 2 { // what was refused is not what the next try is compared with
		d.write(installer.ConfigFile, strings.Replace(asked, "172.30.0.0/16", "172.31.0.0/16", 1))
		_, err := d.IgnitionConfigs()
		var input *installer.InputError
		if !errors.As(err, &input) || !strings.Contains(err.Error(), "networking.serviceNetwork: ") || !strings.Contains(err.Error(), "addresses of 172.30.0.0/16, fd96::/112") {
			t.Fatalf("another network is taken: %v", err)
		}
	}
	d.write(installer.ConfigFile, strings.Replace(asked, "10.128.0.0/14", "10.132.0.0/14", 1)) // pods begin anew
	d.must(d.IgnitionConfigs)

	fresh := newDirectory(t, sitetest.TwoDual)
	fresh.must(fresh.IgnitionConfigs)
	fresh.write(installer.ConfigFile, strings.Replace(fresh.read(installer.ConfigFile), "172.30.0.0/16", "172.31.0.0/16", 1))
	fresh.must(fresh.IgnitionConfigs) // nothing is installed yet
}

// docs/facts/loss.md#hard-cases-of-loss, L46: the first host knows where the former site would
// answer, also if the administrator gives the restored one other VIPs.
func TestL46TheFirstHostKnowsWhereTheFormerSiteAnswers(t *testing.T) {
	b, err := installer.OfHost(hostFiles(t, sitetest.New(t, sitetest.TwoDual)))
	if err != nil {
		t.Fatal(err)
	}
	b.AddPasswords(map[string]secret.Text{"cp-1": "hush-1"})
	b.ControlPlanes = []netip.Addr{netip.MustParseAddr("10.98.0.12"), netip.MustParseAddr("10.98.0.11")}
	b.Snapshot, b.SHA256 = strings.NewReader("etcd"), digestOf("etcd")
	d := newDirectory(t, "")
	if _, err := d.Restore(b); err != nil {
		t.Fatal(err)
	}
	text := strings.NewReplacer("10.98.0.5", "10.98.0.55", "fd98::5", "fd98::55").Replace(d.read(installer.ConfigFile))
	d.write(installer.ConfigFile, text)
	d.must(d.IgnitionConfigs)
	s := d.siteOf("bootstrap.ign")
	if got := fmt.Sprint(s.Restore.Former); got != "[10.98.0.5 10.98.0.11 10.98.0.12 fd98::5]" || s.APIHost() != "10.98.0.55" {
		t.Errorf("it asks at %s, and serves at %s", got, s.APIHost())
	}
}

// The power was cut, or the disk was full, before the keys of the backup were saved. New keys would
// make a blank site beside the snapshot.
func TestARestoreThatDidNotEndBecomesNoBlankSite(t *testing.T) {
	d := newDirectory(t, sitetest.TwoDual)
	d.write(installer.SnapshotFile, "etcd")
	for _, create := range []func() ([]string, error){d.Manifests, d.IgnitionConfigs} {
		_, err := create()
		wantInputError(t, err, "a restore was begun in "+d.Dir, "empty the directory and run 'holdfast restore' again")
	}
	if _, err := os.Stat(filepath.Join(d.Dir, installer.StateFile)); err == nil {
		t.Error("it got keys of its own")
	}
}
