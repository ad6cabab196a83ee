package records

import (
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/holdfast/holdfast/internal/model/state"
)

func TestAPlansWordAboutAThirdHostIsReadAsItWasWritten(t *testing.T) {
	f := Files{Root: t.TempDir()}
	if w, err := f.Third(); err != nil || !w.Known || w.Value != (state.EtcdThirdWord{}) {
		t.Fatalf("without a file no host comes, and that is known: %+v, %v", w, err)
	}
	want := state.EtcdThirdWord{Plan: "p1", Host: "cp-3", Address: netip.MustParseAddr("192.0.2.13"), Member: 0xc3}
	if err := f.WriteThird(want); err != nil {
		t.Fatal(err)
	}
	if w, err := f.Third(); err != nil || w != state.Known(want) {
		t.Errorf("%+v, %v", w, err)
	}
	for range 2 { // the second time there is nothing to remove
		if err := f.RemoveThird(); err != nil {
			t.Error(err)
		}
	}
	if w, err := f.Third(); err != nil || w.Value.Plan != "" {
		t.Errorf("%+v, %v", w, err)
	}
	if err := f.WriteThird(state.EtcdThirdWord{Plan: "p1"}); err == nil {
		t.Error("a word without a host was written")
	}
}

// A torn word may say that a host comes, so it is not taken for none.
func TestAWordThatCannotBeReadIsUnknown(t *testing.T) {
	f := Files{Root: t.TempDir()}
	path := f.Path(state.EtcdThirdPath)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(`{"plan":`), 0o600); err != nil {
		t.Fatal(err)
	}
	if w, err := f.Third(); err == nil || w.Known {
		t.Errorf("%+v, %v", w, err)
	}
}
