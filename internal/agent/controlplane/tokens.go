package controlplane

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/holdfast/holdfast/internal/installer"
	"github.com/holdfast/holdfast/internal/keys"
	"github.com/holdfast/holdfast/internal/site"
	"github.com/holdfast/holdfast/internal/state"
)

// tokenReserve is how much life a bootstrap token must have left when a host
// is given it: the host may be slow, or be switched off for a while.
const tokenReserve = 6 * time.Hour

// tokenAPI is the cluster's part in bootstrap tokens.
type tokenAPI interface {
	BootstrapTokenExpiry(ctx context.Context, id string) (time.Time, bool, error)
	CreateBootstrapToken(ctx context.Context, token string, expires time.Time) error
}

// joiner renders the configuration of joining hosts with secrets that are good
// for a day from now, however old the cluster is.
type joiner struct {
	site *site.Site
	// cluster returns the API, or an error that is fs.ErrNotExist before this
	// host has access to one.
	cluster func() (tokenAPI, error)
	// founded reports whether this host's own control plane stands.
	founded func() bool
	now     func() time.Time
	random  io.Reader
	// keys are the numbers of the keys of secrets in etcd as this host has them now.
	keys func() []int

	mu     sync.Mutex
	minted string
	until  time.Time
}

// render is the configuration of a role in a spec version.
func (j *joiner) render(ctx context.Context, role state.Role, version string) ([]byte, error) {
	token, err := j.bootstrapToken(ctx)
	if err != nil {
		return nil, err
	}
	fresh := *j.site
	if j.keys != nil {
		fresh.Identity.EncryptionKeys = j.keys()
	}
	fresh.Identity.BootstrapToken = token
	fresh.Identity.JoinUntil = j.now().Add(site.JoinLifetime).UTC().Truncate(time.Second)
	return installer.RoleIgnition(&fresh, role, nil, version)
}

// bootstrapToken returns a token that kubeadm accepts: the site's own on its
// first day, one of this host's making from then on.
func (j *joiner) bootstrapToken(ctx context.Context) (string, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	own, now := j.site.Identity.BootstrapToken, j.now()
	if j.minted != "" && now.Add(tokenReserve).Before(j.until) {
		return j.minted, nil
	}
	api, good, err := j.ownIsGood(ctx, own, now)
	switch {
	case err != nil && !j.founded():
		return own, nil // kubeadm init, under way on the first host, makes the site's own token
	case err != nil:
		return "", fmt.Errorf("no token for a joining host: %w", err)
	case good:
		return own, nil
	}
	return j.mint(ctx, api, now)
}

// ownIsGood asks the cluster for the site's own token.
func (j *joiner) ownIsGood(ctx context.Context, own string, now time.Time) (tokenAPI, bool, error) {
	api, err := j.cluster()
	if err != nil {
		return nil, false, err
	}
	id, _, _ := strings.Cut(own, ".")
	ends, known, err := api.BootstrapTokenExpiry(ctx, id)
	if err != nil {
		return nil, false, err
	}
	if !known && !j.founded() {
		return api, true, nil // kubeadm init is about to make it
	}
	return api, known && (ends.IsZero() || now.Add(tokenReserve).Before(ends)), nil
}

func (j *joiner) mint(ctx context.Context, api tokenAPI, now time.Time) (string, error) {
	token, err := keys.BootstrapToken(j.random)
	if err != nil {
		return "", err
	}
	until := now.Add(site.JoinLifetime)
	if err := api.CreateBootstrapToken(ctx, token, until); err != nil {
		return "", err
	}
	j.minted, j.until = token, until
	return token, nil
}
