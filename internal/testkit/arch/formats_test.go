package arch

import (
	"crypto/sha256"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/holdfast/holdfast/internal/model/payload"
)

// formatNumbers names the constant of each format that has a number.
var formatNumbers = map[string]string{
	payload.FormatRecord:      "internal/model/state/etcdrecord.go etcdRecordVersion",
	payload.FormatStatement:   "internal/model/state/etcdsnapshot.go etcdStatementFormat",
	payload.FormatStep:        "internal/decide/twonode/input.go inputFormat",
	payload.FormatJournal:     "internal/decide/upgrade/parachute/journal.go format",
	payload.FormatAnnotations: "internal/decide/upgrade/annotation/annotation.go format",
	payload.FormatFolder:      "internal/install/release/disk.go recordFormat",
	payload.FormatReplacement: "internal/decide/replace/plan.go Format",
	payload.FormatBackup:      "internal/model/backup/entry.go Format",
}

// otherNumbers are constants of numbers that no second release meets.
var otherNumbers = map[string]string{
	"internal/install/installer/installer.go stateVersion": "the install directory of a person, which one program writes and reads",
	"internal/install/release/inputs.go stepVersion":       "keys of the build cache",
}

// strictReaders are the files that refuse what they do not know, each with its
// format or the reason for which no release writes what another one reads.
var strictReaders = map[string]string{
	"internal/render/apiserver/encryption.go":  "encryption-file",
	"internal/model/etcdpod/parse.go":          "etcd-pod",
	"payload/standin/takeover/request.go":      "stand-in-request",
	"internal/decide/machineconfig/kubelet.go": "a person writes it",
	"internal/decide/machineconfig/policy.go":  "a person writes it",
	"internal/cli/config_input.go":             "a person writes it",
}

// goFiles calls see for each Go file of the programs that is no test.
func goFiles(t *testing.T, see func(rel string, text []byte)) {
	t.Helper()
	for _, folder := range []string{"internal", "cmd", "payload"} {
		err := filepath.WalkDir(filepath.Join("../../..", folder), func(path string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			see(filepath.ToSlash(strings.TrimPrefix(path, "../../../")), text)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// formatConstants returns the constants of a file that are called a format or a version and
// are a number.
func formatConstants(t *testing.T, text []byte) map[string]int {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "", text, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	called := regexp.MustCompile(`(?i)(format|version)$`)
	out := map[string]int{}
	for _, d := range file.Decls {
		g, is := d.(*ast.GenDecl)
		if !is || g.Tok != token.CONST {
			continue
		}
		for _, s := range g.Specs {
			v, is := s.(*ast.ValueSpec)
			if !is || len(v.Values) != 1 || !called.MatchString(v.Names[0].Name) {
				continue
			}
			if lit, is := v.Values[0].(*ast.BasicLit); is && lit.Kind == token.INT {
				if n, err := strconv.Atoi(lit.Value); err == nil {
					out[v.Names[0].Name] = n
				}
			}
		}
	}
	return out
}

func TestWhatAReleaseSaysOfItsFormatsIsWhatTheCodeHas(t *testing.T) {
	table := map[string]payload.Format{}
	for _, f := range payload.Present().Formats {
		if _, twice := table[f.Name]; twice || f.Name == "" || f.Reads.Min > f.Reads.Max || f.Writes < f.Reads.Min || f.Writes > f.Reads.Max {
			t.Errorf("%+v is there twice, or cannot be", f)
		}
		if _, numbered := formatNumbers[f.Name]; numbered == f.Unnumbered {
			t.Errorf("%s: unnumbered is %v, and a constant is named for it: %v", f.Name, f.Unnumbered, numbered)
		}
		table[f.Name] = f
	}
	found := map[string]int{}
	goFiles(t, func(rel string, text []byte) {
		for name, n := range formatConstants(t, text) {
			found[rel+" "+name] = n
		}
	})
	named := map[string]bool{}
	for name, at := range formatNumbers {
		named[at] = true
		n, there := found[at]
		if f, in := table[name]; !there || !in || f.Reads.Max != n || f.Writes != n {
			t.Errorf("%s: the table has %+v (%v), and %s is %d (%v)", name, f, in, at, n, there)
		}
	}
	for at := range found {
		if !named[at] && otherNumbers[at] == "" {
			t.Errorf("%s is the number of a format: name it here and in internal/model/payload/about.go", at)
		}
	}
	if steps := payload.Present().Steps; steps.Max != table[payload.FormatStep].Reads.Max {
		t.Errorf("steps %+v are not those of %+v", steps, table[payload.FormatStep])
	}
}

func TestEveryReaderThatRefusesWhatItDoesNotKnowIsInTheTable(t *testing.T) {
	strict := map[string]bool{}
	for _, f := range payload.Present().Formats {
		strict[f.Name] = f.Strict
	}
	used := map[string]bool{}
	goFiles(t, func(rel string, text []byte) {
		if !strings.Contains(string(text), "DisallowUnknownFields(") && !strings.Contains(string(text), "UnmarshalStrict(") {
			return
		}
		why, known := strictReaders[rel]
		_, format := strict[why]
		if !known || format && !strict[why] {
			t.Errorf("%s refuses fields that it does not know: releases may not write them; name the format here, and strict in internal/model/payload/about.go", rel)
		}
		used[why] = true
	})
	for name, is := range strict {
		if is && !used[name] {
			t.Errorf("%s is strict in the table, and no reader is", name)
		}
	}
}

// wire is what hosts say to each other by the files of payload.About's network of
// that name.
const wire = "1 b50687ab821dcb2f5ef16e7cc3b13618"

// onWire are approved files that say what hosts tell each other: VRRP's version,
// ids, priorities and intervals, the overlay of pods and its MTU.
var onWire = []string{"internal/render/keepalived/testdata/host/*.conf", "internal/render/flannel/testdata/*.yaml", "internal/render/cni/testdata/*"}

func TestANetworkHasAnotherNameOnceHostsSaySomethingElseOnTheWire(t *testing.T) {
	h := sha256.New()
	for _, pattern := range onWire {
		files, err := filepath.Glob(filepath.Join("../../..", pattern))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v", pattern, err)
		}
		for _, path := range files {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(string(text)) {
				if !strings.Contains(line, "image:") { // another version of a program is no other network
					_, _ = h.Write([]byte(line)) // a hash takes everything
				}
			}
		}
	}
	if got := fmt.Sprintf("%s %.16x", payload.Present().Network, h.Sum(nil)); got != wire {
		t.Errorf("what hosts say on the wire is %q, and it was %q. If hosts of both releases understand each other, and keep VIPs and pods connected, "+
			"approve it here; otherwise raise the network's name in internal/model/payload/about.go too", got, wire)
	}
}

func TestTheStoredVersionsOfAReleaseAreThoseOfItsKinds(t *testing.T) {
	files, err := filepath.Glob("../../render/manifests/*/*.yaml")
	if err != nil || len(files) < 20 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	var want []string
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var kind struct {
			Kind     string
			Metadata struct{ Name string }
			Spec     struct {
				Versions []struct {
					Name   string
					Served bool
				}
			}
		}
		if err := yaml.Unmarshal(text, &kind); err != nil || kind.Kind != "CustomResourceDefinition" {
			continue // another document, such as an approved object
		}
		for _, v := range kind.Spec.Versions {
			if v.Served {
				want = append(want, kind.Metadata.Name+"/"+v.Name)
			}
		}
	}
	slices.Sort(want)
	if got := payload.Present().StoredVersions; !slices.Equal(got, want) {
		t.Errorf("internal/model/payload/about.go has\n %q, the kinds are\n %q", got, want)
	}
}
