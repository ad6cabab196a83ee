package controlplane

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
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
	pushed, err := pushAccounts(t.Context(), store, func() (fence.Secrets, error) { return nil, errors.New("no kubeconfig") })
	if !store.IsPending("cp-1") || len(pushed) > 0 || err == nil || !strings.Contains(err.Error(), "[cp-1]: no kubeconfig") {
		t.Fatalf("%v, %v", pushed, err)
	}
	got := secrets{}
	pushed, err = pushAccounts(t.Context(), store, func() (fence.Secrets, error) { return got, nil })
	if store.IsPending("cp-1") || got["openshift-etcd/fencing-credentials-cp-1"] != "new words" || !slices.Equal(pushed, []string{"cp-1"}) || err != nil {
		t.Errorf("%d Secrets; %v, %v", len(got), pushed, err)
	}
	pushed, err = pushAccounts(t.Context(), store, func() (fence.Secrets, error) { t.Error("the API is asked for nothing"); return nil, nil })
	if len(pushed) > 0 || err != nil {
		t.Errorf("%v, %v", pushed, err)
	}
}
