package machineconfig_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/holdfast/holdfast/internal/decide/machineconfig"
)

// values are all kinds of values that a setting of a mirror may be given, in TOML.
var values = map[string]string{
	"no text": `""`, "a word": `"pull"`, "a path": `"/etc/a.crt"`, "a time": `"2s"`, "no time": `"0s"`, "a time ago": `"-2s"`, "a text of NUL": `"a\u0000"`,
	"true": `true`, "a number": `3`, "a date": `2026-11-23`,
	"no list": `[]`, "words": `["pull", "RESOLVE"]`, "wrong words": `["pull", "delete"]`, "paths": `["/a", "b"]`, "a list with nothing": `["/a", ""]`, "a list with NUL": `["/a", "b\u0000"]`,
	"a list of two kinds": `["/a", 1]`, "numbers": `[1, 2]`, "pairs": `[["/a", "/b"], ["c", "d"]]`, "a pair and a path": `[["/a", "/b"], "c"]`, "half a pair": `[["/a"]]`, "three": `[["a", "b", "c"]]`,
	"a pair with nothing": `[["a", ""]]`, "a pair with NUL": `[["a", "b\u0000"]]`, "a pair of two kinds": `[["a", 1]]`,
	"no table": `{}`, "a header": `{x-a = "1"}`, "headers": `{x-a = ["1", "2"], y = "z"}`, "a wrong header": `{"a b" = "1"}`, "a header of two lines": `{a = "b\nc"}`, "a header with a number": `{a = 1}`,
	"a header with a list of two kinds": `{a = ["b", 1]}`, "a header with a wrong list": `{a = ["b", "c\u0007"]}`,
}

// takes lists the values that containerd takes of each setting.
var takes = map[string][]string{
	"capabilities":  {"no list", "words"},
	"ca":            {"a word", "a path", "a time", "no time", "a time ago", "no list", "words", "wrong words", "paths"},
	"client":        {"a word", "a path", "a time", "no time", "a time ago", "no list", "words", "wrong words", "paths", "pairs", "a pair and a path"},
	"skip_verify":   {"true"},
	"override_path": {"true"},
	"dial_timeout":  {"a time"},
	"header":        {"no table", "a header", "headers"},
	"rewrite":       nil,
}

// TestASettingOfAMirrorTakesWhatContainerdTakes gives each setting each kind of value, for
// the registry itself and for a mirror. containerd ignores the whole file for one that
// it does not take.
func TestASettingOfAMirrorTakesWhatContainerdTakes(t *testing.T) {
	for name, good := range takes {
		for kind, value := range values {
			for where, text := range map[string]string{
				name:                            fmt.Sprintf("%s = %s\n", name, value),
				`host."https://m:5000".` + name: fmt.Sprintf("[host.\"https://m:5000\"]\n%s = %s\n", name, value),
			} {
				got := mirror(t, registry, secret, text)
				if slices.Contains(good, kind) != (got == "") || got != "" && !strings.Contains(got, ".contents: "+where) {
					t.Errorf("%s is %s: %q", where, kind, got)
				}
			}
		}
		for _, kind := range good {
			if values[kind] == "" {
				t.Errorf("there is no value %q", kind)
			}
		}
	}
}

// TestAnAddressOfARegistryIsOneThatContainerdAsks has each scheme with each host and each
// of what may follow. containerd takes one without a scheme for https.
func TestAnAddressOfARegistryIsOneThatContainerdAsks(t *testing.T) {
	schemes := map[string]bool{"": true, "https://": true, "http://": true, "ftp://": false, "oci://": false, "https:": false, "//": false}
	hosts := map[string]bool{"m.example": true, "m": true, "10.0.0.1": true, "[fd00::1]": true, "": false, "a b": false, `a\\b`: false, "fd00::1": false}
	rests := map[string]string{"": "", ":5000": "", "/v2": "", ":5000/v2/a": "", "?a=b": "query", "#a": "fragment", ":port": "wrong"}
	for scheme, ofScheme := range schemes {
		for host, ofHost := range hosts {
			for rest, with := range rests {
				for _, user := range []string{"", "joe@", "joe:hunter2@"} {
					address := scheme + user + host + rest
					if strings.HasPrefix(address, "http") && scheme == "" || address == "" {
						continue // an empty server is none
					}
					for _, text := range []string{fmt.Sprintf("server = \"%s\"\n", address), fmt.Sprintf("[host.\"%s\"]\n", address)} {
						got := mirror(t, registry, secret, text)
						good := ofScheme && ofHost && with == "" && user == ""
						if good != (got == "") || strings.Contains(got, "hunter2") {
							t.Errorf("%s: %q", strings.TrimSpace(text), got)
						}
						if !ofScheme || !ofHost || with == "wrong" {
							continue
						}
						if user != "" && !strings.Contains(got, "has an account") || user == "" && with != "" && !strings.Contains(got, "has a query or a fragment") {
							t.Errorf("%s: %q", strings.TrimSpace(text), got)
						}
					}
				}
			}
		}
	}
	if got := mirror(t, registry, secret, "server = \"\"\n"); got != "" {
		t.Errorf("no server: %s", got)
	}
}

// TestAFolderOfMirrorsHasTheNameOfARegistry: containerd looks for no other one.
func TestAFolderOfMirrorsHasTheNameOfARegistry(t *testing.T) {
	names := map[string]bool{
		"_default": true, "a": true, "a.example": true, "a-b.example": true, "A.example": true, "10.0.0.1": true, "[fd00::1]": true, "[::1]": true,
		"_other": false, "a_b": false, "-a": false, "a-": false, ".a": false, "a.": false, "fd00::1": false, "[fd00::g]": false, "[]": false, "a..b": true, "https:": false, "a@b": false, "ä.example": false,
	}
	for name, good := range names {
		for _, port := range []string{"", ":5000", "_5000_", ":1", ":65535", ":", ":123456", ":a", "_5000", "__", "_123456_", ":5000_"} {
			fits := good && (port == "" || name != "_default" && slices.Contains([]string{":5000", "_5000_", ":1", ":65535"}, port))
			for _, file := range []string{"hosts.toml", "ca.crt"} {
				got := mirror(t, "/etc/containerd/certs.d/"+name+port+"/"+file, secret, "")
				if fits != (got == "") || !fits && !strings.Contains(got, "is not the name of a registry") {
					t.Errorf("%s%s/%s: %q", name, port, file, got)
				}
			}
		}
	}
}

// TestAFileOfMirrorsLiesWhereContainerdReadsIt: one of TOML in any other place is a
// mistake; certificates may lie anywhere in the folder of a registry.
func TestAFileOfMirrorsLiesWhereContainerdReadsIt(t *testing.T) {
	const below = "/etc/containerd/certs.d/"
	for path, want := range map[string]string{
		below + "a/hosts.toml":       "",
		below + "a/ca.crt":           "",
		below + "a/b/ca.crt":         "",
		below + "ca.crt":             "",
		below + "hosts.toml":         "containerd does not read",
		below + "a.toml":             "containerd does not read",
		below + "a/host.toml":        "containerd does not read",
		below + "a/hosts.toml.toml":  "containerd does not read",
		below + "a/b/hosts.toml":     "containerd does not read",
		below + "a/hosts.toml/a":     "",
		below + "a b/ca.crt":         "is not the name of a registry",
		below + "a b/host.toml":      "containerd does not read",
		"/opt/certs.d/a/hosts.toml":  "",
		"/opt/certs.d/a b/host.toml": "",
	} {
		got := mirror(t, path, secret, "")
		if want == "" != (got == "") || !strings.Contains(got, want) || got != "" && !strings.Contains(got, "spec.config.storage.files.0.path: ") {
			t.Errorf("%s: %q", path, got)
		}
		// What containerd does not read is not looked at.
		wrong := mirror(t, path, secret, "server = 1\n")
		read := path == below+"a/hosts.toml"
		if read != strings.Contains(wrong, ".contents: server: ") {
			t.Errorf("%s, and it is wrong: %q", path, wrong)
		}
	}
}

// TestAMirrorHasATableOfItsOwn: containerd takes the order of mirrors from the tables of
// the file, and does not see one that is written in another form.
func TestAMirrorHasATableOfItsOwn(t *testing.T) {
	for text, unseen := range map[string]int{
		"[host.\"https://a\"]\n":                                               0,
		"[host]\n[host.\"https://a\"]\n":                                       0,
		"[host.\"https://a\"]\n[host.\"https://b\"]\nskip_verify = true\n":     0,
		"[host.\"https://a\".header]\nx = \"y\"\n":                             0,
		"[ host . 'https://a' ]\n":                                             0,
		"[host]\n\"https://a\" = {}\n":                                         1,
		"[host]\n\"https://a\".skip_verify = true\n":                           1,
		"host.\"https://a\".skip_verify = true\n":                              1,
		"host = {\"https://a\" = {}, \"https://b\" = {skip_verify = true}}\n":  2,
		"[header]\nx = \"y\"\n[host.\"https://a\"]\n":                          0,
		"# [host.\"https://a\"]\n[host]\n\"https://a\" = {}\n":                 1,
		"[host]\n\"https://a\" = {}\n[host.\"https://b\"]\noverride_path=true": 1,
	} {
		got := mirror(t, registry, secret, text)
		if n := strings.Count(got, "containerd sees no mirror that has no table of its own"); n != unseen || unseen == 0 && got != "" {
			t.Errorf("%q: %d, want %d: %s", text, n, unseen, got)
		}
	}
	for text, want := range map[string]string{
		"host = 1\n":               "host: is not a table",
		"host = [\"https://a\"]\n": "host: is not a table",
		"[[host]]\na = 1\n":        "host: is not a table",
		"[[host.\"https://a\"]]\n": "host.\"https://a\": is not a table",
		"[host]\na = true\n":       "host.\"a\": is not a table",
	} {
		if got := mirror(t, registry, secret, text); !strings.Contains(got, want) {
			t.Errorf("%q: %q, want %s", text, got, want)
		}
	}
}

// TestEachMistakeOfAFileWithMirrorsIsTold: all at once, in the order of their keys.
func TestEachMistakeOfAFileWithMirrorsIsTold(t *testing.T) {
	var text strings.Builder
	var want []string
	for _, name := range slices.Sorted(maps.Keys(takes)) {
		fmt.Fprintf(&text, "%s = 1\n", name)
		want = append(want, name)
	}
	text.WriteString("server = 1\n")
	want = append(want, "server")
	for _, host := range []string{"https://b", "https://a"} {
		fmt.Fprintf(&text, "[host.%q]\nskip_verify = 1\nca = 1\n", host)
	}
	for _, host := range []string{"https://a", "https://b"} {
		for _, name := range []string{"ca", "skip_verify"} {
			want = append(want, fmt.Sprintf("host.%q.%s", host, name))
		}
	}
	slices.SortStableFunc(want, func(a, b string) int {
		top := func(s string) string { s, _, _ = strings.Cut(s, "."); return s }
		return strings.Compare(top(a), top(b))
	})
	var got []string
	for line := range strings.Lines(mirror(t, registry, secret, text.String())) {
		key, _, _ := strings.Cut(strings.TrimPrefix(line, "MachineConfig 50-mirror: spec.config.storage.files.0.contents: "), ": ")
		got = append(got, key)
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q\nwant %q", got, want)
	}
}

// TestWhereAFileWithMirrorsIsWrittenWrongIsTold by its line and column, and never by its
// text.
func TestWhereAFileWithMirrorsIsWrittenWrongIsTold(t *testing.T) {
	for text, at := range map[string]string{
		"server = hunter2\n": "line 1, column ", "\n\nserver = 'hunter2\n": "line 3, column ", "ca = 'a'\nca = 'hunter2'\n": "", "[host\n": "line 1, column ", "= 'hunter2'\n": "line 1, column 1: ", "a = 1 hunter2\n": "line 1, column ",
	} {
		got := mirror(t, registry, secret, text)
		if !strings.Contains(got, ".contents: "+at) || !strings.Contains(got, "cannot be read as TOML") || strings.Contains(got, "hunter2") || strings.Count(got, "\n") != 1 {
			t.Errorf("%q: %q", text, got)
		}
	}
}

// TestInEachModeCredentialsOfAMirrorAreForRootAlone: a header is for a credential, wherever
// it stands, so nobody else reads, writes or runs the file.
func TestInEachModeCredentialsOfAMirrorAreForRootAlone(t *testing.T) {
	for text, has := range map[string]bool{
		"": false, "server = 'https://a'\n": false, "[header]\n": false, "[host.'https://a'.header]\n": false,
		"[header]\nx = 'y'\n": true, "[host.'https://a'.header]\nx = 'y'\n": true, "[host.'https://a']\n[host.'https://b'.header]\nx = ['y']\n": true,
		"[host.'https://a'.header]\n[host.'https://b'.header]\nx = 'y'\n[host.'https://c']\n": true,
	} {
		for mode := range 0o1000 {
			if mode%8 > 1 && mode&0o700 != 0o600 {
				continue // one of each kind is enough
			}
			got := mirror(t, registry, fmt.Sprintf("mode: %d,", mode), text)
			if want := has && mode&0o077 != 0; want != strings.Contains(got, "has headers, which are for credentials") || !want && got != "" {
				t.Errorf("%q with %o: %q", text, mode, got)
			}
		}
	}
}

// TestTheModeOfCredentialsCountsAsItIsMerged: the last MachineConfig that sets it is named.
func TestTheModeOfCredentialsCountsAsItIsMerged(t *testing.T) {
	with := func(name, text string) mcfgv1.MachineConfig {
		return made(t, name, withFiles(fmt.Sprintf(`{path: "%s", %s}`, registry, text)))
	}
	const contents = `contents: {source: "data:,%5Bheader%5D%0Ax%20%3D%20'y'%0A"}`
	for _, c := range []struct {
		first, second string
		by            string
	}{
		{"mode: 384, " + contents, "mode: 420", "20-b"},
		{"mode: 420, " + contents, "mode: 384", ""},
		{"mode: 420", "mode: 384, " + contents, ""},
		{"mode: 384", contents, ""},
		{contents, "mode: 256", ""},
		{contents, contents, "20-b"},
	} {
		_, err := machineconfig.Render("worker", []mcfgv1.MachineConfig{with("10-a", c.first), with("20-b", c.second)})
		if c.by == "" && err != nil || c.by != "" && !strings.HasPrefix(fmt.Sprint(err), "MachineConfig "+c.by+": spec.config.storage.files.mode (file "+registry+", merged): has headers") {
			t.Errorf("%s, then %s: %v", c.first, c.second, err)
		}
	}
}
