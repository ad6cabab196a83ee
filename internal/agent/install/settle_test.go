package install

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/adapter/hostconfig"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/sitetest"
)

// ofAnOlderBuild has the files that an older build left on a control plane.
var ofAnOlderBuild = map[string]string{
	"/etc/holdfast/kubeadm.yaml":                                         "tlsBootstrapToken: abcdef.hush-token",
	"/etc/holdfast/kubeadm-patches/etcd0+strategic.yaml":                 "image: hush",
	"/etc/holdfast/manifests/manifests/20-fencing-credentials-cp-1.yaml": "password: aHVzaC0x", // hush-1
	"/etc/kubernetes/bootstrap-kubelet.conf":                             "token: abcdef.hush-token",
	"/etc/holdfast/join.kubeconfig":                                      "token: abcdef.hush-token",
	"/var/lib/holdfast/install/host-token":                               "hush-token",
	hostconfig.FirstPath:                                                 "hush-mirror",
	"/etc/holdfast/fencing/cp-2.json":                                    `{"password":"peer"}`,
	site.RestorePath:                                                     "hush-snapshot",
	state.EtcdDataDir + "/holdfast-restore/report.json":                  `{"kept":4711}`, // people read it afterwards
}

// docs/attacks.md, F3, F19: the bootstrap token and both accounts stayed for good. So did the snapshot
// of a restore, with every Secret of the former etcd.
func TestAHostThatIsInstalledKeepsNoSecretOfTheInstallation(t *testing.T) {
	root := t.TempDir()
	write := func(path, data string) {
		t.Helper()
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for path, data := range ofAnOlderBuild {
		write(path, data)
	}
	s := sitetest.New(t, sitetest.TwoDual)
	s.Role = state.RoleMaster
	s.Identity.Admin = site.KeyPair{Cert: "public", Key: "hush-admin"}
	data, err := s.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(string(data), `"identity": {`, `"identity": {"bootstrapToken": "abcdef.hush-token", "joinToken": "hush-join", "admissionToken": "hush-admission",`, 1)
	if !strings.Contains(text, "hush-1") {
		t.Fatal("the file is not as an older build wrote it")
	}
	write(site.Path, text)
	took, err := settle(root)
	if err != nil || len(took) != len(leftovers)+1 {
		t.Errorf("took %v, %v", took, err)
	}
	var left []string
	err = filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if strings.Contains(string(data), "hush") || strings.Contains(string(data), "aHVzaC") {
			t.Errorf("%s holds a secret", path)
		}
		info, statErr := d.Info()
		if statErr != nil || info.Mode().Perm() != state.SecretFileMode {
			t.Errorf("%s: %v, %v", path, info, statErr)
		}
		left = append(left, strings.TrimPrefix(path, root))
		return err
	})
	if err != nil || len(left) != 3 || !slices.ContainsFunc(left, func(path string) bool { return strings.HasSuffix(path, "/report.json") }) {
		t.Errorf("left are %v, %v", left, err)
	}
	kept, err := os.ReadFile(filepath.Join(root, site.Path))
	if err != nil {
		t.Fatal(err)
	}
	own, err := site.Unmarshal(kept)
	if err != nil || own.Role != state.RoleMaster || len(own.Identity.JoinKey) == 0 || own.Config.ControlPlane.Fencing.Credentials[1].HostName != "cp-2" {
		t.Errorf("%+v, %v", own, err)
	}
	if took, err := settle(root); err != nil || len(took) > 0 {
		t.Errorf("a second time: %v, %v", took, err)
	}
}

func TestASiteThatIsDamagedIsLeftAlone(t *testing.T) {
	root := t.TempDir()
	if _, err := settle(root); err == nil {
		t.Error("a host without a site")
	}
	path := filepath.Join(root, site.Path)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("hush"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := settle(root); err == nil || strings.Contains(err.Error(), "hush") {
		t.Errorf("got %v", err)
	}
	if data, err := os.ReadFile(path); err != nil || string(data) != "hush" {
		t.Errorf("%s, %v", data, err)
	}
}
