// Package joining decides who becomes a node: for which roles a site takes
// further hosts, under which names, which host gets a bootstrap token, whose
// request for a kubelet's certificate is approved, for which names and addresses a
// kubelet may serve, and which worker gets another certificate in exchange for an
// expired one.
package joining

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/decide/upgrade/annotation"
	"github.com/holdfast/holdfast/internal/model/config"
	"github.com/holdfast/holdfast/internal/model/state"
)

// TokenLifetime is the life of a host's bootstrap token. A host asks for it when
// only the joining itself is left, and may ask again.
const TokenLifetime = time.Hour

// Group is the group of the bootstrap tokens. It is not kubeadm's: each upgrade
// of kubeadm binds its own group again to rights that these tokens must not
// have, above all that any node's certificate is approved.
const Group = "system:bootstrappers:holdfast:joining"

// Refusal tells the person who installs a host why it is not taken. It holds no
// secret.
type Refusal string

func (r Refusal) Error() string { return string(r) }

func refuse(format string, args ...any) error { return Refusal(fmt.Sprintf(format, args...)) }

// Site holds what the configuration says about who may join.
type Site struct {
	// ControlPlanes is the number of control planes, for the life of the site.
	ControlPlanes int
	// Fenced names the two control planes that switch each other off.
	Fenced []string
	// Third is the name of the third control plane that a plan brings to two, empty without one
	// (docs/adr/0097). Nobody fences it.
	Third string
	// Named holds the names of all control planes in the configuration.
	Named []string
	// Releases are the digests of the releases that control planes run; empty if nobody knows.
	Releases []string
	// Shares is the number of hosts for which the pod network has room, 0 if it is not known.
	Shares int
}

// Of reads the Site from a configuration.
func Of(c *config.InstallConfig) Site {
	s := Site{ControlPlanes: c.ControlPlaneReplicas(), Shares: c.PodShares()}
	if f := c.ControlPlane.Fencing; f != nil {
		for _, cred := range f.Credentials {
			s.Fenced = append(s.Fenced, cred.HostName)
		}
	}
	s.Named = slices.Clone(s.Fenced)
	if p := c.Platform.BareMetal; p != nil {
		for _, h := range p.Hosts {
			if h.Role == string(state.RoleMaster) {
				s.Named = append(s.Named, h.Name)
			}
		}
	}
	return s
}

// Role returns why the site takes no further host of a role, nil if it does. A
// second control plane on a site of one would be a voter of etcd that nobody
// fences, and the loss of either would stop the cluster.
func (s Site) Role(role state.Role) error {
	switch {
	case role != state.RoleMaster && role != state.RoleWorker:
		return refuse("role %q: must be worker or master", role)
	case role == state.RoleMaster && s.ControlPlanes == 1:
		return refuse("role master: this site has one control plane permanently (controlPlane.replicas: 1); " +
			"let the host join as a worker, or install a site with 2 or 3")
	}
	return nil
}

// hostName matches the valid names of a node, RFC 1123.
var hostName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$`)

// Name returns why a host of a role may not have a name, nil if it may. known
// holds control planes that the configuration does not name: those that joined,
// and those that are being installed.
func (s Site) Name(role state.Role, host string, known []string) error {
	if err := s.Role(role); err != nil {
		return err
	}
	switch {
	case !hostName.MatchString(host):
		return refuse("the host's name may contain only lower-case letters, digits, - and . (hostnamectl set-hostname)")
	case role == state.RoleMaster && len(s.Fenced) > 0 && !slices.Contains(s.Fenced, host) && (s.Third == "" || host != s.Third):
		return refuse("controlPlane.fencing.credentials names %s, not %s: the host could not be fenced", strings.Join(s.Fenced, " and "), host)
	case role == state.RoleWorker && (host == s.Third || slices.Contains(s.Named, host) || slices.Contains(known, host)):
		return refuse("%s is the name of a control plane: give the worker another name", host)
	}
	return nil
}

// Ask describes a host that asks for a bootstrap token.
type Ask struct {
	Host string
	Role state.Role
	// By is the id of the host token that is shown. It tells this installation of
	// the host from another one under the same name.
	By string
	// Release is the digest of the release that the host installed itself from; empty if it does
	// not say, as a host of an earlier release.
	Release string
	// NewEtcd is the peer URL at which kubeadm starts an etcd without data on the host; empty if it
	// starts none, if the host has data, or if the host does not say, as one of an earlier release.
	NewEtcd string
}

// Token is a bootstrap token, as in its Secret.
type Token struct {
	// ID is the part that is no secret.
	ID   string
	Host string
	Role state.Role
	By   string
	// Rejoins is true if the host's Node was there when the token was made.
	Rejoins bool
	Expires time.Time
	// UsedBy is the request that was approved with it, empty before.
	UsedBy string
}

// Grant describes a token to make.
type Grant struct {
	Token
	// Replaces lists older tokens of the host, which end.
	Replaces []string
}

// Decide returns the token that a host gets, or a Refusal. The name of a node is
// taken, because a machine cannot prove that it is the one that had the name. It
// can only show that it is the very installation that the Node came from, if
// that was cut off before the Node was ever ready. members are those of etcd, which only the token
// of a host with a NewEtcd needs.
func Decide(s Site, a Ask, nodes []state.Node, members state.Fact[[]Member], tokens []Token, now time.Time) (Grant, error) {
	if err := s.Name(a.Role, a.Host, controlPlanes(nodes)); err != nil {
		return Grant{}, err
	}
	if a.Release != "" && len(s.Releases) > 0 && !slices.Contains(s.Releases, a.Release) {
		return Grant{}, refuse("this host was installed from the release %s, and the site runs %s: install the host anew. Its next configuration names the release of the site (holdfast create join-config --host %s makes a pointer to it)",
			a.Release, strings.Join(s.Releases, " and "), a.Host)
	}
	g := Grant{Token: Token{Host: a.Host, Role: a.Role, By: a.By, Expires: now.Add(TokenLifetime)}}
	same := false
	var err error
	for _, t := range tokens {
		if t.Host != a.Host {
			continue
		}
		g.Replaces = append(g.Replaces, t.ID)
		mine := t.By == a.By && a.By != ""
		same = same || mine
		if !mine && t.keeps(a.Role, now) {
			err = joins(t)
		}
	}
	if i := slices.IndexFunc(nodes, func(n state.Node) bool { return n.Name == a.Host }); i >= 0 {
		if !same || nodes[i].Ready {
			return Grant{}, taken(nodes[i])
		}
		g.Rejoins = true
	}
	if err := a.forgets(members); err != nil {
		return Grant{}, err
	}
	if err != nil {
		return Grant{}, err
	}
	others := slices.DeleteFunc(controlPlanes(nodes), func(name string) bool { return name == a.Host })
	room := s.ControlPlanes
	if s.Third != "" && a.Host == s.Third {
		room++
	}
	if a.Role == state.RoleMaster && len(others) >= room {
		return Grant{}, refuse("this site has %d control planes and all are nodes (%s): to give the place of a lost one to another machine, run on a control plane that stays: holdfast host replace NAME",
			s.ControlPlanes, strings.Join(others, ", "))
	}
	return g, nil
}

// Releases returns the releases that control planes run: own, of the one that answers, and what the
// others say of themselves. While an upgrade is under way there are two.
func Releases(own string, nodes []state.Node) []string {
	out := []string{own}
	for _, n := range nodes {
		said, err := annotation.Decode[annotation.Host](n.Annotations[annotation.HostOf])
		if n.ControlPlane() && err == nil {
			out = append(out, said.Release.Digest)
		}
	}
	slices.Sort(out)
	return slices.Compact(slices.DeleteFunc(out, func(digest string) bool { return digest == "" }))
}

// keeps reports whether a token keeps other installations of a role from the name of its
// host. kubeadm makes a control plane a voter of etcd before it asks for the Node: of two
// machines that both get that far under one name, one stays a voter that nobody knows.
func (t Token) keeps(role state.Role, now time.Time) bool {
	return (role == state.RoleMaster || t.Role == state.RoleMaster) && t.Expires.After(now)
}

// joins tells a person that another installation joins by the name. The end of its token
// bounds the wait: a host that is refused gets no other one.
func joins(t Token) error {
	return refuse("another machine is joining as %s, or this one before it was reinstalled: switch the other one off; "+
		"this host goes on by itself once the other's token has ended, at %s, or at once after kubectl -n kube-system delete secret bootstrap-token-%s",
		t.Host, t.Expires.UTC().Format(time.RFC3339), t.ID)
}

// taken tells a person what to do about a name that a node has.
func taken(n state.Node) error {
	switch {
	case n.Ready:
		return refuse("%s is already a node of this cluster, and ready: give this host another name", n.Name)
	case n.ControlPlane():
		return refuse("%s is already a control plane of this cluster: if it is lost, and this machine takes its place, or is the same one, reinstalled, run on a control plane that stays: holdfast host replace %[1]s", n.Name)
	}
	return refuse("%s is already a node of this cluster: if this is the same machine, reinstalled, remove the old node: holdfast host remove %[1]s --is-off %[1]s", n.Name)
}

func controlPlanes(nodes []state.Node) []string {
	var out []string
	for _, n := range nodes {
		if n.ControlPlane() {
			out = append(out, n.Name)
		}
	}
	return out
}

// Done returns the tokens that have served: their host is a node that is ready.
func Done(tokens []Token, nodes []state.Node) []Token {
	var out []Token
	for _, t := range tokens {
		if slices.ContainsFunc(nodes, func(n state.Node) bool { return n.Name == t.Host && n.Ready }) {
			out = append(out, t)
		}
	}
	return out
}
