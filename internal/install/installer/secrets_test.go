package installer_test

import (
	"encoding/base64"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/holdfast/holdfast/internal/install/installer"
	"github.com/holdfast/holdfast/internal/model/ignition"
	"github.com/holdfast/holdfast/internal/model/jointoken"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/sitetest"
)

// withSecrets describes a site with everything that may hold a secret.
var withSecrets = sitetest.TwoDual + `proxy: {httpProxy: "http://clerk:hush-proxy@10.98.0.9:3128"}
pullSecret: '{"auths":{"mirror.example.test":{"auth":"Y2xlcms6aHVzaC1wdWxs"}}}'
`

// secretsOf returns every secret of a site by a name for test reports.
func secretsOf(t *testing.T, s *site.Site) map[string]string {
	t.Helper()
	out := map[string]string{
		"BMC password 1": "hush-1", "BMC password 2": "hush-2", "proxy password": "hush-proxy",
		"pull secret": "Y2xlcms6aHVzaC1wdWxs", "private key": "PRIVATE KEY",
		"progress token":           s.Identity.ProgressToken,
		"root of the keys of etcd": string(s.Identity.EncryptionRoot),
	}
	for _, role := range []state.Role{state.RoleMaster, state.RoleWorker} {
		token, err := s.JoinToken(role, "")
		if err != nil {
			t.Fatal(err)
		}
		out["join token of "+string(role)] = token
	}
	return out
}

// holding returns the secrets that a file contains, also within an Ignition
// config's files and in encoded text.
func holding(t *testing.T, path, text string, secrets map[string]string) []string {
	t.Helper()
	all := text
	if filepath.Ext(path) == ".ign" {
		for _, f := range ignitionFiles(t, text) {
			all += f.data
		}
	}
	all += decoded(all)
	var found []string
	for name, secret := range secrets {
		if strings.Contains(all, secret) {
			found = append(found, name)
		}
	}
	slices.Sort(found)
	return found
}

var base64Text = regexp.MustCompile(`[A-Za-z0-9+/]{7,}={0,2}`)

// decoded returns the text in a text's base64 parts.
func decoded(text string) string {
	var out strings.Builder
	for _, word := range base64Text.FindAllString(text, -1) {
		if data, err := base64.StdEncoding.DecodeString(word); err == nil {
			out.Write(data)
		}
	}
	return out.String()
}

func TestWhatHoldsASecretIsForItsOwnerOnly(t *testing.T) {
	d := newDirectory(t, withSecrets)
	d.must(d.Manifests)
	d.must(d.IgnitionConfigs)
	s, err := d.Load()
	if err != nil {
		t.Fatal(err)
	}
	secrets := secretsOf(t, s)
	found := map[string][]string{}
	for path, text := range d.files() {
		names := holding(t, path, text, secrets)
		if len(names) == 0 {
			continue
		}
		found[path] = names
		info, err := os.Stat(filepath.Join(d.Dir, path))
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != state.SecretFileMode {
			t.Errorf("%s holds %v and has mode %04o", path, names, info.Mode().Perm())
		}
	}
	for path, want := range map[string][]string{
		"master.ign":         {"join token of master"},
		"worker.ign":         {"join token of worker"},
		installer.Kubeconfig: {"private key"},
	} {
		if !slices.Equal(found[path], want) {
			t.Errorf("%s holds %v, want %v", path, found[path], want)
		}
	}
	for _, path := range []string{"bootstrap.ign", installer.StateFile} { // the manifests contain the accounts
		if !slices.Contains(found[path], "BMC password 2") || !slices.Contains(found[path], "private key") {
			t.Errorf("the scan does not find the secrets of %s, only %v", path, found[path])
		}
	}
	for path := range found {
		expected := []string{"bootstrap.ign", "master.ign", "worker.ign", installer.Kubeconfig, installer.StateFile, installer.ConfigFile}
		if !slices.Contains(expected, path) && !strings.Contains(path, "fencing") && !strings.Contains(path, "proxy") && !strings.Contains(path, "pull-secret") {
			t.Errorf("%s holds %v", path, found[path])
		}
	}
}

func TestAManifestWithAPasswordStaysPrivateWhateverAnEditorDoes(t *testing.T) {
	d := newDirectory(t, sitetest.TwoDual)
	d.must(d.Manifests)
	var edited string
	for path, text := range d.files() {
		if filepath.Dir(path) == "manifests" && strings.Contains(decoded(text), "hush-1") {
			edited = filepath.Join(d.Dir, path)
			d.write(path, text+"# mine\n")
		}
	}
	if err := os.Chmod(edited, 0o644); err != nil {
		t.Fatal(err)
	}
	d.must(d.IgnitionConfigs)
	info, err := os.Stat(edited)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != state.SecretFileMode {
		t.Errorf("mode %04o", info.Mode().Perm())
	}
	for path, f := range ignitionFiles(t, d.read("bootstrap.ign")) {
		if strings.Contains(f.data+decoded(f.data), "hush-1") && fs.FileMode(f.mode) != state.SecretFileMode {
			t.Errorf("the host gets %s with mode %04o", path, f.mode)
		}
	}
}

func TestAPointerNamesTheServerTheAuthorityAndTheSecret(t *testing.T) {
	d := newDirectory(t, sitetest.TwoDual)
	d.must(d.IgnitionConfigs)
	s, err := d.Load()
	if err != nil {
		t.Fatal(err)
	}
	for _, role := range []state.Role{state.RoleMaster, state.RoleWorker} {
		cfg, err := ignition.Parse([]byte(d.read(string(role) + ".ign")))
		if err != nil {
			t.Fatal(err)
		}
		merge := cfg.Ignition.Config.Merge
		if len(merge) != 1 || *merge[0].Source != "https://10.98.0.5:22623/config/"+string(role) {
			t.Fatalf("%s: %+v", role, merge)
		}
		token, bearer := strings.CutPrefix(*merge[0].HTTPHeaders[0].Value, "Bearer ")
		claims, err := jointoken.Read(s.Identity.JoinKey, token, jointoken.Config, sitetest.Created.Add(23*time.Hour))
		if !bearer || err != nil || claims.Role != role {
			t.Errorf("%s: the header does not open the role (%v)", role, err)
		}
		ca, err := ignition.Contents(cfg.Ignition.Security.TLS.CertificateAuthorities[0])
		if err != nil || string(ca) != s.Identity.ConfigCA.Cert {
			t.Errorf("%s: the authority is not the configuration server's (%v)", role, err)
		}
		if len(cfg.Storage.Files)+len(cfg.Systemd.Units) != 0 {
			t.Errorf("%s: a pointer brings more than a pointer", role)
		}
	}
}

func TestASingleNodeGetsItsWorkersIgnitionToo(t *testing.T) {
	d := newDirectory(t, sitetest.OneNone)
	wrote := d.must(d.IgnitionConfigs)
	want := []string{"bootstrap.ign", "worker.ign", "auth/kubeconfig", "metadata.json"}
	if !slices.Equal(wrote, want) {
		t.Errorf("wrote %v, want %v", wrote, want)
	}
	host := ignitionFiles(t, d.read(want[0]))[site.Path].data
	own, err := site.Unmarshal([]byte(host))
	if err != nil || own.Role != state.RoleBootstrap {
		t.Errorf("the host's role is %q (%v)", own.Role, err)
	}
}

func TestMetadataNamesTheCluster(t *testing.T) {
	d := newDirectory(t, sitetest.TwoDual)
	d.must(d.IgnitionConfigs)
	s, err := d.Load()
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]string
	if err := json.Unmarshal([]byte(d.read("metadata.json")), &got); err != nil {
		t.Fatal(err)
	}
	if got["clusterName"] != "shop" || got["clusterID"] != s.Identity.ClusterID || got["domain"] != "shop.example.test" || got["infraID"] == "" {
		t.Errorf("got %v", got)
	}
}

func TestTheKubeconfigNamesTheAPIAndTrustsItsAuthorityOnly(t *testing.T) {
	d := newDirectory(t, sitetest.TwoDual)
	d.must(d.IgnitionConfigs)
	s, err := d.Load()
	if err != nil {
		t.Fatal(err)
	}
	c, err := clientcmd.Load([]byte(d.read(installer.Kubeconfig)))
	if err != nil {
		t.Fatal(err)
	}
	cluster := c.Clusters[c.Contexts[c.CurrentContext].Cluster]
	if cluster.Server != "https://api.shop.example.test:6443" || cluster.TLSServerName != "api.shop.example.test" {
		t.Errorf("server %s, certificate of %s", cluster.Server, cluster.TLSServerName)
	}
	if string(cluster.CertificateAuthorityData) != s.Identity.KubernetesCA.Cert || cluster.InsecureSkipTLSVerify {
		t.Error("it trusts another authority")
	}
}
