package controlplane

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/holdfast/holdfast/internal/model/etcdpod"
)

func TestAHostTellsItsAuthoritiesWhenTheyChange(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ca.crt")
	put := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var told []string
	var refuse error
	s := saying{}
	tell := func() error {
		return s.tell(path, func(d string) error {
			if refuse == nil {
				told = append(told, d)
			}
			return refuse
		})
	}
	if err := tell(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without a file: %v", err)
	}
	put("one")
	refuse = errors.New("no API")
	if err := tell(); !errors.Is(err, refuse) {
		t.Errorf("without an API: %v", err)
	}
	refuse = nil
	for _, text := range []string{"one", "one", "one and two"} {
		put(text)
		if err := tell(); err != nil {
			t.Error(err)
		}
	}
	if want := []string{etcdpod.DigestOf([]byte("one")), etcdpod.DigestOf([]byte("one and two"))}; !slices.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
	for range tellAnew {
		_ = tell()
	}
	if len(told) != 3 {
		t.Errorf("a node that lost its annotations is not told again: %d", len(told))
	}
}
