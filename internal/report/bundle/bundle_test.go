package bundle

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/decide/redact"
)

var now = time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)

// open reads an archive and returns its files by path.
func open(t *testing.T, data []byte) map[string]string {
	t.Helper()
	zip, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for archive := tar.NewReader(zip); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		if h.Mode != 0o600 || !strings.HasPrefix(h.Name, "b/") {
			t.Errorf("%s has mode %o", h.Name, h.Mode)
		}
		out[strings.TrimPrefix(h.Name, "b/")] = string(text)
	}
}

func says(text string, err error) func(context.Context) ([]byte, error) {
	return func(context.Context) ([]byte, error) { return []byte(text), err }
}

func made(t *testing.T, m Maker, items ...Item) (Index, map[string]string) {
	t.Helper()
	m.Name, m.Now = "b", now
	if m.Redact == nil {
		m.Redact = redact.New()
	}
	var out bytes.Buffer
	index, err := m.Write(t.Context(), &out, items)
	if err != nil {
		t.Fatal(err)
	}
	return index, open(t, out.Bytes())
}

func TestTheIndexSaysWhatWasCollectedAndWhatFailedAndWhy(t *testing.T) {
	_, files := made(t, Maker{By: "v1", Notes: []string{"a note"}},
		Item{Path: "one.txt", From: "cp-1", What: "the first", Collect: says("text\n", nil)},
		Item{Path: "two.txt", From: "cp-1", What: "the second", Collect: says("half\n", errors.New("run x: exit status 1"))},
		Item{Path: "three.txt", From: "API", What: "the third", Collect: says("", errors.New("connection refused"))},
	)
	for _, want := range []string{"a note", "Not collected, or incomplete: 2", "two.txt (the second): run x: exit status 1", "three.txt (the third): connection refused", "one.txt: the first (5 bytes)", "holdfast v1"} {
		if !strings.Contains(files["INDEX.txt"], want) {
			t.Errorf("the index lacks %q:\n%s", want, files["INDEX.txt"])
		}
	}
	var index Index
	if err := json.Unmarshal([]byte(files["index.json"]), &index); err != nil || index.Failures() != 2 || len(index.Entries) != 3 {
		t.Errorf("%v: %+v", err, index)
	}
	if files["two.txt"] != "half\n" || files["one.txt"] != "text\n" {
		t.Errorf("%q", files)
	}
	if _, there := files["three.txt"]; there {
		t.Error("an empty file is no evidence")
	}
}

func TestWhatAHostHasNotIsNoFailure(t *testing.T) {
	_, noProgram := host.Run(t.Context(), host.Command("holdfast-no-such-program"))
	index, files := made(t, Maker{},
		Item{Path: "a", What: "a file", Collect: says("", errors.New("run tail x: exit status 1: tail: cannot open 'x' for reading: No such file or directory"))},
		Item{Path: "b", What: "a tool", Collect: says("", noProgram)},
		Item{Path: "c", What: "a kind", Collect: says("", fmt.Errorf("list X: %w", &meta.NoKindMatchError{}))},
		Item{Path: "d", What: "a tool elsewhere", Collect: says("", &host.RunError{ExitCode: 127, Err: errors.New("it failed")})},
	)
	if index.Failures() != 0 || !strings.Contains(files["INDEX.txt"], "Not present") || !strings.Contains(files["INDEX.txt"], "  b (a tool)") {
		t.Errorf("%d failures:\n%s", index.Failures(), files["INDEX.txt"])
	}
}

func TestABundleIsBounded(t *testing.T) {
	long := strings.Repeat("0123456789abcde\n", 1<<20)   // 16 MiB
	index, files := made(t, Maker{Total: maxItem + 100}, // heavy items are collected in sequence
		Item{Path: "head", Heavy: true, Collect: says("first\n"+long, nil)},
		Item{Path: "tail", Heavy: true, Tail: true, Collect: says(long+"last\n", nil)},
		Item{Path: "none", Heavy: true, Collect: says("x", nil)},
	)
	if !strings.HasPrefix(files["head"], "first\n") || len(files["head"]) > maxItem || !index.Entries[0].Cut {
		t.Errorf("the beginning: %d bytes", len(files["head"]))
	}
	if !strings.HasSuffix(files["tail"], "last\n") || len(files["tail"]) > 200 || !index.Entries[1].Cut {
		t.Errorf("the end: %d bytes", len(files["tail"]))
	}
	if e := index.Entries[2]; e.Bytes != 1 && e.Failed == "" {
		t.Errorf("%+v", e)
	}
}

func TestABundleThatIsInterruptedIsAnError(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	m := Maker{Name: "b", Now: now, Redact: redact.New(), Told: func(Entry) { cancel() }}
	_, err := m.Write(ctx, io.Discard, []Item{{Path: "a", Collect: says("a", nil)}, {Path: "b", Collect: says("b", nil)}})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// TestAHostOnWhichManyCommandsHangIsCollectedFromInSeconds makes every second
// of forty commands of a host hang after its first words.
func TestAHostOnWhichManyCommandsHangIsCollectedFromInSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hangs := func(ctx context.Context) ([]byte, error) {
			<-ctx.Done()
			return []byte("first words\n"), fmt.Errorf("run pcs: %w (signal: terminated)", context.Cause(ctx))
		}
		var items []Item
		for i := range 40 {
			item := Item{Path: fmt.Sprintf("hosts/cp-1/%d.txt", i), From: "cp-1", What: "a thing", Collect: says("all of it\n", nil)}
			if i%2 == 0 {
				item.Collect = hangs
			}
			items = append(items, item)
		}
		began := time.Now()
		index, files := made(t, Maker{}, items...)
		if took, most := time.Since(began), 20/atOnce*itemTime; took > most {
			t.Errorf("took %s, more than %s", took, most)
		}
		for i, e := range index.Entries {
			switch text := files[e.Path]; {
			case e.Path != items[i].Path:
				t.Errorf("%s is listed in the place of %s", e.Path, items[i].Path)
			case i%2 == 0 && (e.CutOff != "10s" || text != "first words\n" || !strings.Contains(e.Failed, "cut off after 10s")):
				t.Errorf("%+v: %q", e, text)
			case i%2 == 1 && (e.CutOff != "" || e.Failed != "" || text != "all of it\n"):
				t.Errorf("%+v: %q", e, text)
			}
		}
		if !strings.Contains(files["INDEX.txt"], "hosts/cp-1/0.txt: a thing (12 bytes, cut off after 10s)") {
			t.Errorf("the index does not say that it was cut off:\n%s", files["INDEX.txt"])
		}
	})
}

// TestWhatWearsADiskIsReadOneAfterTheOther counts the journals of a host that
// are read at the same time, while those of another host are read.
func TestWhatWearsADiskIsReadOneAfterTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		now, most := map[string]int{}, map[string]int{}
		count := func(from string, n int) {
			mu.Lock()
			defer mu.Unlock()
			now[from] += n
			most[from] = max(most[from], now[from])
			now["all"] += n
			most["all"] = max(most["all"], now["all"])
		}
		var items []Item
		for _, from := range []string{"cp-1", "cp-2"} {
			items = append(items, Host(from, time.Hour, func(_ context.Context, line ...string) ([]byte, error) {
				if line[0] == "journalctl" {
					count(from, 1)
					time.Sleep(time.Second) // on the bubble's clock
					count(from, -1)
				}
				return []byte("text\n"), nil
			})...)
		}
		made(t, Maker{}, items...)
		if most["cp-1"] != 1 || most["cp-2"] != 1 || most["all"] != 2 {
			t.Errorf("read at a time: %v", most)
		}
	})
}

// TestTheJournalOfEachUnitOfOursIsRead compares with the names of the units where these are rendered.
func TestTheJournalOfEachUnitOfOursIsRead(t *testing.T) {
	named, units := regexp.MustCompile(`= "([a-z-]+@?)\.service"`), Units()
	n := 0
	for _, dir := range []string{"../../render/host", "../../decide/updates"} {
		files, err := filepath.Glob(dir + "/*.go")
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, found := range named.FindAllStringSubmatch(string(text), -1) {
				n++
				if !slices.ContainsFunc(units, func(u string) bool {
					return u == found[1] || strings.HasSuffix(found[1], "@") && strings.HasPrefix(u, found[1])
				}) {
					t.Errorf("the journal of %s is not read", found[1])
				}
			}
		}
	}
	if n < 20 {
		t.Errorf("found only %d units", n)
	}
}

// The planted secrets. None of them looks like one.
const (
	bmcPassword = `Tr0ub4dor&"3`
	joinToken   = "correct-horse-battery-staple"
	hostToken   = "kubelet-host-token-7e5f"
	pcsdToken   = "pcsd-peer-token-91ac"
	etcdRoot    = "root-of-the-keys-of-etcd-4b1d"
	etcdKey     = "ZXRjZC1rZXktbnVtYmVyLW9uZS1wbGFudGVk"
	pullAuth    = "cHVsbDpzZWNyZXQtb2YtcmVnaXN0cnk="
	keyBody     = "MHcCAQEEIIrYSSNdvzY1kaqaUJ8mVXPUhA6m0dGoZ1plantedKeyMaterial0x7q"
)

var planted = []string{bmcPassword, joinToken, hostToken, pcsdToken, etcdRoot, etcdKey, pullAuth, keyBody}

const privateKey = "-----BEGIN EC PRIVATE KEY-----\n" + keyBody + "\nQWJjZA==\n-----END EC PRIVATE KEY-----\n"

// pocket writes a secret in every form in which it may appear.
func pocket(secret string) string {
	quoted, _ := json.Marshal(map[string]string{"some": secret})
	var x bytes.Buffer
	_ = xml.EscapeText(&x, []byte(secret))
	b64 := base64.StdEncoding.EncodeToString
	lines := []string{
		"plain " + secret + " in a line", string(quoted), "attr=\"" + x.String() + "\"", "https://h/?x=" + url.QueryEscape(secret),
		b64([]byte(secret)), b64([]byte("x" + secret)), b64([]byte("xy" + secret + "tail")), base64.URLEncoding.EncodeToString([]byte("user:" + secret)),
		b64([]byte(b64([]byte("admin:" + secret)))), "error: login failed with '" + secret + "'",
	}
	return strings.Join(lines, "\n") + "\n"
}

// plantedHost simulates a host that has secrets in the usual places and, by
// mistake, in everything else that it prints.
func plantedHost(_ context.Context, line ...string) ([]byte, error) {
	text := strings.Join(line, " ")
	switch {
	case text == "true":
		return nil, nil
	case strings.HasPrefix(text, "find /etc/holdfast/fencing"):
		a, _ := json.Marshal(map[string]any{"target": "cp-2", "username": "admin", "password": bmcPassword, "delay": 5})
		return append(a, []byte("\n{}")...), nil
	case text == "cat /etc/holdfast/site.json":
		return json.Marshal(map[string]any{"Identity": map[string]any{
			"admissionToken": joinToken, "encryptionRoot": etcdRoot, "kubernetesCA": map[string]string{"cert": "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n", "key": privateKey},
		}, "Config": map[string]any{"pullSecret": `{"auths":{"r.example":{"auth":"` + pullAuth + `"}}}`}})
	case strings.HasPrefix(text, "find /etc/holdfast -maxdepth 2") && strings.Contains(text, "encryption"):
		return []byte("resources:\n- providers:\n  - secretbox:\n      keys:\n      - name: holdfast-1\n        secret: " + etcdKey + "\n"), nil
	case strings.HasPrefix(text, "find /etc/kubernetes -maxdepth 1"):
		return []byte("users:\n- name: x\n  user:\n    token: " + hostToken + "\n    client-key-data: " + base64.StdEncoding.EncodeToString([]byte(privateKey)) + "\n"), nil
	case strings.HasPrefix(text, "find /etc/kubernetes/pki"):
		return []byte(privateKey), nil
	case strings.HasPrefix(text, "find /var/lib/pcsd"):
		return json.Marshal(map[string]any{"known_hosts": map[string]any{"cp-2": map[string]any{"token": pcsdToken}}})
	}
	var out strings.Builder
	out.WriteString("begin of " + text + "\n")
	for _, s := range planted {
		out.WriteString(pocket(s))
	}
	out.WriteString(privateKey + "kubeadm join --token abcdef.0123456789abcdef --discovery-token-ca-cert-hash sha256:00\n")
	out.WriteString(`<nvpair id="f-passwd" name="passwd" value="never-known-elsewhere"/>` + "\n" + strings.Repeat("a journal's line\n", 10))
	out.WriteString("end of " + text + "\n")
	return []byte(out.String()), fmt.Errorf("warning about %s", bmcPassword)
}

// TestNoPlantedSecretIsInABundle plants secrets in every form in everything
// that a host prints, and looks for each of them in the bundle.
func TestNoPlantedSecretIsInABundle(t *testing.T) {
	known, problems := Secrets(t.Context(), plantedHost)
	if len(problems) > 0 {
		t.Errorf("%q", problems)
	}
	items := Host("cp-1", time.Hour, plantedHost)
	index, files := made(t, Maker{Redact: redact.New(known...)}, items...)
	if len(index.Entries) < 60 || len(files) != len(items)+2 {
		t.Errorf("%d things, %d files", len(index.Entries), len(files))
	}
	for path, text := range files {
		for _, secret := range append(slices.Clone(planted), "never-known-elsewhere", "0123456789abcdef ") {
			if form := found(text, secret); form != "" {
				t.Errorf("%s has %q as %q", path, secret, form)
			}
		}
		if strings.HasPrefix(path, "hosts/") && (!strings.Contains(text, "begin of ") || !strings.Contains(text, "end of ") || !strings.Contains(text, "a journal's line")) {
			t.Errorf("%s has lost more than secrets: %.200q", path, text)
		}
	}
}

// found returns the form in which a text contains a secret. It decodes the text
// as often as possible.
func found(text, secret string) string {
	quoted, _ := json.Marshal(secret)
	for _, form := range []string{secret, strings.Trim(string(quoted), `"`), url.QueryEscape(secret)} {
		if strings.Contains(text, form) {
			return form
		}
	}
	for shift := range 3 {
		whole := base64.RawStdEncoding.EncodeToString([]byte(strings.Repeat("\x00", shift) + secret))
		core := whole[(shift*8+5)/6 : (shift+len(secret))*8/6]
		for _, form := range []string{core, strings.NewReplacer("+", "-", "/", "_").Replace(core)} {
			if strings.Contains(text, form) {
				return form
			}
		}
		for second := range 3 {
			twice := base64.RawStdEncoding.EncodeToString([]byte(strings.Repeat("\x00", second) + core))
			if inner := twice[(second*8+5)/6 : (second+len(core))*8/6]; strings.Contains(text, inner) {
				return inner
			}
		}
	}
	return ""
}

func TestThePlantedSecretsWouldBeFound(t *testing.T) {
	for _, secret := range planted {
		for line := range strings.Lines(pocket(secret)) {
			if strings.Contains(line, "attr=") && strings.ContainsAny(secret, `&"`) {
				continue // in XML
			}
			if found(line, secret) == "" {
				t.Errorf("%q is not found in %q", secret, line)
			}
		}
	}
}

// TestFilesOfSecretsAreNotAskedFor compares the list of collected things with
// the places of secrets.
func TestFilesOfSecretsAreNotAskedFor(t *testing.T) {
	var lines []string
	for _, i := range Host("cp-1", time.Hour, func(_ context.Context, line ...string) ([]byte, error) {
		lines = append(lines, strings.Join(line, " "))
		return nil, nil
	}) {
		_, _ = i.Collect(t.Context())
	}
	for _, line := range lines {
		if strings.HasPrefix(line, "ls ") {
			continue // prints names only
		}
		for _, place := range []string{
			"/etc/holdfast/fencing", "/etc/holdfast/site.json", "/etc/kubernetes/pki", "/etc/kubernetes/admin.conf", "authkey", "/var/lib/pcsd",
			"/etc/holdfast/kubeadm.yaml", "join-key", "join.kubeconfig", "host-token", "*.conf /etc/kubernetes", "shadow", ".key", "[.]key",
			"/etc/holdfast/apiserver", "/var/log/kubernetes", "audit",
		} {
			if strings.Contains(line, place) {
				t.Errorf("%q reads %s", line, place)
			}
		}
		if strings.ContainsAny(line, "'\"$`;&|<>()!") {
			t.Errorf("%q means something else behind a shell", line)
		}
	}
	if len(lines) < 60 {
		t.Errorf("%d commands", len(lines))
	}
}

func TestAHostThatIsOffIsAskedOnce(t *testing.T) {
	asked := 0
	items := Host("cp-2", time.Hour, func(context.Context, ...string) ([]byte, error) {
		asked++
		return nil, errors.New("no route to host")
	})
	index, _ := made(t, Maker{}, items...)
	if asked != 1 || index.Failures() != len(items) || !strings.Contains(index.Entries[5].Failed, "no route to host") {
		t.Errorf("asked %d times, %d failures", asked, index.Failures())
	}
}

// TestFilesAreReadByTheCommandsAsTheyStand runs the commands for files on this
// machine.
func TestFilesAreReadByTheCommandsAsTheyStand(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"a.json": "one\n", "b.json": "two\n", "c.txt": "three\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	several := printed(t, fileSet{at: dir, name: `.+[.]json`}.line())
	if !strings.Contains(several, "a.json <==\none\n") || !strings.Contains(several, "b.json <==\ntwo\n") || strings.Contains(several, "three") {
		t.Errorf("%q", several)
	}
	if one := printed(t, fileSet{at: filepath.Join(dir, "c.txt")}.line()); one != "three\n" {
		t.Errorf("%q", one)
	}
}
