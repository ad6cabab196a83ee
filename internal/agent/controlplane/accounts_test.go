package controlplane

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/fence"
	"github.com/holdfast/holdfast/internal/state"
)

// secrets keeps the passwords that it is given.
type secrets map[string]string

func (s secrets) PutSecret(_ context.Context, namespace, name string, data map[string][]byte) error {
	s[namespace+"/"+name] = string(data["password"])
	return nil
}

func TestTheClusterIsToldOfAnAccountOnceTheAPIIsBack(t *testing.T) {
	dir := t.TempDir()
	store := fence.Store{Dir: filepath.Join(dir, "devices"), Pending: filepath.Join(dir, "pending")}
	for _, d := range []string{store.Dir, store.Pending} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	data, err := json.Marshal(state.FencingDevice{Target: "cp-1", Address: "https://10.0.0.1", Username: "admin", Password: "new words"})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(store.Dir, "cp-1.json"), data, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(store.Pending, "cp-1"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	logf := func(format string, args ...any) { fmt.Fprintf(&said, format+"\n", args...) }
	pushAccounts(t.Context(), store, func() (fence.Secrets, error) { return nil, errors.New("no kubeconfig") }, logf)
	if !store.IsPending("cp-1") || !strings.Contains(said.String(), "no kubeconfig") {
		t.Fatalf("it said %s", said.String())
	}
	got := secrets{}
	pushAccounts(t.Context(), store, func() (fence.Secrets, error) { return got, nil }, logf)
	if store.IsPending("cp-1") || got["openshift-etcd/fencing-credentials-cp-1"] != "new words" || strings.Contains(said.String(), "words") {
		t.Errorf("Secrets %v; it said %s", len(got), said.String())
	}
	pushAccounts(t.Context(), store, func() (fence.Secrets, error) { t.Error("the API is asked for nothing"); return nil, nil }, logf)
}
