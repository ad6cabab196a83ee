package admission

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/decide/joining"
	"github.com/holdfast/holdfast/internal/install/configserver"
	"github.com/holdfast/holdfast/internal/install/installer"
	"github.com/holdfast/holdfast/internal/model/ignition"
	"github.com/holdfast/holdfast/internal/model/jointoken"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/sitetest"
)

// cluster plays an API with nodes and bootstrap tokens.
type cluster struct {
	nodes  []state.Node
	tokens []joining.Token
	given  []string
	err    error
	stands bool
	now    time.Time
	key    []byte
}

func (c *cluster) Nodes(context.Context) ([]state.Node, error) { return c.nodes, c.err }

func (c *cluster) BootstrapTokens(context.Context) ([]joining.Token, error) {
	return slices.Clone(c.tokens), c.err
}

func (c *cluster) CreateBootstrapToken(_ context.Context, token string, t joining.Token) error {
	c.given, c.tokens = append(c.given, token), append(c.tokens, t)
	return c.err
}

func (c *cluster) DeleteBootstrapToken(_ context.Context, id string) error {
	c.tokens = slices.DeleteFunc(c.tokens, func(t joining.Token) bool { return t.ID == id })
	return c.err
}

func newGiver(t *testing.T, c *cluster, config string) *Issuer {
	t.Helper()
	s := sitetest.New(t, config)
	c.now = sitetest.Created
	now := func() time.Time { return c.now }
	return &Issuer{
		Site: s, Random: rand.Reader, Now: now,
		Open: func() (TokenAPI, error) { return c, nil }, Prepare: func(context.Context) error { return nil },
		Key: &Key{
			Own: s.Identity.JoinKey, Path: t.TempDir() + "/join-key", Stands: func() bool { return c.stands }, Now: now,
			Ask: func(context.Context) ([]byte, error) { return c.key, c.err },
		},
		EncryptionKeys: func() []int { return s.Identity.EncryptionKeys },
		Present:        func(id site.Identity, _ state.Role) (site.Identity, error) { return id, nil },
		First:          func(context.Context, state.Role) installer.First { return installer.First{} },
	}
}

// served returns the site that a host gets for a pointer's token.
func served(t *testing.T, g *Issuer, token string) *site.Site {
	t.Helper()
	text, _ := servedFile(t, g, token, site.Path)
	s, err := site.Unmarshal(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// servedFile returns the contents and the mode of a file that a host gets; nil for none.
func servedFile(t *testing.T, g *Issuer, token, path string) ([]byte, int) {
	t.Helper()
	shown, err := g.Read(t.Context(), token, jointoken.Config)
	if err != nil {
		t.Fatal(err)
	}
	data, err := g.Render(t.Context(), shown, ignition.Newest)
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := ignition.Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range cfg.Storage.Files {
		if f.Path != path {
			continue
		}
		text, err := ignition.Contents(f.Contents)
		if err != nil {
			t.Fatal(err)
		}
		return text, *f.Mode
	}
	return nil, 0
}

// TestAHostThatJoinsGetsTheFilesOfItsRole beside those of every host, as they are.
func TestAHostThatJoinsGetsTheFilesOfItsRole(t *testing.T) {
	g := newGiver(t, &cluster{}, sitetest.TwoDual)
	until := sitetest.Created.Add(time.Hour)
	const path = "/etc/holdfast/x"
	for _, role := range []state.Role{state.RoleMaster, state.RoleWorker} {
		g.First = func(_ context.Context, of state.Role) installer.First {
			return installer.First{Files: []state.File{{Path: path, Data: []byte("for a " + string(of)), Mode: state.SecretFileMode}}}
		}
		if text, mode := servedFile(t, g, pointer(t, g, role, until), path); string(text) != "for a "+string(role) || mode != int(state.SecretFileMode) {
			t.Errorf("a %s gets %q with mode %o", role, text, mode)
		}
		g.First = func(context.Context, state.Role) installer.First { return installer.First{} }
		if text, _ := servedFile(t, g, pointer(t, g, role, until), path); text != nil {
			t.Errorf("a %s gets %q", role, text)
		}
	}
}

func pointer(t *testing.T, g *Issuer, role state.Role, until time.Time) string {
	t.Helper()
	s := *g.Site
	s.Identity.JoinUntil = until
	token, err := s.JoinToken(role, "")
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// A host that joins days after the installation gets the keys of that day.
func TestAHostThatJoinsGetsTheKeysOfNow(t *testing.T) {
	g := newGiver(t, &cluster{}, sitetest.TwoDual)
	g.EncryptionKeys = func() []int { return []int{4, 3} }
	until := sitetest.Created.Add(time.Hour)
	if got := served(t, g, pointer(t, g, state.RoleMaster, until)).Identity.EncryptionKeys; !slices.Equal(got, []int{4, 3}) {
		t.Errorf("a control plane gets %v", got)
	}
	if id := served(t, g, pointer(t, g, state.RoleWorker, until)).Identity; id.EncryptionKeys != nil || id.EncryptionRoot != nil {
		t.Error("a worker gets keys")
	}
}

// TestAHostThatJoinsIsToldWhichReleaseTheSiteRuns at that time, and not which one ran when the host that
// serves joined.
func TestAHostThatJoinsIsToldWhichReleaseTheSiteRuns(t *testing.T) {
	g := newGiver(t, &cluster{}, sitetest.TwoDual)
	g.Site.Release = "sha256:first"
	until := sitetest.Created.Add(time.Hour)
	for _, role := range []state.Role{state.RoleMaster, state.RoleWorker} {
		g.Release = nil
		if got := served(t, g, pointer(t, g, role, until)).Release; got != "" {
			t.Errorf("a %s is told %q, and nobody knows", role, got)
		}
		g.Release = func() string { return "sha256:second" }
		s := served(t, g, pointer(t, g, role, until))
		if s.Release != "sha256:second" || s.Settled().Release != "" {
			t.Errorf("a %s is told %q and keeps %q", role, s.Release, s.Settled().Release)
		}
	}
}

// Before, a host that asked a control plane of the new release got its kubelet, which was newer than
// what API servers behave as until the commit.
func TestAHostGetsNoConfigurationWhileItsKubeletWouldBeAheadOfTheSite(t *testing.T) {
	g := newGiver(t, &cluster{}, sitetest.TwoDual)
	g.Release = func() string { return "sha256:second" }
	until := sitetest.Created.Add(time.Hour)
	own, unknown := "sha256:first", error(nil)
	g.Kubelets = func(release string) (joining.Kubelet, joining.Kubelet, error) {
		return joining.Kubelet{Release: release}, joining.Kubelet{Release: own}, unknown
	}
	render := func(role state.Role) error {
		shown, err := g.Read(t.Context(), pointer(t, g, role, until), jointoken.Config)
		if err != nil {
			t.Fatal(err)
		}
		_, err = g.Render(t.Context(), shown, ignition.Newest)
		return err
	}
	for _, role := range []state.Role{state.RoleMaster, state.RoleWorker} {
		if _, waits := errors.AsType[joining.Later](render(role)); !waits {
			t.Errorf("a %s does not wait", role)
		}
	}
	own = "sha256:second"
	if got := served(t, g, pointer(t, g, state.RoleWorker, until)).Release; got != own {
		t.Errorf("once the site has risen a worker is told %q", got)
	}
	unknown = errors.New("details")
	if err := render(state.RoleWorker); !errors.Is(err, unknown) {
		t.Errorf("nobody knows: %v", err)
	}
}

// docs/attacks.md, F4: a worker could open the server for 350 days, with its
// first token and then each time with the one from the answer before.
func TestNoSecretLivesLongerThanTheOneItWasGotWith(t *testing.T) {
	c := &cluster{}
	g := newGiver(t, c, sitetest.TwoDual)
	c.stands = true
	first := c.now.Add(24 * time.Hour)
	token := pointer(t, g, state.RoleWorker, first)
	c.now = c.now.Add(23 * time.Hour)
	admission := served(t, g, token).Identity.AdmissionToken
	shown, err := g.Read(t.Context(), admission, jointoken.Admission)
	if err != nil || !shown.Expires.Equal(first) {
		t.Fatalf("the admission ends %s, the pointer %s (%v)", shown.Expires, first, err)
	}
	own, err := g.Admit(t.Context(), shown, "worker-1")
	if err != nil {
		t.Fatal(err)
	}
	for name, given := range map[string]string{"admission": admission, "host's own": own.Token} {
		if _, err := g.Read(t.Context(), given, jointoken.Config); !errors.Is(err, jointoken.ErrInvalid) {
			t.Errorf("the %s token opens a configuration: %v", name, err)
		}
	}
	c.now = first
	for _, purpose := range []jointoken.Purpose{jointoken.Config, jointoken.Admission} {
		for _, given := range []string{token, admission, own.Token} {
			if _, err := g.Read(t.Context(), given, purpose); err == nil {
				t.Errorf("a token opens %s after the first one ended", purpose)
			}
		}
	}
	// The host itself may still report and join for its day.
	if claims, err := g.Read(t.Context(), own.Token, jointoken.Host); err != nil || claims.Host != "worker-1" {
		t.Errorf("%+v, %v", claims, err)
	}
	c.now = first.Add(23 * time.Hour)
	if _, err := g.Read(t.Context(), own.Token, jointoken.Host); !errors.Is(err, jointoken.ErrExpired) {
		t.Errorf("after a day: %v", err)
	}
}

func TestAPointerOfOneHostAdmitsThatOneOnly(t *testing.T) {
	c := &cluster{}
	g := newGiver(t, c, sitetest.TwoDual)
	token, err := g.Site.JoinToken(state.RoleWorker, "worker-7")
	if err != nil {
		t.Fatal(err)
	}
	shown, err := g.Read(t.Context(), served(t, g, token).Identity.AdmissionToken, jointoken.Admission)
	if err != nil || shown.Host != "worker-7" || shown.Opens(state.RoleWorker, "worker-8") == nil {
		t.Errorf("%+v, %v", shown, err)
	}
}

func TestAConfigurationBringsNoBootstrapToken(t *testing.T) {
	c := &cluster{}
	g := newGiver(t, c, sitetest.TwoDual)
	for _, stands := range []bool{false, true} {
		c.stands = stands
		worker := served(t, g, pointer(t, g, state.RoleWorker, c.now.Add(time.Hour)))
		if worker.Identity.AdmissionToken == "" || len(worker.Identity.JoinKey) > 0 {
			t.Errorf("a worker is given %+v", worker.Identity)
		}
		master := served(t, g, pointer(t, g, state.RoleMaster, c.now.Add(time.Hour)))
		if master.Identity.AdmissionToken != "" || string(master.Identity.JoinKey) != string(g.Site.Identity.JoinKey) {
			t.Error("a control plane is given no key of its own")
		}
	}
	if len(c.given) > 0 {
		t.Errorf("tokens were made: %v", c.given)
	}
	if g.Site.Identity.AdmissionToken != "" || !g.Site.Identity.JoinUntil.IsZero() {
		t.Error("rendering changed the site")
	}
}

// A rotation ends everything that the old key signed, at once and on every
// control plane.
func TestAnotherKeyEndsAllSecretsAndIsTheOneOfNewControlPlanes(t *testing.T) {
	c := &cluster{}
	g := newGiver(t, c, sitetest.TwoDual)
	c.stands = true
	old := pointer(t, g, state.RoleMaster, c.now.Add(24*time.Hour))
	served(t, g, old)
	c.key, c.now = keyOf("second"), c.now.Add(keyAge)
	if _, err := g.Read(t.Context(), old, jointoken.Config); !errors.Is(err, jointoken.ErrInvalid) {
		t.Errorf("the old secret: %v", err)
	}
	g.Site.Identity.JoinKey = c.key
	fresh := pointer(t, g, state.RoleMaster, c.now.Add(time.Hour))
	g.Site.Identity.JoinKey = keyOf("first")
	if s := served(t, g, fresh); string(s.Identity.JoinKey) != string(c.key) {
		t.Errorf("a new control plane is given the key %q", s.Identity.JoinKey)
	}
}

func TestWhatIsGivenToAHostThatAsksForItsBootstrapToken(t *testing.T) {
	ready := state.Node{Name: "cp-1", Ready: true, Labels: map[string]string{state.LabelControlPlane: ""}}
	own := jointoken.Claims{Purpose: jointoken.Host, Role: state.RoleWorker, Host: "worker-1", ID: "by"}
	for _, x := range []struct {
		name    string
		cluster cluster
		open    error
		prepare error
		want    string // empty: a token is given; else "later" or the text of a refusal
	}{
		{"on the first day", cluster{stands: true, nodes: []state.Node{ready}}, nil, nil, ""},
		{"while kubeadm init runs", cluster{}, nil, nil, "later"},
		{"while the API is down", cluster{stands: true, err: errors.New("refused")}, nil, nil, "later"},
		{"when this host lost its access", cluster{stands: true}, fs.ErrNotExist, nil, "later"},
		{"while a token would open nothing", cluster{stands: true}, nil, errors.New("no roles"), "later"},
		{"by the name of a node", cluster{stands: true, nodes: []state.Node{ready, {Name: "worker-1"}}}, nil, nil, "worker-1 is already a node of this cluster"},
	} {
		t.Run(x.name, func(t *testing.T) {
			g := newGiver(t, &x.cluster, sitetest.TwoDual)
			if x.open != nil {
				g.Open = func() (TokenAPI, error) { return nil, x.open }
			}
			g.Prepare = func(context.Context) error { return x.prepare }
			got, err := g.Bootstrap(t.Context(), own, configserver.JoinRequest{})
			_, refused := errors.AsType[joining.Refusal](err)
			switch {
			case x.want == "" && (err != nil || len(x.cluster.given) != 1 || got.Token != x.cluster.given[0] || !got.Expires.Equal(x.cluster.now.Add(time.Hour))):
				t.Errorf("given %+v, made %v, %v", got, x.cluster.given, err)
			case x.want == "later" && (err == nil || refused):
				t.Errorf("given %+v, %v: the host would not ask again", got, err)
			case x.want != "" && x.want != "later" && (!refused || !strings.Contains(err.Error(), x.want)):
				t.Errorf("got %v", err)
			}
			if x.want != "" && len(x.cluster.tokens) > 0 {
				t.Errorf("made %v", x.cluster.tokens)
			}
		})
	}
}

// A host whose configuration is from before an upgrade would be one of another release for good.
func TestAHostOfAFormerReleaseGetsNoBootstrapToken(t *testing.T) {
	for release, want := range map[string]string{"sha256:running": "", "": "", "sha256:former": "the site runs sha256:running"} {
		c := &cluster{stands: true}
		g := newGiver(t, c, sitetest.TwoDual)
		g.Release = func() string { return "sha256:running" }
		_, err := g.Bootstrap(t.Context(), jointoken.Claims{Purpose: jointoken.Host, Role: state.RoleWorker, Host: "worker-1", ID: "by"}, configserver.JoinRequest{Release: release})
		_, refused := errors.AsType[joining.Refusal](err)
		if refused != (want != "") || refused && !strings.Contains(err.Error(), want) || len(c.given) == 0 != refused {
			t.Errorf("%q: %v, given %v", release, err, c.given)
		}
	}
}

// TestAWorkerGetsTheAuthorityOfNowWithItsBootstrapToken: that of its configuration may have been replaced while its
// installation paused. A control plane joins with all authorities of its configuration or not at all.
func TestAWorkerGetsTheAuthorityOfNowWithItsBootstrapToken(t *testing.T) {
	for _, who := range []struct {
		role       state.Role
		host, want string
	}{{state.RoleWorker, "worker-1", "the authority of now"}, {state.RoleMaster, "cp-2", ""}} {
		role, want := who.role, who.want
		c := &cluster{stands: true}
		g := newGiver(t, c, sitetest.TwoDual)
		g.Present = func(id site.Identity, of state.Role) (site.Identity, error) {
			if of != role || len(c.tokens) != 1 {
				t.Errorf("read for a %s beside %d tokens: the rotation may go on before there is one", of, len(c.tokens))
			}
			id.KubernetesCA.Cert = "the authority of now"
			return id, nil
		}
		own := jointoken.Claims{Purpose: jointoken.Host, Role: role, Host: who.host, ID: "by"}
		if got, err := g.Bootstrap(t.Context(), own, configserver.JoinRequest{}); err != nil || got.Authority != want || got.Token == "" {
			t.Errorf("a %s gets %+v, %v", role, got, err)
		}
	}
	g := newGiver(t, &cluster{stands: true}, sitetest.TwoDual)
	g.Present = func(site.Identity, state.Role) (site.Identity, error) { return site.Identity{}, errors.New("damaged") }
	if _, err := g.Bootstrap(t.Context(), jointoken.Claims{Role: state.RoleWorker, Host: "worker-1"}, configserver.JoinRequest{}); err == nil || err.Error() != "damaged" {
		t.Errorf("the host would join with the authority of its configuration: %v", err)
	}
}

// TestAHostThatLostAKeyTakesInNoControlPlane and no installation's authority is given in its place.
func TestAHostThatLostAKeyTakesInNoControlPlane(t *testing.T) {
	g := newGiver(t, &cluster{}, sitetest.TwoDual)
	g.Present = func(id site.Identity, of state.Role) (site.Identity, error) {
		if of.ControlPlane() {
			return site.Identity{}, errors.New("this host has no ca.key: it takes in no control plane")
		}
		return id, nil
	}
	until := g.Now().Add(time.Hour)
	served(t, g, pointer(t, g, state.RoleWorker, until))
	shown, err := g.Read(t.Context(), pointer(t, g, state.RoleMaster, until), jointoken.Config)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.Render(t.Context(), shown, ignition.Newest); err == nil || !strings.Contains(err.Error(), "this host has no ca.key") {
		t.Errorf("a control plane gets its configuration: %v", err)
	}
}

func TestAHostThatAsksAMomentTooEarlyIsToldSo(t *testing.T) {
	c := &cluster{stands: true}
	g := newGiver(t, c, sitetest.TwoDual)
	g.Open = func() (TokenAPI, error) {
		return nil, &fs.PathError{Op: "stat", Path: state.AgentKubeconfig, Err: fs.ErrNotExist}
	}
	if _, err := g.Bootstrap(t.Context(), jointoken.Claims{Role: state.RoleWorker, Host: "worker-1"}, configserver.JoinRequest{}); !errors.Is(err, errNotYet) {
		t.Errorf("%v", err)
	}
}

func TestAHostHasOneBootstrapTokenAtATime(t *testing.T) {
	c := &cluster{}
	g := newGiver(t, c, sitetest.TwoDual)
	c.stands = true
	for i, host := range []string{"worker-1", "worker-1", "worker-2", "worker-1"} {
		own := jointoken.Claims{Purpose: jointoken.Host, Role: state.RoleWorker, Host: host, ID: "by-" + host}
		if _, err := g.Bootstrap(t.Context(), own, configserver.JoinRequest{}); err != nil {
			t.Fatal(err)
		}
		seen := map[string]int{}
		for _, tok := range c.tokens {
			seen[tok.Host]++
		}
		if seen[host] != 1 {
			t.Errorf("after %d: %v", i, c.tokens)
		}
	}
	if len(slices.Compact(slices.Sorted(slices.Values(c.given)))) != 4 {
		t.Errorf("a token was given twice: %v", c.given)
	}
}

// docs/facts/ingress.md#cases, 21: a worker joins after 30 days.
func TestAHostThatJoinsAfterThirtyDaysGetsSecretsThatOpen(t *testing.T) {
	c := &cluster{}
	g := newGiver(t, c, sitetest.TwoDual)
	c.stands, c.now = true, c.now.Add(30*24*time.Hour)
	worker := served(t, g, pointer(t, g, state.RoleWorker, c.now.Add(2*time.Hour)))
	shown, err := g.Read(t.Context(), worker.Identity.AdmissionToken, jointoken.Admission)
	if err != nil {
		t.Fatal(err)
	}
	own, err := g.Admit(t.Context(), shown, "worker-1")
	if err != nil {
		t.Fatal(err)
	}
	c.now = c.now.Add(23 * time.Hour)
	claims, err := g.ReadReporter(t.Context(), own.Token)
	if err != nil || claims.Host != "worker-1" || claims.Role != state.RoleWorker {
		t.Errorf("the host could not report its progress: %+v, %v", claims, err)
	}
	if token, err := g.Bootstrap(t.Context(), claims, configserver.JoinRequest{}); err != nil || token.Expires.Before(c.now.Add(joining.TokenLifetime)) {
		t.Errorf("%+v, %v", token, err)
	}
}

// While the API is away, reports are accepted and no secret is given.
func TestReportsAreTakenWhileTheAPIIsAway(t *testing.T) {
	c := &cluster{}
	g := newGiver(t, c, sitetest.TwoDual)
	own, err := MintToken(g.Site.Identity.JoinKey, state.RoleWorker, "worker-1", c.now, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c.stands, c.err = true, errors.New("refused")
	if _, err := g.ReadReporter(t.Context(), own.Token); err != nil {
		t.Errorf("a report: %v", err)
	}
	if _, err := g.Read(t.Context(), own.Token, jointoken.Host); err == nil || errors.Is(err, jointoken.ErrInvalid) {
		t.Errorf("a token is checked by a key that may not count: %v", err)
	}
}
