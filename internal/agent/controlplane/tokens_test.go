package controlplane

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/ignition"
	"github.com/holdfast/holdfast/internal/jointoken"
	"github.com/holdfast/holdfast/internal/site"
	"github.com/holdfast/holdfast/internal/sitetest"
	"github.com/holdfast/holdfast/internal/state"
)

// cluster is an API with bootstrap tokens and a clock.
type cluster struct {
	tokens  map[string]time.Time // id to expiry
	created []string
	err     error
	founded bool
	now     time.Time
}

func (c *cluster) BootstrapTokenExpiry(_ context.Context, id string) (time.Time, bool, error) {
	at, known := c.tokens[id]
	return at, known && (at.IsZero() || c.now.Before(at)), c.err // the controller manager removes ended ones
}

func (c *cluster) CreateBootstrapToken(_ context.Context, token string, expires time.Time) error {
	c.created = append(c.created, token)
	c.tokens[token[:6]] = expires
	return c.err
}

func newJoiner(t *testing.T, c *cluster) *joiner {
	t.Helper()
	if c.tokens == nil {
		c.tokens = map[string]time.Time{}
	}
	return &joiner{
		site: sitetest.New(t, sitetest.TwoDual), random: rand.Reader,
		cluster: func() (tokenAPI, error) { return c, nil },
		founded: func() bool { return c.founded }, now: func() time.Time { return c.now },
	}
}

// served returns what a host of a role is given.
func served(t *testing.T, j *joiner, role state.Role) *site.Site {
	t.Helper()
	data, err := j.render(t.Context(), role, ignition.Newest)
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := ignition.Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range cfg.Storage.Files {
		if f.Path != site.Path {
			continue
		}
		text, err := ignition.Contents(f.Contents)
		if err != nil {
			t.Fatal(err)
		}
		s, err := site.Unmarshal(text)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	t.Fatal("no site in the configuration")
	return nil
}

const own = "abcdef.0123456789abcdef"

func TestWhichBootstrapTokenAHostIsGiven(t *testing.T) {
	now := sitetest.Created
	for _, c := range []struct {
		name    string
		cluster cluster
		noAPI   error
		want    string // own, minted or error
	}{
		{"before the cluster starts", cluster{}, fs.ErrNotExist, "own"},
		{"while kubeadm init runs", cluster{err: errors.New("refused")}, nil, "own"},
		{"before kubeadm made the token", cluster{}, nil, "own"},
		{"on the first day", cluster{founded: true, tokens: map[string]time.Time{"abcdef": now.Add(20 * time.Hour)}}, nil, "own"},
		{"with a token that never ends", cluster{founded: true, tokens: map[string]time.Time{"abcdef": {}}}, nil, "own"},
		{"shortly before the token ends", cluster{founded: true, tokens: map[string]time.Time{"abcdef": now.Add(time.Hour)}}, nil, "minted"},
		{"after it ended", cluster{founded: true}, nil, "minted"},
		{"later, while the API is down", cluster{founded: true, err: errors.New("refused")}, nil, "error"},
		{"later, when this host lost its access", cluster{founded: true}, fs.ErrNotExist, "error"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.cluster.now = now
			j := newJoiner(t, &c.cluster)
			if c.noAPI != nil {
				j.cluster = func() (tokenAPI, error) { return nil, c.noAPI }
			}
			got, err := j.bootstrapToken(t.Context())
			switch c.want {
			case "error":
				if err == nil {
					t.Errorf("given %s: the host would keep a token that opens nothing", got)
				}
			case "own":
				if err != nil || got != own {
					t.Errorf("given %s, %v", got, err)
				}
			default:
				if err != nil || len(c.cluster.created) != 1 || got != c.cluster.created[0] {
					t.Errorf("given %s, made %v, %v", got, c.cluster.created, err)
				}
			}
		})
	}
}

func TestOneTokenServesTheHostsOfADay(t *testing.T) {
	c := &cluster{now: sitetest.Created, founded: true}
	j := newJoiner(t, c)
	var got []string
	for range 3 {
		token, err := j.bootstrapToken(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, token)
		c.now = c.now.Add(10 * time.Hour)
	}
	if got[0] != got[1] || got[1] == got[2] || len(c.created) != 2 {
		t.Errorf("given %v", got)
	}
}

// ingress-installer.md, hard case 21: a worker joins after 30 days.
func TestAHostThatJoinsAfterThirtyDaysGetsSecretsThatOpen(t *testing.T) {
	c := &cluster{now: sitetest.Created.Add(30 * 24 * time.Hour), founded: true}
	j := newJoiner(t, c)
	worker := served(t, j, state.RoleWorker)
	token := worker.Identity.BootstrapToken
	if ends, known := c.tokens[token[:6]]; token == own || !known || ends.Sub(c.now) != site.JoinLifetime {
		t.Errorf("kubeadm's token %s ends %s", token[:6], ends)
	}
	key := sitetest.New(t, sitetest.TwoDual).Identity.JoinKey
	if err := jointoken.Verify(key, worker.Identity.JoinToken, state.RoleWorker, c.now.Add(23*time.Hour)); err != nil {
		t.Errorf("the host could not report its progress: %v", err)
	}
	if master := served(t, j, state.RoleMaster); master.Identity.BootstrapToken != token {
		t.Error("another host of the same day got another token")
	}
	if j.site.Identity.BootstrapToken != own || !j.site.Identity.JoinUntil.IsZero() {
		t.Error("rendering changed the site")
	}
}
