package plan

import (
	"encoding/json"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func decode(t testing.TB, raw string) Desired {
	t.Helper()
	d, err := read([]byte(raw))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

const site = `{"ignition":{"version":"3.4.0"},
"passwd":{"groups":[{"name":"ops","gid":2000}],
 "users":[{"name":"core","groups":["ops"],"shell":"/bin/bash","passwordHash":"$6$secrethash","sshAuthorizedKeys":["ssh-ed25519 AAAA me","ssh-ed25519 BBBB you"]}]},
"storage":{"directories":[{"path":"/var/lib/x/y","mode":448},{"path":"/var/lib/x","user":{"name":"core"}}],
 "files":[{"path":"/etc/secret.key","mode":384,"overwrite":true,"contents":{"source":"data:,TOPSECRET"}},
  {"path":"/etc/motd","mode":420,"overwrite":true,"contents":{"source":"data:,hello%0Aworld%0A"}},
  {"path":"/etc/profile","append":[{"source":"data:,export%20A%3D1%0A"}]},
  {"path":"/etc/touched","mode":416},
  {"path":"/etc/apt/sources.list.d/x.list","contents":{"source":"data:,deb"}},
  {"path":"/etc/holdfast/packages.json","contents":{"source":"data:,%7B%22apt%22%3A%5B%22podman%22%2C%22nftables%22%5D%7D"}}],
 "links":[{"path":"/etc/localtime","target":"../usr/share/zoneinfo/UTC","overwrite":true},{"path":"/etc/hard","target":"/etc/motd","hard":true}]},
"systemd":{"units":[
 {"name":"a.service","enabled":true,"contents":"[Service]\nType=oneshot\n[Install]\nWantedBy=multi-user.target\n","dropins":[{"name":"10-x.conf","contents":"[Service]\nB=1\n"}]},
 {"name":"swap.target","mask":true},{"name":"old.service","enabled":false},{"name":"was.service","mask":false},
 {"name":"ssh.service","enabled":true}]}}`

func siteHost() Observed {
	return Observed{
		Live: true,
		Nodes: map[string]Node{
			"/etc/motd":                       {Kind: KindFile, Mode: 0o644, Data: []byte("hello\nthere\n")},
			"/etc/secret.key":                 {Kind: KindFile, Mode: 0o644, Data: []byte("OLDSECRET")},
			"/etc/profile":                    {Kind: KindFile, Mode: 0o644, Data: []byte("# profile\n"), UID: 7},
			"/etc/localtime":                  {Kind: KindLink, Target: "/usr/share/zoneinfo/CET"},
			"/etc/systemd/system/was.service": {Kind: KindLink, Target: "/dev/null"},
		},
		Groups: map[string]int{"root": 0},
		Users:  map[string]Account{"root": {Home: "/root"}},
		Units: map[string]UnitState{
			"a.service": {Enabled: "not-found"}, "swap.target": {Enabled: "static", Active: "active"},
			"old.service": {Enabled: "enabled"}, "ssh.service": {Enabled: "enabled", Active: "active"},
		},
		Packages: PackageState{Manager: "apt", Missing: []string{"podman", "nftables"}},
	}
}

func TestAWholeHostIsPlannedAsTheGoldenSays(t *testing.T) {
	p, err := Make(decode(t, site), siteHost(), Options{Start: true})
	if err != nil {
		t.Fatal(err)
	}
	p.Hash = "(hash)"
	got, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"TOPSECRET", "OLDSECRET", "secrethash"} {
		if strings.Contains(string(got), secret) {
			t.Errorf("the plan tells %s", secret)
		}
	}
	path := filepath.Join("testdata", "site.json")
	if *update {
		if err := os.WriteFile(path, append(got, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)+"\n"); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestARunCutAtAnyStepIsFinishedByTheNext(t *testing.T) {
	m := settle(t, decode(t, site), siteHost())
	if m == nil {
		t.Fatal("not planned")
	}
	want := map[string]string{
		"/etc/motd": "hello\nworld\n", "/etc/profile": "# profile\nexport A=1\n", "/etc/secret.key": "TOPSECRET", "/etc/touched": "",
	}
	for p, data := range want {
		if got := string(m.Nodes[p].Data); got != data {
			t.Errorf("%s: %q, want %q", p, got, data)
		}
	}
	if n := m.Nodes["/etc/profile"]; n.UID != 7 || n.Mode != 0o644 {
		t.Errorf("an appended file changed its owner or mode: %+v", n)
	}
	if n := m.Nodes["/etc/secret.key"]; n.Mode != 0o600 {
		t.Errorf("mode of the key: %o", n.Mode)
	}
	if n := m.Nodes["/home/core/.ssh"]; n.Mode != 0o700 || n.UID != m.Users["core"].UID {
		t.Errorf("core's .ssh: %+v", n)
	}
}

const head = `{"ignition":{"version":"3.5.0"},`

// one wraps an item into a configuration.
func one(section, list, item string) string {
	return head + `"` + section + `":{"` + list + `":[` + item + `]}}`
}

func TestOneThingLeadsToTheseSteps(t *testing.T) {
	file := func(data string) Node { return Node{Kind: KindFile, Mode: 0o644, Data: []byte(data)} }
	replace := one("storage", "files", `{"path":"/f","overwrite":true,"contents":{"source":"data:,new"}}`)
	keep := one("storage", "files", `{"path":"/f","contents":{"source":"data:,new"}}`)
	touch := one("storage", "files", `{"path":"/f"}`)
	add := one("storage", "files", `{"path":"/f","append":[{"source":"data:,b"}]}`)
	dir := one("storage", "directories", `{"path":"/d","mode":493}`)
	link := one("storage", "links", `{"path":"/l","target":"t"}`)
	unit := one("systemd", "units", `{"name":"a.service","enabled":true,"contents":"[Service]\nA=1\n[Install]\nWantedBy=x\n"}`)
	unitFile := file("[Service]\nA=1\n[Install]\nWantedBy=x\n")
	user := one("passwd", "users", `{"name":"core","sshAuthorizedKeys":["k1"]}`)
	core := map[string]Account{"core": {UID: 1000, GID: 1000, Home: "/h"}}
	at := func(p string, n Node) map[string]Node { return map[string]Node{p: n} }
	tests := []struct {
		name   string
		config string
		host   Observed
		want   string // ids of steps, or the fault
	}{
		{"a file that is absent is written", replace, Observed{}, "file:/f"},
		{"the same file is left alone", replace, Observed{Nodes: at("/f", file("new"))}, ""},
		{"another file is replaced", replace, Observed{Nodes: at("/f", file("old"))}, "file:/f"},
		{"a link is replaced by a file", replace, Observed{Nodes: at("/f", Node{Kind: KindLink, Target: "x"})}, "file:/f"},
		{"a directory is not", replace, Observed{Nodes: at("/f", Node{Kind: KindDirectory})}, "!storage.files.0: /f is a directory"},
		{"a wider mode is narrowed", one("storage", "files", `{"path":"/f","mode":384,"overwrite":true,"contents":{"source":"data:,new"}}`), Observed{Nodes: at("/f", file("new"))}, "mode:/f"},
		{"another owner is corrected", replace, Observed{Nodes: at("/f", Node{Kind: KindFile, Mode: 0o644, Data: []byte("new"), UID: 5})}, "mode:/f"},
		{"a file that may not be overwritten", keep, Observed{Nodes: at("/f", file("old"))}, "!storage.files.0: /f has other contents"},
		{"the same file may", keep, Observed{Nodes: at("/f", file("new"))}, ""},
		{"a link that may not be overwritten", keep, Observed{Nodes: at("/f", Node{Kind: KindLink})}, "!storage.files.0: /f is a link"},
		{"a file below a file of the host", replace, Observed{Nodes: at("/f", Node{Blocked: "/x"})}, "!storage.files.0: /f cannot be created: /x is not a directory"},
		{"an existing file needs no contents", touch, Observed{Nodes: at("/f", Node{Kind: KindFile, Mode: 0o600, UID: 3, Data: []byte("x")})}, ""},
		{"an absent one becomes empty", touch, Observed{}, "file:/f"},
		{"a fragment is appended", add, Observed{Nodes: at("/f", file("a"))}, "file:/f"},
		{"a fragment is appended once", add, Observed{Nodes: at("/f", file("ab\nc"))}, ""},
		{"a directory that is absent", dir, Observed{}, "directory:/d"},
		{"a directory that is there", dir, Observed{Nodes: at("/d", Node{Kind: KindDirectory, Mode: 0o755, UID: 9})}, ""},
		{"a directory with another mode", dir, Observed{Nodes: at("/d", Node{Kind: KindDirectory, Mode: 0o700})}, "directory:/d"},
		{"a directory that is a file", dir, Observed{Nodes: at("/d", file(""))}, "!storage.directories.0: /d is a file"},
		{"a link that is absent", link, Observed{}, "link:/l"},
		{"the same link", link, Observed{Nodes: at("/l", Node{Kind: KindLink, Target: "t"})}, ""},
		{"another link, without overwrite", link, Observed{Nodes: at("/l", Node{Kind: KindLink, Target: "u"})}, "!storage.links.0: /l is another link"},
		{"an owner that nobody adds", one("storage", "files", `{"path":"/f","user":{"name":"who"}}`), Observed{}, `!storage.files.0.user: this host has no user "who"`},
		{"a new unit", unit, Observed{Live: true, Units: map[string]UnitState{"a.service": {Enabled: "not-found"}}}, "file:/etc/systemd/system/a.service enable:a.service reload start:a.service"},
		{"a unit that runs", unit, Observed{Live: true, Nodes: at("/etc/systemd/system/a.service", unitFile), Units: map[string]UnitState{"a.service": {Enabled: "enabled", Active: "active"}}}, ""},
		{"a unit that failed", unit, Observed{Live: true, Nodes: at("/etc/systemd/system/a.service", unitFile), Units: map[string]UnitState{"a.service": {Enabled: "enabled", Active: "failed"}}}, "start:a.service"},
		{"a unit that changed while it runs", unit, Observed{Live: true, Nodes: at("/etc/systemd/system/a.service", file("")), Units: map[string]UnitState{"a.service": {Enabled: "enabled", Active: "active"}}}, "file:/etc/systemd/system/a.service enable:a.service reload"},
		{"a unit that systemd has not read", unit, Observed{Live: true, Nodes: at("/etc/systemd/system/a.service", unitFile), Units: map[string]UnitState{"a.service": {Enabled: "enabled", Active: "active", Stale: true}}}, "reload"},
		{"a unit after a cut", unit, Observed{Live: true, Journal: Journal{InProgress: "x"}, Nodes: at("/etc/systemd/system/a.service", unitFile), Units: map[string]UnitState{"a.service": {Enabled: "enabled", Active: "active"}}}, "enable:a.service reload"},
		{"a unit of another root is not started", unit, Observed{}, "file:/etc/systemd/system/a.service enable:a.service"},
		{"a template is not started", one("systemd", "units", `{"name":"a@.service","enabled":true}`), Observed{Live: true}, "enable:a@.service"},
		{"a unit that is masked here", one("systemd", "units", `{"name":"a.service","enabled":true}`), Observed{Nodes: at("/etc/systemd/system/a.service", Node{Kind: KindLink, Target: "/dev/null"})}, "!systemd.units.0: a.service is masked on this host; to enable it unmask it (systemctl unmask a.service), or set mask to false"},
		{"a unit unmasked and enabled", one("systemd", "units", `{"name":"a.service","enabled":true,"mask":false}`), Observed{Nodes: at("/etc/systemd/system/a.service", Node{Kind: KindLink, Target: "/dev/null"})}, "unmask:a.service enable:a.service"},
		{"a running unit is masked and stopped", one("systemd", "units", `{"name":"a.service","mask":true}`), Observed{Live: true, Units: map[string]UnitState{"a.service": {Active: "active"}}}, "mask:a.service reload stop:a.service"},
		{"a static unit needs no enabling", one("systemd", "units", `{"name":"a.service","enabled":true}`), Observed{Units: map[string]UnitState{"a.service": {Enabled: "static"}}}, ""},
		{"keys for a user who is there", user, Observed{Users: core}, "directory:/h directory:/h/.ssh keys:core"},
		{"keys that are there", user, Observed{Users: core, Nodes: map[string]Node{
			"/h":                      {Kind: KindDirectory},
			"/h/.ssh":                 {Kind: KindDirectory, Mode: 0o700, UID: 1000, GID: 1000},
			"/h/.ssh/authorized_keys": {Kind: KindFile, Mode: 0o600, UID: 1000, GID: 1000, Data: mergeKeys([]byte("own\n"), User{Keys: []string{"k1"}})},
		}}, ""},
		{"a key that was withdrawn", one("passwd", "users", `{"name":"core"}`), Observed{Users: core, Nodes: map[string]Node{
			"/h":                      {Kind: KindDirectory},
			"/h/.ssh":                 {Kind: KindDirectory, Mode: 0o700, UID: 1000, GID: 1000},
			"/h/.ssh/authorized_keys": {Kind: KindFile, Mode: 0o600, UID: 1000, GID: 1000, Data: mergeKeys([]byte("own\n"), User{Keys: []string{"k1"}})},
		}}, "keys:core"},
		{"keys behind a link that the user made", user, Observed{Users: core, Nodes: at("/h/.ssh/authorized_keys", Node{Kind: KindLink, Target: "/etc/shadow"})}, "!passwd.users.0.sshAuthorizedKeys: /h/.ssh/authorized_keys is a link"},
		{"a user with another number", one("passwd", "users", `{"name":"core","uid":5}`), Observed{Users: core}, "!passwd.users.0.uid: user \"core\" has the number 1000"},
		{"a user in a group that nobody adds", one("passwd", "users", `{"name":"core","groups":["who"]}`), Observed{}, "!passwd.users.0.groups: this host has no group \"who\""},
		{"a user who shall not be", one("passwd", "users", `{"name":"core","shouldExist":false}`), Observed{Users: core}, "!passwd.users.0: user \"core\" exists"},
		{"a user who is not, and shall not be", one("passwd", "users", `{"name":"core","shouldExist":false}`), Observed{}, ""},
		{"a user changes shell and groups", one("passwd", "users", `{"name":"core","shell":"/bin/zsh","groups":["ops"]}`), Observed{Users: core, Groups: map[string]int{"ops": 3}}, "user:core directory:/h"},
		{"a temporary file left by a cut", replace, Observed{Journal: Journal{InProgress: "x"}, Nodes: at("/f", Node{Kind: KindFile, Mode: 0o644, Data: []byte("new"), Leftovers: []string{"/.f.123"}})}, "remove:/.f.123"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := decode(t, tt.config)
			p, err := Make(d, tt.host, Options{Start: true})
			got := ids(p)
			if err != nil {
				got = "!" + err.Error()
			}
			if fault := strings.HasPrefix(tt.want, "!"); fault && !strings.HasPrefix(got, tt.want) || !fault && got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			settle(t, d, tt.host)
		})
	}
}

func ids(p Plan) string {
	var out []string
	for _, s := range p.Steps {
		out = append(out, s.ID)
	}
	return strings.Join(out, " ")
}

func TestOneShotsRunOncePerConfiguration(t *testing.T) {
	d := decode(t, one("systemd", "units", `{"name":"a.service","enabled":true}`))
	done := UnitState{Enabled: "enabled", Active: "inactive", Type: "oneshot"}
	skipped := UnitState{Enabled: "enabled", Active: "inactive", Type: "simple", Skipped: true}
	failed := UnitState{Enabled: "enabled", Active: "failed", Type: "oneshot"}
	stopped := UnitState{Enabled: "enabled", Active: "inactive", Type: "simple"}
	tests := []struct {
		name    string
		unit    UnitState
		started string
		want    string
	}{
		{"not started for this configuration", done, "other", "start:a.service"},
		{"ended well", done, d.Hash, ""},
		{"condition unmet", skipped, d.Hash, ""},
		{"failed", failed, d.Hash, "start:a.service"},
		{"stopped by somebody", stopped, d.Hash, "start:a.service"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := Observed{Live: true, Units: map[string]UnitState{"a.service": tt.unit}, Journal: Journal{Started: tt.started}}
			p, err := Make(d, o, Options{Start: true})
			if err != nil || ids(p) != tt.want {
				t.Errorf("got %q, %v, want %q", ids(p), err, tt.want)
			}
		})
	}
}

func TestPackagesAreInstalledOrNamedInOneMessage(t *testing.T) {
	d := decode(t, one("storage", "files", `{"path":"/etc/holdfast/packages.json","mode":420,"contents":{"source":"data:,%7B%22apt%22%3A%5B%22b%22%2C%22a%22%5D%2C%22dnf%22%3A%5B%22c%22%5D%7D"}}`))
	nodes := map[string]Node{PackagesFile: {Kind: KindFile, Mode: 0o644, Data: d.Files[0].Contents}}
	tests := []struct {
		name  string
		live  bool
		state PackageState
		skip  bool
		want  string
	}{
		{"missing", true, PackageState{Manager: "apt", Missing: []string{"b", "a"}}, false, "packages"},
		{"installed", true, PackageState{Manager: "apt"}, false, ""},
		{"skipped", true, PackageState{Manager: "apt", Missing: []string{"b", "a"}}, true, "packages not installed, as requested: a b"},
		{"no manager", true, PackageState{}, false, "neither apt nor dnf; install a b c by its own means"},
		{"another root", false, PackageState{}, false, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, err := Make(d, Observed{Live: tt.live, Nodes: nodes, Packages: tt.state}, Options{SkipPackages: tt.skip})
			got := ids(p) + strings.Join(p.Notes, "")
			if err != nil {
				got = err.Error()
			}
			if !strings.Contains(got, tt.want) || tt.want == "" && got != "" {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestADiffNeverShowsWhatTheModeHides(t *testing.T) {
	tests := []struct {
		name     string
		old, new fs.FileMode
		hidden   bool
	}{
		{"both open", 0o644, 0o644, false},
		{"new secret", 0o644, 0o600, true},
		{"old secret", 0o400, 0o644, true},
		{"group may read", 0o640, 0o640, false},
		{"nobody may", 0o644, 0, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := fileDiff("/f", Node{Kind: KindFile, Data: []byte("OLD\n"), Mode: tt.old}, []byte("NEW\n"), tt.new)
			if shown := strings.Contains(got, "OLD") || strings.Contains(got, "NEW"); shown == tt.hidden {
				t.Errorf("got %s", got)
			}
		})
	}
	if got := fileDiff("/f", Node{}, []byte("a\x00b"), 0o644); !strings.HasPrefix(got, "binary contents: absent -> sha256:") {
		t.Errorf("binary: %s", got)
	}
	long := fileDiff("/f", Node{}, []byte(strings.Repeat("x\n", 1000)), 0o644)
	if n := strings.Count(long, "\n"); n > maxDiffLines+3 || !strings.Contains(long, "more lines") {
		t.Errorf("a long diff has %d lines", n)
	}
}

func TestPathsNameAllThatAPlanLooksAt(t *testing.T) {
	d := decode(t, site)
	o := siteHost()
	m := settle(t, d, o)
	seen := map[string]bool{}
	for _, p := range d.Paths(o.Users) {
		seen[p] = true
	}
	for _, p := range m.paths() {
		if !seen[p] {
			t.Errorf("%s is written and not looked at", p)
		}
	}
}

func TestKeysOfTwoConfigurationsStayApart(t *testing.T) {
	install, pool := User{Keys: []string{"k1"}}, User{Keys: []string{"k2"}, KeysOf: "its pool"}
	both := mergeKeys(mergeKeys([]byte("own\n"), install), pool)
	for _, want := range []string{"own\n", "k1\n", "k2\n"} {
		if !strings.Contains(string(both), want) {
			t.Errorf("%s is not in\n%s", want, both)
		}
	}
	pool.Keys = nil
	if got := mergeKeys(both, pool); string(got) != string(mergeKeys([]byte("own\n"), install)) {
		t.Errorf("without the keys of the pool:\n%s", got)
	}
}
