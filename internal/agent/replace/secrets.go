package replace

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"

	"github.com/holdfast/holdfast/internal/agent/carry"
	"github.com/holdfast/holdfast/internal/decide/replace"
	"github.com/holdfast/holdfast/internal/fence"
	"github.com/holdfast/holdfast/internal/model/jointoken"
	modelsite "github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
)

// secrets compares the cluster's Secrets with those of the plan, and the key of join secrets with the
// one that the old host may have.
func (h *here) secrets(ctx context.Context, f *replace.Facts, api API, job Job, next string) {
	has := func(namespace, name, key string, want []byte) state.Fact[bool] {
		data, err := api.Secret(ctx, namespace, name)
		return carry.Fact(len(want) > 0 && bytes.Equal(data[key], want), err)
	}
	f.Token = has(etcdSpace, tokenName, tokenKey, []byte(job.Secrets.Token))
	key, err := clusterJoinKey(ctx, api)
	f.JoinKey = carry.Fact(job.shutsOut(key), err)
	if job.Order != nil && next != "" {
		f.Account = has(fence.SecretNamespace, fence.SecretPrefix+next, "password", []byte(job.Order.Device.Password))
	}
	if job.Plan.Old.Name == "" {
		return
	}
	data, err := api.Secret(ctx, fence.SecretNamespace, fence.SecretPrefix+job.Plan.Old.Name)
	f.Leftover = carry.Fact(data != nil && job.Plan.Old.Name != job.Plan.New.Name, err)
}

// shutsOut reports whether a key of join secrets opens nothing to the old host. It need not be the
// plan's own: 'holdfast join-secret rotate' makes another one at any time.
func (j Job) shutsOut(key []byte) bool {
	if len(j.Secrets.FormerJoinKey) == 0 { // an earlier release began the plan
		return len(j.Secrets.JoinKey) > 0 && bytes.Equal(key, j.Secrets.JoinKey)
	}
	return len(key) >= jointoken.MinKeyBytes && !bytes.Equal(key, j.Secrets.FormerJoinKey)
}

// clusterJoinKey returns the cluster's key of join secrets, empty if it has none.
func clusterJoinKey(ctx context.Context, api API) ([]byte, error) {
	data, err := api.Secret(ctx, jointoken.KeyNamespace, jointoken.KeySecret)
	return data[jointoken.KeyField], err
}

// joinKey returns the key of join secrets in force: the cluster's, and if it has none the one that
// this host has.
func (h *here) joinKey(ctx context.Context) (key []byte, err error) {
	err = h.in(func(api API) error {
		key, err = clusterJoinKey(ctx, api)
		return err
	})
	if err != nil || len(key) >= jointoken.MinKeyBytes {
		return key, err
	}
	key, err = os.ReadFile(h.path(modelsite.JoinKeyPath))
	if errors.Is(err, fs.ErrNotExist) {
		return h.JoinKey, nil
	}
	return key, err
}

// refused finds out whether this host's own BMC still takes the account that the old host has.
// The cluster's Secret holds that account until the plan writes the new one there.
func (h *here) refused(ctx context.Context, f *replace.Facts, api API, job Job) {
	if job.Order == nil || job.Order.Own.Password == "" || job.begun() {
		return
	}
	data, err := api.Secret(ctx, fence.SecretNamespace, fence.SecretPrefix+h.Host)
	own, unnamed := h.own()
	if err != nil || unnamed != nil {
		return
	}
	dev := state.FencingDevice{
		Target: h.Host, Address: string(data["address"]), Username: job.Order.Own.Username, Password: job.Order.Own.Password, UUID: own.UUID, Serial: own.Serial,
		Insecure: string(data["certificateVerification"]) == "Disabled", Fingerprint: string(data[state.FencingPinKey]), LegacyTLS: string(data["tls"]) == "Legacy",
	}
	if first := string(data[state.FencingFirstPinKey]); dev.Fingerprint == "" && first != "" {
		dev.Fingerprint = first
	}
	if h.test(ctx, dev).Err() != nil {
		return // the new account does not work, so nothing is known
	}
	dev.Username, dev.Password = string(data["username"]), string(data["password"])
	f.Refused = state.Known(h.test(ctx, dev).Repair() == state.SetAccount)
}
