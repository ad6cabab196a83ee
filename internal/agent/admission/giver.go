// Package admission lets hosts join, in the agent of a control plane: it gives
// each host its configuration and tokens, and decides which requests for a
// kubelet's certificate are approved.
package admission

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"sync"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/keys"
	"github.com/holdfast/holdfast/internal/decide/joining"
	"github.com/holdfast/holdfast/internal/install/configserver"
	"github.com/holdfast/holdfast/internal/install/installer"
	"github.com/holdfast/holdfast/internal/model/jointoken"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
)

// HostLifetime is the validity of a host's own token: the longest time that an
// installation may reasonably take.
const HostLifetime = 24 * time.Hour

// TokenAPI is the part of the API that the Issuer needs.
type TokenAPI interface {
	Nodes(ctx context.Context) ([]state.Node, error)
	BootstrapTokens(ctx context.Context) ([]joining.Token, error)
	CreateBootstrapToken(ctx context.Context, token string, t joining.Token) error
	DeleteBootstrapToken(ctx context.Context, id string) error
}

// Issuer gives joining hosts their configuration and their tokens.
type Issuer struct {
	Site *site.Site
	Key  *Key
	// Open returns the API, or an error until this host's control plane is set
	// up.
	Open func() (TokenAPI, error)
	// Prepare gives bootstrap tokens the rights that joining needs.
	Prepare func(context.Context) error
	// Members returns the members of etcd as they are now, not as they once were.
	Members func(context.Context) ([]joining.Member, error)
	// EncryptionKeys returns the numbers of the keys that encrypt Secrets in etcd
	// on this host now. The numbers in Site are those of its installation.
	EncryptionKeys func() []int
	// Present returns a site's keys, for a host of a role, with the authorities that this
	// host has now: they may have been replaced since its installation.
	Present func(site.Identity, state.Role) (site.Identity, error)
	// Release returns the digest of the release that this host runs, empty if that is not
	// known. It may be nil: then never.
	Release func() string
	// Kubelets returns the kubelet of that release, and the one that this host starts: a host
	// waits for its configuration while the first one is ahead. It may be nil: then they are one.
	Kubelets func(release string) (given, own joining.Kubelet, err error)
	// Third returns the name of the third control plane that a plan brings to two, and the site
	// that it is installed for; an empty name and nil without one. It may be nil: then never.
	Third func() (name string, of *site.Site)
	// First returns what a host of a role gets besides, for the time before it joins.
	First  func(ctx context.Context, role state.Role) installer.First
	Now    func() time.Time
	Random io.Reader

	// one lets Bootstrap run once at a time: it reads a host's tokens and then
	// changes them.
	one sync.Mutex
}

// Read checks a token with the key in force.
func (g *Issuer) Read(ctx context.Context, token string, purpose jointoken.Purpose) (jointoken.Claims, error) {
	key, err := g.Key.Current(ctx)
	if err != nil {
		return jointoken.Claims{}, err
	}
	return jointoken.Read(key, token, purpose, g.Now())
}

// ReadReporter checks the token of a host that reports. It also works while the
// API does not answer, because then the report matters most.
func (g *Issuer) ReadReporter(_ context.Context, token string) (jointoken.Claims, error) {
	return jointoken.Read(g.Key.Known(), token, jointoken.Host, g.Now())
}

// Render returns the configuration that a token opens. The token inside it opens
// no configuration, and ends when the shown one does.
func (g *Issuer) Render(ctx context.Context, shown jointoken.Claims, version string) ([]byte, error) {
	key, err := g.Key.Current(ctx)
	if err != nil {
		return nil, err
	}
	fresh := *g.Site
	if name, of := g.third(); name != "" && shown.Host == name {
		fresh = *of
	}
	fresh.Release = g.release()
	if err := g.wait(fresh.Release); err != nil {
		return nil, err
	}
	if fresh.Identity, err = g.Present(fresh.Identity, shown.Role); err != nil {
		return nil, err
	}
	fresh.Identity.JoinKey = key
	fresh.Identity.EncryptionKeys = g.EncryptionKeys()
	shown.Purpose = jointoken.Admission
	if fresh.Identity.AdmissionToken, err = jointoken.Mint(key, shown); err != nil {
		return nil, err
	}
	return installer.JoinIgnition(&fresh, shown.Role, g.First(ctx, shown.Role), version)
}

// wait returns joining.Later if a host has to wait for a configuration with a release.
func (g *Issuer) wait(release string) error {
	if g.Kubelets == nil {
		return nil
	}
	given, own, err := g.Kubelets(release)
	if err != nil {
		return err
	}
	return joining.Wait(given, own)
}

// release returns the release of this host, empty if that is not known.
func (g *Issuer) release() string {
	if g.Release == nil {
		return ""
	}
	return g.Release()
}

func (g *Issuer) third() (string, *site.Site) {
	if g.Third == nil {
		return "", nil
	}
	return g.Third()
}

// Admit returns a host's own token.
func (g *Issuer) Admit(ctx context.Context, shown jointoken.Claims, host string) (configserver.Secret, error) {
	key, err := g.Key.Current(ctx)
	if err != nil {
		return configserver.Secret{}, err
	}
	return MintToken(key, shown.Role, host, g.Now(), g.Random)
}

// MintToken mints a host's own token. Its id distinguishes this installation of the
// host from others under the same name.
func MintToken(key []byte, role state.Role, host string, now time.Time, random io.Reader) (configserver.Secret, error) {
	id := make([]byte, 8)
	if _, err := io.ReadFull(random, id); err != nil {
		return configserver.Secret{}, err
	}
	until := now.Add(HostLifetime).UTC().Truncate(time.Second)
	token, err := jointoken.Mint(key, jointoken.Claims{
		Purpose: jointoken.Host, Role: role, Host: host, Expires: until, ID: hex.EncodeToString(id),
	})
	return configserver.Secret{Token: token, Expires: until}, err
}

// errNotYet is the answer until hosts can join.
var errNotYet = errors.New("the control plane of this host is not set up yet")

// Bootstrap returns a bootstrap token for a host, a new one for each call: only
// the host that asked last can use its token. A worker gets the Kubernetes CA of now
// with it: that of its configuration may have been replaced since. said is what the host says of
// itself.
func (g *Issuer) Bootstrap(ctx context.Context, own jointoken.Claims, said configserver.JoinRequest) (configserver.Secret, error) {
	g.one.Lock()
	defer g.one.Unlock()
	if !g.Key.Stands() {
		return configserver.Secret{}, errNotYet
	}
	api, err := g.Open()
	if errors.Is(err, fs.ErrNotExist) { // the agent has no access to the API yet, but will soon
		return configserver.Secret{}, errNotYet
	}
	if err != nil {
		return configserver.Secret{}, err
	}
	nodes, err := api.Nodes(ctx)
	if err != nil {
		return configserver.Secret{}, err
	}
	tokens, err := api.BootstrapTokens(ctx)
	if err != nil {
		return configserver.Secret{}, err
	}
	if !own.Role.ControlPlane() {
		said.NewEtcd = "" // kubeadm starts no etcd there, whatever it says
	}
	members, err := g.members(ctx, said)
	if err != nil {
		return configserver.Secret{}, err
	}
	ask := joining.Ask{Host: own.Host, Role: own.Role, By: own.ID, Release: said.Release, NewEtcd: said.NewEtcd}
	who := joining.Of(g.Site.Config)
	who.Third, _ = g.third()
	who.Releases = joining.Releases(g.release(), nodes)
	grant, err := joining.Decide(who, ask, nodes, members, tokens, g.Now())
	if err != nil {
		return configserver.Secret{}, err
	}
	secret, err := g.make(ctx, api, grant)
	if err != nil || own.Role.ControlPlane() {
		return secret, err // a control plane joins with the authorities in its configuration, or not at all
	}
	// Read after the token was made: a rotation that sees no token may go on right before.
	now, err := g.Present(g.Site.Identity, own.Role)
	secret.Authority = now.KubernetesCA.Cert
	return secret, err
}

// membersLimit bounds the question to etcd: who else asks for a token waits meanwhile.
const membersLimit = 5 * time.Second

// members asks for the members of etcd, if the answer to a host needs them.
func (g *Issuer) members(ctx context.Context, said configserver.JoinRequest) (out state.Fact[[]joining.Member], err error) {
	if said.NewEtcd == "" {
		return out, nil
	}
	ctx, stop := context.WithTimeout(ctx, membersLimit)
	defer stop()
	list, err := g.Members(ctx)
	if err != nil {
		return out, fmt.Errorf("the members of etcd: %w", err)
	}
	return state.Known(list), nil
}

func (g *Issuer) make(ctx context.Context, api TokenAPI, grant joining.Grant) (configserver.Secret, error) {
	if err := g.Prepare(ctx); err != nil {
		return configserver.Secret{}, fmt.Errorf("let hosts join: %w", err)
	}
	token, err := keys.BootstrapToken(g.Random)
	if err != nil {
		return configserver.Secret{}, err
	}
	grant.ID, _, _ = strings.Cut(token, ".")
	// Create the new token first: if this is cut off here, the older one still
	// identifies the installation.
	if err := api.CreateBootstrapToken(ctx, token, grant.Token); err != nil {
		return configserver.Secret{}, err
	}
	for _, id := range grant.Replaces {
		if err := api.DeleteBootstrapToken(ctx, id); err != nil {
			return configserver.Secret{}, err
		}
	}
	return configserver.Secret{Token: token, Expires: grant.Expires}, nil
}
