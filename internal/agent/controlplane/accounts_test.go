package controlplane

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/records"
	"github.com/holdfast/holdfast/internal/fence"
	"github.com/holdfast/holdfast/internal/model/state"
)

// secrets keeps the passwords that it is given.
type secrets map[string]string

func (s secrets) PutSecret(_ context.Context, namespace, name string, data map[string][]byte) error {
	s[namespace+"/"+name] = string(data["password"])
	return nil
}

func TestTheClusterIsToldOfAnAccountOnceTheAPIIsBack(t *testing.T) {
	store := fence.Store{Files: records.Files{Root: t.TempDir()}}
	if _, err := store.Files.WriteDevice(state.FencingDevice{Target: "cp-1", Address: "https://10.0.0.1", Username: "admin", Password: "new words"}); err != nil {
		t.Fatal(err)
	}
	if err := host.WriteFileAtomic(store.Files.Path(state.FencingPendingDir+"/cp-1"), nil, 0o600); err != nil {
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
