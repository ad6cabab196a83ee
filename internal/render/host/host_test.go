package host

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/model/ignition"
	"github.com/holdfast/holdfast/internal/model/payload"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/golden"
	"github.com/holdfast/holdfast/internal/testkit/sitetest"
)

// certificate is PEM but no real certificate: nothing here parses it.
const certificate = "-----BEGIN CERTIFICATE-----\nTUlJ\n-----END CERTIFICATE-----\n"

// fixed returns a site with readable words as its keys.
func fixed(t *testing.T, config string) *site.Site {
	t.Helper()
	s := sitetest.New(t, config)
	pair := func(name string) site.KeyPair { return site.KeyPair{Cert: name + " certificate", Key: name + " key"} }
	id := &s.Identity
	id.KubernetesCA, id.EtcdCA, id.FrontProxyCA = pair("kubernetes"), pair("etcd"), pair("front-proxy")
	id.ConfigCA, id.Admin, id.ServiceSigner = pair("config"), pair("admin"), pair("service")
	id.AdmissionToken = "admission-secret"
	if strings.HasPrefix(config, everything) {
		s.Config.AdditionalTrustBundle = "one\n" + certificate + "two\n" + certificate
	}
	return s
}

// readable formats a configuration for people.
func readable(c ignition.Config) []byte {
	var out bytes.Buffer
	files := slices.Clone(c.Files)
	state.SortFiles(files)
	for _, f := range files {
		fmt.Fprintf(&out, "== file %s %04o\n%s\n", f.Path, f.Perm(), strings.TrimSuffix(string(f.Data), "\n"))
	}
	for _, l := range c.Links {
		fmt.Fprintf(&out, "== link %s -> %s\n", l.Path, l.Target)
	}
	for _, u := range c.Units {
		fmt.Fprintf(&out, "== unit %s enabled=%t\n%s\n", u.Name, u.Enabled, strings.TrimSuffix(u.Contents, "\n"))
		for _, d := range u.Dropins {
			fmt.Fprintf(&out, "== drop-in %s/%s\n%s\n", u.Name, d.Name, strings.TrimSuffix(d.Contents, "\n"))
		}
	}
	for _, u := range c.Users {
		fmt.Fprintf(&out, "== user %s groups=%v keys=%q\n", u.Name, u.Groups, u.SSHAuthorizedKeys)
	}
	return out.Bytes()
}

// everything is a site with every field that a host's configuration uses.
const everything = sitetest.TwoDual + `releaseRegistry: mirror.example.test:5000/holdfast/release
pullSecret: '{"auths":{"mirror.example.test:5000":{"auth":"YTptaXJyb3I="},"other.example.test":{"auth":"YTpvdGhlcg=="}}}'
sshKey: |
  # keys of the night shift
  ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBQNg090fBC0mZZyXXIh9UtevyndLRsLR/BSbUmqcWFy one@example.test
proxy: {httpProxy: "http://clerk:hush-proxy@10.98.0.9:3128", noProxy: ".example.org"}
rendezvousIP: 10.98.0.11
`

func TestARolesConfigurationMatchesTheApprovedFile(t *testing.T) {
	manifests := []state.File{{Path: "manifests/a.yaml", Data: []byte("kind: A\n")}}
	for name, c := range map[string]struct {
		config string
		role   state.Role
	}{
		"one-none-bootstrap.txt":   {sitetest.OneNone, state.RoleBootstrap},
		"one-none-worker.txt":      {sitetest.OneNone, state.RoleWorker},
		"two-dual-master.txt":      {sitetest.TwoDual, state.RoleMaster},
		"everything-bootstrap.txt": {everything, state.RoleBootstrap},
		"everything-worker.txt":    {everything, state.RoleWorker},
		"three-v6-worker.txt":      {sitetest.ThreeV6, state.RoleWorker},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Config(fixed(t, c.config), c.role, manifests)
			if err != nil {
				t.Fatal(err)
			}
			golden.Check(t, name, readable(got))
			if _, err := ignition.Marshal(got, ignition.Newest); err != nil {
				t.Errorf("not an Ignition: %v", err)
			}
		})
	}
}

// TestWhatAReleaseBringsToAHostIsOfNoSite: an upgrade changes these files where nobody else did, so
// none of them holds a secret, or what a site chose and a MachineConfig may have set since.
func TestWhatAReleaseBringsToAHostIsOfNoSite(t *testing.T) {
	for name, c := range map[string]struct {
		config string
		role   state.Role
	}{
		"of-release-pair.txt": {sitetest.TwoDual, state.RoleMaster}, "of-release-master.txt": {everything, state.RoleMaster}, "of-release-worker.txt": {everything, state.RoleWorker},
	} {
		s := fixed(t, c.config)
		s.Role = c.role
		files, err := OfRelease(s)
		if err != nil {
			t.Fatal(err)
		}
		var paths strings.Builder
		for _, f := range files {
			fmt.Fprintf(&paths, "%04o %s\n", f.Perm(), f.Path)
			for _, secret := range []string{"hush", "secret", " key", "CERTIFICATE", "ssh-ed25519"} {
				if !strings.HasPrefix(f.Path, "/etc/") { // nothing else is the agent's to write
					t.Errorf("%s", f.Path)
				}
				if strings.Contains(string(f.Data), secret) {
					t.Errorf("%s has %s", f.Path, secret)
				}
			}
			if f.Perm() != state.DefaultFileMode {
				t.Errorf("%s has mode %04o", f.Path, f.Perm())
			}
		}
		golden.Check(t, name, []byte(paths.String()))
	}
}

// TestAUnitOfOursIsEnabledIfItSaysByWhom: an upgrade has nothing but the files of a release, and leaves
// enabled what the installer of that release enables (hostfiles.File.Installs).
func TestAUnitOfOursIsEnabledIfItSaysByWhom(t *testing.T) {
	for _, role := range []state.Role{state.RoleBootstrap, state.RoleMaster, state.RoleWorker} {
		c, err := Config(fixed(t, sitetest.TwoDual), role, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, u := range c.Units {
			if says := strings.Contains(u.Contents, "\n[Install]\n"); u.Enabled != says {
				t.Errorf("%s, %s: enabled %v, and it says by whom it is wanted: %v", role, u.Name, u.Enabled, says)
			}
		}
	}
}

func TestOnlyTheFirstHostGetsManifests(t *testing.T) {
	manifests := []state.File{{Path: "manifests/a.yaml", Data: []byte("kind: A\n"), Mode: 0o644}}
	for role, want := range map[state.Role]int{state.RoleBootstrap: 1, state.RoleMaster: 0, state.RoleWorker: 0} {
		c, err := Config(fixed(t, sitetest.TwoDual), role, manifests)
		if err != nil {
			t.Fatal(err)
		}
		got := 0
		for _, f := range c.Files {
			if strings.HasPrefix(f.Path, ManifestDir) {
				got++
				if f.Perm() != state.SecretFileMode {
					t.Errorf("%s has mode %04o: a manifest may hold a password", f.Path, f.Perm())
				}
			}
		}
		if got != want {
			t.Errorf("%s: %d manifests, want %d", role, got, want)
		}
	}
}

func TestContainerdsConfigurationMatchesTheApprovedFile(t *testing.T) {
	for name, facts := range map[string]state.HostFacts{
		"containerd.toml":            {},
		"containerd-restricted.toml": {RestrictOOM: true, CgroupV1: true},
	} {
		golden.Check(t, name, Containerd(facts))
		if got := Sandbox(Containerd(facts)); got != payload.Image("pause") {
			t.Errorf("%s: sandboxes are made of %q", name, got)
		}
	}
}

// TestUnitsAreWhatSystemdUnderstands lets systemd itself read the units. It
// replaces the programs that they start, because a test machine has none of
// them.
func TestUnitsAreWhatSystemdUnderstands(t *testing.T) {
	tool, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd-analyze is not installed: units are not checked")
	}
	c, err := Config(fixed(t, everything), state.RoleBootstrap, nil)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	programs := strings.NewReplacer("ExecStart=/usr/local/bin/", "ExecStart=/bin/true ", "ExecStart=/usr/sbin/", "ExecStart=/bin/true ",
		"ExecStart=/usr/lib/holdfast/", "ExecStart=/bin/true ", "ExecStart=/usr/lib/ocf/", "ExecStart=/bin/true ")
	var paths []string
	for _, u := range c.Units {
		path := filepath.Join(dir, u.Name)
		if u.Contents == "" { // a unit of the distribution: create something to which the drop-ins belong
			u.Contents = "[Service]\nExecStart=/bin/true\n"
		}
		write(t, path, programs.Replace(u.Contents))
		for _, d := range u.Dropins {
			write(t, filepath.Join(path+".d", d.Name), d.Contents)
		}
		paths = append(paths, path)
	}
	args := append([]string{"verify", "--man=no", "--recursive-errors=no"}, paths...)
	cmd := exec.CommandContext(t.Context(), tool, args...)
	cmd.Env = append(os.Environ(), "SYSTEMD_UNIT_PATH="+dir+":")
	out, err := cmd.CombinedOutput()
	if err != nil || strings.Contains(string(out), dir) {
		t.Errorf("systemd-analyze: %v\n%s", err, out)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
