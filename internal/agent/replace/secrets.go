package replace

import (
	"bytes"
	"context"

	"github.com/holdfast/holdfast/internal/agent/carry"
	"github.com/holdfast/holdfast/internal/decide/replace"
	"github.com/holdfast/holdfast/internal/fence"
	"github.com/holdfast/holdfast/internal/model/jointoken"
	"github.com/holdfast/holdfast/internal/model/state"
)

// secrets compares the cluster's Secrets with those of the plan.
func (h *here) secrets(ctx context.Context, f *replace.Facts, api API, job Job, next string) {
	has := func(namespace, name, key string, want []byte) state.Fact[bool] {
		data, err := api.Secret(ctx, namespace, name)
		return carry.Fact(len(want) > 0 && bytes.Equal(data[key], want), err)
	}
	f.Token = has(etcdSpace, tokenName, tokenKey, []byte(job.Secrets.Token))
	f.JoinKey = has(jointoken.KeyNamespace, jointoken.KeySecret, jointoken.KeyField, job.Secrets.JoinKey)
	if job.Order != nil && next != "" {
		f.Account = has(fence.SecretNamespace, fence.SecretPrefix+next, "password", []byte(job.Order.Device.Password))
	}
	if job.Plan.Old.Name == "" {
		return
	}
	data, err := api.Secret(ctx, fence.SecretNamespace, fence.SecretPrefix+job.Plan.Old.Name)
	f.Leftover = carry.Fact(data != nil && job.Plan.Old.Name != job.Plan.New.Name, err)
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
