package joining

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast/holdfast/internal/decide/upgrade/annotation"
	"github.com/holdfast/holdfast/internal/decide/upgrade/gate"
	"github.com/holdfast/holdfast/internal/model/config"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/sitetest"
)

var (
	now = time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	two = Site{ControlPlanes: 2, Fenced: []string{"cp-1", "cp-2"}, Named: []string{"cp-1", "cp-2"}, Shares: 256}
	// three is a site that names none of its control planes.
	three = Site{ControlPlanes: 3, Shares: 256}
	one   = Site{ControlPlanes: 1, Shares: 512}
)

func controlPlane(name string, ready bool) state.Node {
	return state.Node{Name: name, Ready: ready, Labels: map[string]string{state.LabelControlPlane: ""}}
}

func node(name string, ready bool) state.Node { return state.Node{Name: name, Ready: ready} }

// refusedWith fails unless the error is a Refusal with these words; no words
// mean no error.
func refusedWith(t *testing.T, err error, words string) {
	t.Helper()
	_, refusal := errors.AsType[Refusal](err)
	switch {
	case words == "" && err != nil:
		t.Errorf("refused: %v", err)
	case words != "" && (!refusal || !strings.Contains(err.Error(), words)):
		t.Errorf("got %v, want a refusal with %q", err, words)
	}
}

func TestWhatAConfigurationSaysOfWhoJoins(t *testing.T) {
	if diff := cmp.Diff(two, Of(sitetest.New(t, sitetest.TwoDual).Config)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(one, Of(sitetest.New(t, sitetest.OneNone).Config)); diff != "" {
		t.Error(diff)
	}
	c := *sitetest.New(t, sitetest.ThreeV6).Config
	if diff := cmp.Diff(three, Of(&c)); diff != "" {
		t.Error(diff)
	}
	p := *c.Platform.BareMetal
	p.Hosts = []config.Host{{Name: "cp-1", Role: "master"}, {Name: "worker-1", Role: "worker"}, {Name: "any"}, {Name: "cp-2", Role: "master"}}
	c.Platform.BareMetal = &p
	if diff := cmp.Diff(Site{ControlPlanes: 3, Named: []string{"cp-1", "cp-2"}, Shares: 256}, Of(&c)); diff != "" {
		t.Error(diff)
	}
}

func TestWhoMayGoByWhichName(t *testing.T) {
	for _, c := range []struct {
		name string
		site Site
		role state.Role
		host string
		want string
	}{
		{"a worker", two, state.RoleWorker, "worker-1", ""},
		{"a worker by its full name", two, state.RoleWorker, "worker-1.shop.example.test", ""},
		{"a worker by a fenced host's name", two, state.RoleWorker, "cp-2", "cp-2 is the name of a control plane"},
		{"a worker by the name of a control plane that is known", three, state.RoleWorker, "joined", "joined is the name of a control plane"},
		{"a control plane by its name", two, state.RoleMaster, "cp-2", ""},
		{"a control plane by a name that nobody fences", two, state.RoleMaster, "cp-3", "names cp-1 and cp-2, not cp-3"},
		{"a control plane of three", three, state.RoleMaster, "cp-3", ""},
		{"a known control plane itself", three, state.RoleMaster, "joined", ""},
		{"a second control plane on a site of one", one, state.RoleMaster, "cp-2", "this site has one control plane permanently"},
		{"a worker on a site of one", one, state.RoleWorker, "worker-1", ""},
		{"the first host, which joins nobody", two, state.RoleBootstrap, "cp-1", `role "bootstrap": must be worker or master`},
		{"no role", two, "", "x", "must be worker or master"},
		{"no name", two, state.RoleWorker, "", "may contain only lower-case letters"},
		{"capitals", two, state.RoleWorker, "Worker", "may contain only lower-case letters"},
		{"a path", two, state.RoleWorker, "../cp-1", "may contain only lower-case letters"},
		{"two lines", two, state.RoleWorker, "w\ncp-1", "may contain only lower-case letters"},
		{"endless", two, state.RoleWorker, strings.Repeat("a", 300), "may contain only lower-case letters"},
	} {
		t.Run(c.name, func(t *testing.T) {
			refusedWith(t, c.site.Name(c.role, c.host, []string{"joined"}), c.want)
		})
	}
}

func TestWhichHostIsGivenAToken(t *testing.T) {
	worker := Ask{Host: "worker-1", Role: state.RoleWorker, By: "ask-1"}
	master := Ask{Host: "cp-2", Role: state.RoleMaster, By: "ask-2"}
	old := Token{ID: "aaaaaa", Host: "worker-1", Role: state.RoleWorker, By: "ask-1", Expires: now.Add(time.Minute)}
	others := old
	others.ID, others.By = "bbbbbb", "ask-9"
	foreign := Token{ID: "cccccc", Host: "worker-2", By: "ask-1"}
	upgraded := two
	upgraded.Releases = []string{"sha256:new"}
	for _, c := range []struct {
		name   string
		site   Site
		ask    Ask
		nodes  []state.Node
		tokens []Token
		want   string // part of the refusal
		grant  Grant
	}{
		{"a new worker", two, worker, []state.Node{controlPlane("cp-1", true)}, []Token{foreign}, "", Grant{}},
		{"it asks again before it is a node", two, worker, nil, []Token{old}, "", Grant{Replaces: []string{"aaaaaa"}}},
		{"another installation under its name, before either is a node", two, worker, nil, []Token{others}, "", Grant{Replaces: []string{"bbbbbb"}}},
		{
			"the power was cut after its kubelet had registered", two, worker,
			[]state.Node{node("worker-1", false)},
			[]Token{old},
			"",
			Grant{Replaces: []string{"aaaaaa"}, Token: Token{Rejoins: true}},
		},
		{
			"the same, while another installation asked too", two, worker,
			[]state.Node{node("worker-1", false)},
			[]Token{old, others},
			"",
			Grant{Replaces: []string{"aaaaaa", "bbbbbb"}, Token: Token{Rejoins: true}},
		},
		{"a worker where all control planes are there", two, worker, []state.Node{controlPlane("cp-1", true), controlPlane("cp-2", true)}, nil, "", Grant{}},
		{"the same, of another installation", two, worker, []state.Node{node("worker-1", false)}, []Token{others}, "holdfast host remove worker-1 --is-off worker-1", Grant{}},
		{"the same, and nobody knows of it", two, worker, []state.Node{node("worker-1", false)}, []Token{foreign}, "holdfast host remove worker-1 --is-off worker-1", Grant{}},
		{"a token without a sign of who asked", two, Ask{Host: "worker-1", Role: state.RoleWorker}, []state.Node{node("worker-1", false)}, []Token{{ID: "a", Host: "worker-1"}}, "holdfast host remove worker-1 --is-off worker-1", Grant{}},
		{"a worker that is installed anew", two, worker, []state.Node{node("worker-1", false)}, nil, "if this is the same machine, reinstalled", Grant{}},
		{"a worker by the name of one that runs", two, worker, []state.Node{node("worker-1", true)}, []Token{old}, "worker-1 is already a node of this cluster, and ready: give this host another name", Grant{}},
		{"a worker by the name of a control plane", two, Ask{Host: "cp-1", Role: state.RoleWorker, By: "x"}, nil, nil, "cp-1 is the name of a control plane", Grant{}},
		{"a worker by the name of a control plane that nobody named", three, Ask{Host: "cp-9", Role: state.RoleWorker, By: "x"}, []state.Node{controlPlane("cp-9", false)}, nil, "cp-9 is the name of a control plane", Grant{}},
		{"the second control plane", two, master, []state.Node{controlPlane("cp-1", true), node("worker-1", true)}, nil, "", Grant{}},
		{"a control plane that is installed anew", two, master, []state.Node{controlPlane("cp-1", true), controlPlane("cp-2", false)}, nil, "cp-2 is already a control plane of this cluster: if it is lost, and this machine takes its place, or is the same one, reinstalled, run on a control plane that stays: holdfast host replace cp-2", Grant{}},
		{
			"a control plane whose join was cut off", two, master,
			[]state.Node{controlPlane("cp-1", true), controlPlane("cp-2", false)},
			[]Token{{ID: "dddddd", Host: "cp-2", Role: state.RoleMaster, By: "ask-2"}},
			"",
			Grant{Replaces: []string{"dddddd"}, Token: Token{Rejoins: true}},
		},
		{
			"a control plane asks again before it is a node", two, master,
			[]state.Node{controlPlane("cp-1", true)},
			[]Token{{ID: "eeeeee", Host: "cp-2", Role: state.RoleMaster, By: "ask-2", Expires: now.Add(time.Minute)}},
			"",
			Grant{Replaces: []string{"eeeeee"}},
		},
		{
			"another machine by the name of a control plane that is joining", two, master,
			[]state.Node{controlPlane("cp-1", true)},
			[]Token{{ID: "ffffff", Host: "cp-2", Role: state.RoleMaster, By: "ask-8", Expires: now.Add(time.Minute)}},
			"another machine is joining as cp-2, or this one before it was reinstalled: switch the other one off; this host goes on by itself " +
				"once the other's token has ended, at 2026-11-20T08:01:00Z, or at once after kubectl -n kube-system delete secret bootstrap-token-ffffff",
			Grant{},
		},
		{
			"the same, once that machine's token has ended", two, master,
			[]state.Node{controlPlane("cp-1", true)},
			[]Token{{ID: "ffffff", Host: "cp-2", Role: state.RoleMaster, By: "ask-8", Expires: now}},
			"",
			Grant{Replaces: []string{"ffffff"}},
		},
		{
			"a worker by the name of a control plane that is joining", three, worker, nil,
			[]Token{{ID: "ffffff", Host: "worker-1", Role: state.RoleMaster, By: "ask-8", Expires: now.Add(time.Minute)}},
			"another machine is joining as worker-1",
			Grant{},
		},
		{"a control plane by the name of a worker", three, Ask{Host: "worker-1", Role: state.RoleMaster, By: "x"}, []state.Node{node("worker-1", false)}, nil, "worker-1 is already a node of this cluster", Grant{}},
		{
			"a fourth control plane on a site of three", three,
			Ask{Host: "cp-4", Role: state.RoleMaster, By: "x"},
			[]state.Node{controlPlane("cp-1", true), controlPlane("cp-2", true), controlPlane("cp-3", false)},
			nil,
			"this site has 3 control planes and all are nodes (cp-1, cp-2, cp-3)",
			Grant{},
		},
		{"a host of the site's release", upgraded, Ask{Host: "worker-1", Role: state.RoleWorker, Release: "sha256:new"}, nil, nil, "", Grant{}},
		{"a host that does not say its release", upgraded, Ask{Host: "worker-1", Role: state.RoleWorker}, nil, nil, "", Grant{}},
		{"a host, and nobody knows the site's release", two, Ask{Host: "worker-1", Role: state.RoleWorker, Release: "sha256:new"}, nil, nil, "", Grant{}},
		{
			"a host whose configuration is from before an upgrade", upgraded,
			Ask{Host: "worker-1", Role: state.RoleWorker, Release: "sha256:old"},
			nil, nil,
			"this host was installed from the release sha256:old, and the site runs sha256:new: install the host anew",
			Grant{},
		},
		{"a second control plane on a site of one", one, master, []state.Node{controlPlane("cp-1", true)}, nil, "this site has one control plane", Grant{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Decide(c.site, c.ask, c.nodes, state.Fact[[]Member]{}, c.tokens, now)
			refusedWith(t, err, c.want)
			if c.want == "" {
				c.grant.Host, c.grant.Role, c.grant.By, c.grant.Expires = c.ask.Host, c.ask.Role, c.ask.By, now.Add(time.Hour)
			}
			if diff := cmp.Diff(c.grant, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// While an upgrade is under way, control planes run two releases. What a worker says does not count.
func TestTheReleasesOfASiteAreThoseOfItsControlPlanes(t *testing.T) {
	says := func(n state.Node, digest string) state.Node {
		text, err := annotation.Encode(annotation.Host{Release: gate.Release{Digest: digest}})
		if err != nil {
			t.Fatal(err)
		}
		n.Annotations = map[string]string{annotation.HostOf: text}
		return n
	}
	torn := controlPlane("cp-3", true)
	torn.Annotations = map[string]string{annotation.HostOf: "{"}
	nodes := []state.Node{says(controlPlane("cp-1", true), "sha256:new"), says(controlPlane("cp-2", true), "sha256:old"), torn, says(node("worker-1", true), "sha256:odd")}
	for own, want := range map[string][]string{"sha256:new": {"sha256:new", "sha256:old"}, "": {"sha256:new", "sha256:old"}, "sha256:newer": {"sha256:new", "sha256:newer", "sha256:old"}} {
		if got := Releases(own, nodes); !slices.Equal(got, want) {
			t.Errorf("%q: %v", own, got)
		}
	}
	if got := Releases("", nil); len(got) != 0 {
		t.Errorf("of nobody: %v", got)
	}
}

func TestATokenHasServedWhenItsHostIsReady(t *testing.T) {
	tokens := []Token{{ID: "a", Host: "worker-1"}, {ID: "b", Host: "worker-2"}, {ID: "c", Host: "worker-3"}}
	got := Done(tokens, []state.Node{node("worker-1", true), node("worker-2", false), node("worker-4", true)})
	if diff := cmp.Diff(tokens[:1], got); diff != "" {
		t.Error(diff)
	}
}
