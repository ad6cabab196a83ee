package trust

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/powercut"
)

// certificates returns a bundle with a certificate of each word, which is none that
// anybody could read.
func certificates(words ...string) string {
	var out strings.Builder
	for _, w := range words {
		out.WriteString("# of " + w + "\n" + string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte(w)})))
	}
	return out.String()
}

func TestEachCertificateHasAFileOfItsOwn(t *testing.T) {
	for name, c := range map[string]struct {
		bundle string
		want   []string
	}{
		"two, with words around them": {"one\n" + certificates("a") + "two\n" + certificates("b") + "end\n", []string{"a", "b"}},
		"none":                        {"# This site adds no authorities.\n", nil},
		"an empty file":               {"", nil},
		"one is cut short":            {certificates("a") + "-----BEGIN CERTIFICATE-----\nAAAA\n", []string{"a"}},
		"headers are left out":        {string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Headers: map[string]string{"X": "y"}, Bytes: []byte("a")})), []string{"a"}},
		"something else between":      {certificates("a") + string(pem.EncodeToMemory(&pem.Block{Type: "X509 CRL", Bytes: []byte("x")})) + certificates("b"), []string{"a", "b"}},
	} {
		var got []string
		for _, file := range Split([]byte(c.bundle)) {
			block, rest := pem.Decode(file)
			if block == nil || len(rest) > 0 || len(block.Headers) > 0 {
				t.Fatalf("%s: %q", name, file)
			}
			got = append(got, string(block.Bytes))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// machine is a host in a folder, with the tool of one distribution: it makes a list of all
// files in its folder.
type machine struct {
	t    *testing.T
	root string
	has  string
	// list is the path of the list.
	list string
	cut  powercut.Cut
	runs int
}

func newMachine(t *testing.T, has string) *machine {
	t.Helper()
	m := &machine{t: t, root: t.TempDir(), has: has}
	if i := slices.IndexFunc(tools, func(t tool) bool { return t.program == has }); i >= 0 {
		m.list = filepath.Join(m.root, tools[i].list)
	}
	return m
}

func (m *machine) host() Host {
	return Host{
		Root: m.root, Has: func(program string) bool { return program == m.has },
		WriteFile: func(path string, data []byte, mode fs.FileMode) error {
			return m.cut.Effect(func() error { return powercut.WriteFile(path, data, mode) })
		},
		Remove: func(path string) error { return m.cut.Effect(func() error { return os.Remove(path) }) },
		Run: func(_ context.Context, program string) error {
			return m.cut.Effect(func() error {
				m.runs++
				i := slices.IndexFunc(tools, func(t tool) bool { return t.program == program })
				return powercut.WriteFile(m.list, m.join(tools[i].folder), 0o644)
			})
		},
	}
}

// join returns the contents of a folder one after the other, with words between, as RHEL's
// tool has them.
func (m *machine) join(folder string) []byte {
	m.t.Helper()
	paths, err := filepath.Glob(filepath.Join(m.root, folder, "*"))
	if err != nil {
		m.t.Fatal(err)
	}
	var out []byte
	for _, p := range paths {
		data, err := os.ReadFile(p)
		if err != nil {
			m.t.Fatal(err)
		}
		out = fmt.Appendf(out, "# an authority\n%s\n", data)
	}
	return out
}

// in returns the files in a folder.
func (m *machine) in(folder string) string {
	m.t.Helper()
	paths, err := filepath.Glob(filepath.Join(m.root, folder, "*"))
	if err != nil {
		m.t.Fatal(err)
	}
	var out []string
	for _, p := range paths {
		data, err := os.ReadFile(p)
		if err != nil {
			m.t.Fatal(err)
		}
		base := filepath.Base(p)
		if block, _ := pem.Decode(data); block != nil {
			if base == name(data) {
				base = "ours"
			}
			data = block.Bytes
		}
		out = append(out, fmt.Sprintf("%s=%s", base, data))
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

func (m *machine) put(path, data string) {
	m.t.Helper()
	if err := powercut.WriteFile(filepath.Join(m.root, path), []byte(data), 0o644); err != nil {
		m.t.Fatal(err)
	}
}

// trusts returns what is on the list.
func (m *machine) trusts() string {
	m.t.Helper()
	data, err := os.ReadFile(m.list)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		m.t.Fatal(err)
	}
	var out []string
	for _, c := range Split(data) {
		block, _ := pem.Decode(c)
		out = append(out, string(block.Bytes))
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

func (m *machine) apply(want string) {
	m.t.Helper()
	if _, err := m.host().Apply(m.t.Context()); err != nil || m.trusts() != want {
		m.t.Fatalf("%v, the list is %q, want %q", err, m.trusts(), want)
	}
	if host.Exists(filepath.Join(m.root, PendingPath)) {
		m.t.Error("the run counts as cut")
	}
}

// TestAHostTrustsWhatItsFileSaysAndNothingOfBefore on each distribution, and leaves what
// others put beside it.
func TestAHostTrustsWhatItsFileSaysAndNothingOfBefore(t *testing.T) {
	for _, own := range tools {
		m := newMachine(t, own.program)
		for _, each := range tools { // as the installation of an earlier release left it
			m.put(each.folder+"/holdfast-site-0.crt", certificates("a"))
			m.put(each.folder+"/holdfast-site-1.crt", certificates("b"))
			m.put(each.folder+"/theirs.crt", certificates("theirs"))
		}
		m.put(state.TrustPath, certificates("a", "b"))
		m.apply("a b theirs")
		if got := m.in(own.folder); got != "ours=a ours=b theirs.crt=theirs" {
			t.Errorf("%s: %s", own.folder, got)
		}
		for _, each := range tools {
			if got := m.in(each.folder); each != own && got != "theirs.crt=theirs" {
				t.Errorf("%s: %s", each.folder, got)
			}
		}
		m.put(state.TrustPath, certificates("c"))
		m.apply("c theirs")
		m.apply("c theirs") // a boot
		m.put(state.TrustPath, "# This site adds no authorities.\n")
		m.apply("theirs")
		if m.runs != 3 {
			t.Errorf("%s ran %d times for three changes", own.program, m.runs)
		}
	}
}

// TestTheToolRunsOnlyIfTheHostDoesNotTrustWhatItShould, whatever is the cause.
func TestTheToolRunsOnlyIfTheHostDoesNotTrustWhatItShould(t *testing.T) {
	for title, c := range map[string]struct {
		happens func(*machine)
		runs    int
	}{
		"a boot":                   {func(*machine) {}, 0},
		"words of the file change": {func(m *machine) { m.put(state.TrustPath, "# words\n"+certificates("a", "b")) }, 0},
		"an authority more":        {func(m *machine) { m.put(state.TrustPath, certificates("a", "b", "c")) }, 1},
		"one less":                 {func(m *machine) { m.put(state.TrustPath, certificates("b")) }, 1},
		"the list is lost":         {func(m *machine) { m.must(os.Remove(m.list)) }, 1},
		"the list is an older one": {func(m *machine) { m.must(os.WriteFile(m.list, []byte(certificates("a")), 0o644)) }, 1},
		"a file of ours is lost": {func(m *machine) {
			m.must(os.Remove(filepath.Join(m.root, tools[0].folder, name(Split([]byte(certificates("a")))[0]))))
		}, 1},
		"a file of ours is torn": {func(m *machine) {
			m.put(tools[0].folder+"/"+name(Split([]byte(certificates("a")))[0]), "")
		}, 1},
		"one of ours too many": {func(m *machine) { m.put(tools[0].folder+"/holdfast-site-9.crt", certificates("z")) }, 1},
		"a run was cut off":    {func(m *machine) { m.put(PendingPath, "") }, 1},
	} {
		m := newMachine(t, tools[0].program)
		m.put(state.TrustPath, certificates("a", "b"))
		m.apply("a b")
		m.runs = 0
		c.happens(m)
		for range 2 { // the second one has nothing to do
			if _, err := m.host().Apply(t.Context()); err != nil {
				t.Fatalf("%s: %v", title, err)
			}
		}
		var want []string
		file, err := os.ReadFile(filepath.Join(m.root, state.TrustPath))
		m.must(err)
		for _, c := range Split(file) {
			block, _ := pem.Decode(c)
			want = append(want, string(block.Bytes))
		}
		if m.runs != c.runs || m.trusts() != strings.Join(want, " ") {
			t.Errorf("%s: %d runs, want %d; the list is %q, want %q", title, m.runs, c.runs, m.trusts(), want)
		}
	}
}

func (m *machine) must(err error) {
	m.t.Helper()
	if err != nil {
		m.t.Fatal(err)
	}
}

func TestAHostWithoutAuthoritiesOfItsSiteNeedsNoTool(t *testing.T) {
	for _, file := range []string{"", "# This site adds no authorities.\n"} {
		m := newMachine(t, "")
		if file != "" {
			m.put(state.TrustPath, file)
		}
		if n, err := m.host().Apply(t.Context()); n != 0 || err != nil || m.runs != 0 {
			t.Errorf("%q: %d, %v, %d runs", file, n, err, m.runs)
		}
	}
	m := newMachine(t, "")
	m.put(state.TrustPath, certificates("a"))
	if _, err := m.host().Apply(t.Context()); err == nil || !strings.Contains(err.Error(), "ca-certificates") {
		t.Errorf("%v", err)
	}
}

// TestACutAtAnyEffectIsMadeUpFor: the next run ends in the same list, also where the cut
// left no file that shows it.
func TestACutAtAnyEffectIsMadeUpFor(t *testing.T) {
	for _, c := range []struct{ before, after, want string }{
		{certificates("a", "b"), certificates("c"), "c"},
		{certificates("a", "b"), "", ""},
		{"", certificates("a", "b"), "a b"},
	} {
		for at := 2; ; at++ { // before and after each effect
			m := newMachine(t, tools[0].program)
			m.put(state.TrustPath, c.before)
			if _, err := m.host().Apply(t.Context()); err != nil {
				t.Fatal(err)
			}
			m.put(state.TrustPath, c.after)
			m.cut = powercut.Cut{At: at / 2, After: at%2 == 1}
			if _, err := m.host().Apply(t.Context()); err == nil {
				break
			}
			m.cut = powercut.Cut{}
			m.apply(c.want)
		}
	}
}
