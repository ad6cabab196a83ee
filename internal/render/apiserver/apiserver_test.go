package apiserver_test

import (
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast/holdfast/internal/render/apiserver"
	"github.com/holdfast/holdfast/internal/testkit/golden"
	"github.com/holdfast/holdfast/internal/testkit/sitetest"
)

func TestTheFilesOfAnAPIServerMatchTheApprovedOnes(t *testing.T) {
	files, err := apiserver.Files(sitetest.New(t, sitetest.TwoDual))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		golden.Check(t, path.Base(f.Path), f.Data)
	}
}

func TestOnlyRootReadsTheFilesOfAnAPIServer(t *testing.T) {
	files, err := apiserver.Files(sitetest.New(t, sitetest.TwoDual))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if f.Perm() != fs.FileMode(0o600) {
			t.Errorf("%s has mode %o", f.Path, f.Perm())
		}
	}
}

// The flags name files, and each is in a folder that the pod mounts.
func TestEveryFileThatIsNamedIsThereAndMounted(t *testing.T) {
	s := sitetest.New(t, sitetest.TwoDual)
	files, err := apiserver.Files(s)
	if err != nil {
		t.Fatal(err)
	}
	there := []string{apiserver.AuditPath} // the server writes that one
	for _, f := range files {
		there = append(there, f.Path)
	}
	for _, flag := range apiserver.Flags(s) {
		if !strings.HasPrefix(flag.Value, "/") {
			continue
		}
		if !slices.Contains(there, flag.Value) {
			t.Errorf("--%s names %s, which nobody writes", flag.Name, flag.Value)
		}
		if !slices.ContainsFunc(apiserver.Mounts(), func(m apiserver.Mount) bool { return path.Dir(flag.Value) == m.Path }) {
			t.Errorf("--%s names %s, which is not in the pod", flag.Name, flag.Value)
		}
	}
}

// A site from before the keys continues without them: a flag for a missing file
// would stop its next API server.
func TestASiteWithoutARootOfKeysNamesNone(t *testing.T) {
	s := sitetest.New(t, sitetest.TwoDual)
	s.Identity.EncryptionRoot, s.Identity.EncryptionKeys = nil, nil
	files, err := apiserver.Files(s)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if f.Path == apiserver.EncryptionPath {
			t.Error("it has a file of keys")
		}
	}
	for _, f := range apiserver.Flags(s) {
		if strings.HasPrefix(f.Name, "encryption") {
			t.Errorf("it has --%s", f.Name)
		}
	}
}

func TestKeysFollowFromTheRootAndTheirNumber(t *testing.T) {
	root := []byte("0123456789abcdef0123456789abcdef")
	texts := map[string]string{}
	for name, c := range map[string]struct {
		root    []byte
		numbers []int
	}{
		"first": {root, []int{1}}, "second": {root, []int{2}}, "another site": {[]byte("another site's root of 32 bytes."), []int{1}},
	} {
		f, err := apiserver.Encryption(c.root, c.numbers)
		if err != nil {
			t.Fatal(err)
		}
		again, err := apiserver.Encryption(c.root, c.numbers)
		if err != nil || string(again.Data) != string(f.Data) {
			t.Errorf("%s: not the same twice: %v", name, err)
		}
		_, secret, _ := strings.Cut(string(f.Data), "secret: ")
		secret, _, _ = strings.Cut(secret, "\n")
		for other, s := range texts {
			if s == secret {
				t.Errorf("%s has the key of %s", name, other)
			}
		}
		texts[name] = secret
	}
}

func TestTheNumbersOfKeysAreReadBack(t *testing.T) {
	root := []byte("0123456789abcdef0123456789abcdef")
	for _, want := range [][]int{{1}, {1, 2}, {2, 1}, {0, 1}, {1, 0}, {12, 11}} {
		f, err := apiserver.Encryption(root, want)
		if err != nil {
			t.Fatal(err)
		}
		got, err := apiserver.Numbers(f.Data)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%v: %v %s", want, err, diff)
		}
		kept := apiserver.Keeping(f)
		if got, err := apiserver.Numbers(kept.Data); !slices.Equal(got, want) || err != nil || !apiserver.Keeps(kept.Data) || apiserver.Keeps(f.Data) {
			t.Errorf("%v, of which the last is kept: %v %v\n%s", want, got, err, kept.Data)
		}
	}
	for _, bad := range [][]int{nil, {}, {1, 1}, {-1}} {
		if f, err := apiserver.Encryption(root, bad); err == nil {
			t.Errorf("%v gives\n%s", bad, f.Data)
		}
	}
	if _, err := apiserver.Encryption(nil, []int{1}); err == nil {
		t.Error("there is no root")
	}
	for _, bad := range []string{"", "{", "kind: Secret\n", "resources: [{resources: [secrets], providers: [{secretbox: {keys: [{name: theirs-1, secret: c2VjcmV0}]}}]}]\n"} {
		got, err := apiserver.Numbers([]byte(bad))
		if err == nil {
			t.Errorf("%q: %v", bad, got)
		} else if strings.Contains(err.Error(), "c2VjcmV0") {
			t.Errorf("the error quotes the file: %v", err)
		}
	}
}

func FuzzNumbers(f *testing.F) {
	good, err := os.ReadFile("testdata/encryption.yaml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Fuzz(func(t *testing.T, data []byte) {
		numbers, err := apiserver.Numbers(data)
		if err == nil && slices.ContainsFunc(numbers, func(n int) bool { return n < apiserver.Plain }) {
			t.Errorf("%v", numbers)
		}
	})
}
