package twonode

import (
	"io"
	"os"
	"path/filepath"
	"testing"
)

// FuzzAcceptedTokens reads any file of pcsd's tokens.
func FuzzAcceptedTokens(f *testing.F) {
	for _, seed := range []string{`[{"username":"hacluster","token":"YQ==","creation_date":"x"}]`, `[{}]`, `{}`, `null`, ``, `[{"token":7}]`} {
		f.Add([]byte(seed))
	}
	h := NewHost(io.Discard)
	h.Root, h.hide = f.TempDir(), hiding(input())
	path := h.path(acceptedFile)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := h.accepted(); err != nil {
			t.Error(err) // what cannot be read is written anew
		}
	})
}
