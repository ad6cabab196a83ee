package configserver

import (
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/porttest"
	"github.com/holdfast/holdfast/internal/testkit/sitetest"
)

// newClient returns a client of a test's server. The server's certificate is
// valid for example.com.
func newClient(s *site) *Client {
	return &Client{
		Addresses: []string{s.Listener.Addr().String()}, ServerName: "example.com", Token: readToken,
		CA: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})),
	}
}

func TestAClientReadsWhatHostsReported(t *testing.T) {
	store := NewMemory()
	s := newSite(t, func(o *Options) { o.Progress = store })
	want := []state.Progress{{Host: "cp-1", Role: state.RoleBootstrap, Steps: []state.Step{{Name: "join", State: state.StepRunning, Started: start}}}}
	if err := store.Put(want[0]); err != nil {
		t.Fatal(err)
	}
	c := newClient(s)
	c.Addresses = append([]string{porttest.Address(t)}, c.Addresses...)
	for range 2 {
		got, err := c.Progress(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}
}

func TestAClientTellsWhetherATokenOpens(t *testing.T) {
	s := newSite(t, nil)
	c := newClient(s)
	for tok, want := range map[string]bool{token(t, state.RoleWorker): true, "another": false} {
		if opens, err := c.Opens(t.Context(), state.RoleWorker, tok); opens != want || err != nil {
			t.Errorf("%t, %v", opens, err)
		}
	}
	master := token(t, state.RoleMaster)
	if _, err := c.Opens(t.Context(), state.RoleWorker, master); err == nil || strings.Contains(err.Error(), master) {
		t.Errorf("another answer: %v", err)
	}
	c.Addresses = []string{porttest.Address(t)}
	c.http = nil
	if _, err := c.Opens(t.Context(), state.RoleWorker, master); err == nil || strings.Contains(err.Error(), master) {
		t.Errorf("nobody answers: %v", err)
	}
}

func TestAClientTellsAnotherSitesServerApart(t *testing.T) {
	s := newSite(t, nil)
	for name, change := range map[string]func(*Client){
		"another token":     func(c *Client) { c.Token = "of another site" },
		"another name":      func(c *Client) { c.ServerName = "api-int.other.test" },
		"another authority": func(c *Client) { c.CA = sitetest.New(t, sitetest.OneNone).Identity.ConfigCA.Cert },
	} {
		c := newClient(s)
		change(c)
		_, err := c.Progress(t.Context())
		if !errors.Is(err, ErrForeign) || strings.Contains(err.Error(), c.Token) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAClientNamesEveryAddressThatDoesNotAnswer(t *testing.T) {
	c := newClient(newSite(t, nil))
	c.Addresses = []string{porttest.Address(t), porttest.Address(t)}
	_, err := c.Progress(t.Context())
	if err == nil || !strings.Contains(err.Error(), c.Addresses[0]) || !strings.Contains(err.Error(), c.Addresses[1]) {
		t.Errorf("got %v", err)
	}
	c = newClient(newSite(t, nil))
	c.CA = "hush"
	if _, err := c.Progress(t.Context()); err == nil || strings.Contains(err.Error(), "hush") {
		t.Errorf("an authority that is none: %v", err)
	}
}

func TestAFileOutlivesTheServer(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run", "progress.json")
	f, err := OpenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	one, two := state.Progress{Host: "cp-1", Role: state.RoleMaster}, state.Progress{Host: "cp-2", Role: state.RoleMaster, Complete: true}
	for _, p := range []state.Progress{two, one} {
		if err := f.Put(p); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Put(state.Progress{Host: "cp-1", Role: state.RoleWorker}); !errors.Is(err, ErrOtherRole) {
		t.Errorf("another role: %v", err)
	}
	again, err := OpenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	got, err := again.All()
	if diff := cmp.Diff([]state.Progress{one, two}, got); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != state.SecretFileMode {
		t.Errorf("%v, %v", info, err)
	}
}

func TestADamagedFileIsAnEmptyStore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "progress.json")
	if err := os.WriteFile(path, []byte(`[{"host":"cp-`), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := OpenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if all, err := f.All(); err != nil || len(all) != 0 {
		t.Errorf("%v, %v", all, err)
	}
	if _, err := OpenFile(t.TempDir()); err == nil {
		t.Error("a directory was opened")
	}
}
